"""Which configuration next: the valid ones, and the strategies that choose among them.

`PoolGPSampler` is the default strategy as a sampler for any Optuna study.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.search.sampler import PoolGPSampler

__all__ = ["PoolGPSampler"]


def __getattr__(name: str) -> object:
    if name == "PoolGPSampler":  # imported when it is asked for: it imports Optuna
        from tuner.search.sampler import PoolGPSampler

        return PoolGPSampler
    raise AttributeError(f"module 'tuner.search' has no attribute {name!r}")
