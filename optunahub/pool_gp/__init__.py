"""Bayesian optimisation over a finite list of valid configurations."""

from .sampler import PoolGPSampler

__all__ = ["PoolGPSampler"]
