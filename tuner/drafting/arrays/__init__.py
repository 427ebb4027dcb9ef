"""What the indices of kernels tell: shapes of arrays, grids, block sizes."""
