"""The expected outputs of a kernel: computed on the device or the host from whatever reference the space names."""
