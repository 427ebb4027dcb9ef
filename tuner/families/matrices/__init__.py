"""`tuner.matmul`: products of matrices with any strides."""
