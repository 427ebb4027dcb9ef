"""Our own CUDA, OpenCL and C kernels that fill, restore, poison and compare the arrays of a measurement."""
