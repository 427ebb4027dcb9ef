"""Files of other tuners: Kernel Tuner's caches, T1 and T4 files."""
