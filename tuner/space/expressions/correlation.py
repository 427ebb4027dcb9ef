"""Convolutions and correlations of arrays: small ones are summed here, large ones by SciPy.

Importing SciPy's signal processing takes a second, and that is long for a space file that is only checked.
"""

import itertools
from typing import Any

import numpy as np

from tuner.space import dtypes

MOST_TERMS = 1 << 10  # elements of the smaller array: each is a product of arrays here
MOST_PRODUCTS = 1 << 22
_MODES = ("full", "same", "valid")


def correlate(array: Any, kernel: Any, mode: str = "full") -> Any:
    """`scipy.signal.correlate`; of integers, exact."""
    array, kernel = np.asarray(array), np.asarray(kernel)
    if not _is_small(array, kernel, mode):
        return _by_scipy("correlate", array, kernel, mode)
    return _convolved(array, np.conj(np.flip(kernel)), mode)


def convolve(array: Any, kernel: Any, mode: str = "full") -> Any:
    """`scipy.signal.convolve`; of integers, exact."""
    array, kernel = np.asarray(array), np.asarray(kernel)
    if not _is_small(array, kernel, mode):
        return _by_scipy("convolve", array, kernel, mode)
    return _convolved(array, kernel, mode)


def _is_small(array: Any, kernel: Any, mode: str) -> bool:
    """Whether the sum is ours. SciPy has the messages for what cannot be convolved."""
    pairs = list(zip(array.shape, kernel.shape, strict=False))
    covers = all(a >= k for a, k in pairs) or all(a <= k for a, k in pairs)
    return (
        array.ndim == kernel.ndim > 0
        and mode in _MODES
        and (covers or mode != "valid")
        and array.dtype.kind in "iufc"
        and array.dtype == kernel.dtype
        and 0 < min(array.size, kernel.size) <= MOST_TERMS
        and array.size * kernel.size <= MOST_PRODUCTS
    )


def _convolved(array: Any, kernel: Any, mode: str) -> Any:
    """The sum of one of the two, moved and multiplied by each element of the other."""
    fewer, more = sorted((kernel, array), key=np.size)
    whole = np.zeros([a + k - 1 for a, k in zip(array.shape, kernel.shape, strict=True)], array.dtype)
    for place in itertools.product(*map(range, fewer.shape)):
        whole[tuple(slice(at, at + extent) for at, extent in zip(place, more.shape, strict=True))] += (
            more * fewer[place]
        )
    if mode == "full":
        return whole
    shape = array.shape
    if mode == "valid":
        shape = tuple(abs(a - k) + 1 for a, k in zip(array.shape, kernel.shape, strict=True))
    first = [(there - here) // 2 for there, here in zip(whole.shape, shape, strict=True)]
    return whole[tuple(slice(at, at + extent) for at, extent in zip(first, shape, strict=True))]


def _by_scipy(function: str, array: Any, kernel: Any, mode: str) -> Any:
    from scipy import signal

    exact = all(dtypes.of(operand.dtype).is_exact for operand in (array, kernel))
    return getattr(signal, function)(array, kernel, mode=mode, method="direct" if exact else "auto")
