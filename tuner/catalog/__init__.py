"""The catalog: finds kernels by name, whether shipped with tuner, written by the user or installed in wheels."""
