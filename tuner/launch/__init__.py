"""Launching: `tuner.load` looks up the best configuration and builds it; the `Kernel` that it returns launches it."""
