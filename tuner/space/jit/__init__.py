"""Kernels that are functions of Python files, such as Triton's: read by their syntax alone, never imported."""
