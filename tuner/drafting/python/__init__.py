"""Drafts of spaces for kernels in Python files, from the text of the file."""
