"""Compilers that are programs: their processes, and the files that they read."""
