"""Search: the valid configurations of a space, and the strategies that choose the next one to measure.

`PoolGPSampler` is the default strategy, as a sampler for any Optuna study.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.search.sampler import PoolGPSampler

__all__ = ["PoolGPSampler"]


def __getattr__(name: str) -> object:
    if name == "PoolGPSampler":  # imported on first use, because it imports Optuna
        from tuner.search.sampler import PoolGPSampler

        return PoolGPSampler
    raise AttributeError(f"module 'tuner.search' has no attribute {name!r}")
