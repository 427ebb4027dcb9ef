"""Checks that a space and its source agree: arguments, macros, flags, declared memory, and what compilers ignore."""
