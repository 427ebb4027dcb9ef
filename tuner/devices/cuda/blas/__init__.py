"""cuBLAS and cuBLASLt, as a baseline for kernels and as a launch on the caller's arrays."""
