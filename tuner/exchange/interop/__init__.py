"""Files of other tuners: Kernel Tuner's caches and results, T1 and T4 files."""
