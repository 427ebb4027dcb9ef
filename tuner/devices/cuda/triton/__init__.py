"""Triton as a compiler of kernels for NVIDIA GPUs: it runs in a process of its own, and launches need nothing of it."""
