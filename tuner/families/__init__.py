"""Families: kernels of one operation. The arrays of a call decide which kernel runs, in which configuration."""
