"""Measuring: whether a kernel's result is right, and how long it takes."""
