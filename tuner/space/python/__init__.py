"""Spaces that are made of Python objects in place of a space file."""
