"""Tuning of several problems in one run: many sizes, the kernels of a family, covers, and misses of look-ups."""
