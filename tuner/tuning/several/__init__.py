"""Several problems in one run: many sizes, the kernels of a family, covers, and what look-ups missed."""
