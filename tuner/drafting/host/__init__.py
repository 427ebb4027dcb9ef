"""The host code around a kernel: what it allocates for each array, and with which grid and block it launches."""
