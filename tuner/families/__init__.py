"""Families: kernels of one operation. The arrays of a call decide which one runs, and in which configuration."""
