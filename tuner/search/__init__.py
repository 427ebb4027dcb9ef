"""Search: the valid configurations of a space, and the strategies that choose the next one to measure.

`PoolGPSampler` is the default strategy as a sampler for any Optuna study, `ListSearch` the same for any loop.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.search.list_search import ListSearch
    from tuner.search.sampler import PoolGPSampler

__all__ = ["ListSearch", "PoolGPSampler"]


def __getattr__(name: str) -> object:
    if name == "PoolGPSampler":  # imported on first use, because it imports Optuna
        from tuner.search.sampler import PoolGPSampler

        return PoolGPSampler
    if name == "ListSearch":  # imports NumPy
        from tuner.search.list_search import ListSearch

        return ListSearch
    raise AttributeError(f"module 'tuner.search' has no attribute {name!r}")
