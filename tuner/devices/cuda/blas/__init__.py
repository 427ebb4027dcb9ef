"""cuBLAS and cuBLASLt: as a peer beside our kernels, and on the caller's arrays."""
