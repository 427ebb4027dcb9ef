"""Convolutions and correlations of arrays: NumPy computes small ones, SciPy large ones.

Importing scipy.signal takes a second, which is long for a command that only checks a space file.
"""

import itertools
from typing import Any

import numpy as np

from tuner.space import dtypes

MOST_TERMS = 1 << 10  # elements of the smaller array; each costs one pass over the larger one
MOST_PRODUCTS = 1 << 22  # multiplications
_MODES = ("full", "same", "valid")


def correlate(array: Any, kernel: Any, mode: str = "full") -> Any:
    """`scipy.signal.correlate`; exact for integers."""
    array, kernel = np.asarray(array), np.asarray(kernel)
    if not _is_small(array, kernel, mode):
        return _by_scipy("correlate", array, kernel, mode)
    return _convolved(array, np.conj(np.flip(kernel)), mode)


def convolve(array: Any, kernel: Any, mode: str = "full") -> Any:
    """`scipy.signal.convolve`; exact for integers."""
    array, kernel = np.asarray(array), np.asarray(kernel)
    if not _is_small(array, kernel, mode):
        return _by_scipy("convolve", array, kernel, mode)
    return _convolved(array, kernel, mode)


def _is_small(array: Any, kernel: Any, mode: str) -> bool:
    """Whether `_convolved` computes it. Invalid arguments go to SciPy, which has messages for them."""
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
    """The convolution as a sum: the larger array, shifted to and multiplied by each element of the smaller one."""
    smaller, larger = sorted((kernel, array), key=np.size)
    full = np.zeros([a + k - 1 for a, k in zip(array.shape, kernel.shape, strict=True)], array.dtype)
    for index in itertools.product(*map(range, smaller.shape)):
        full[tuple(slice(begin, begin + extent) for begin, extent in zip(index, larger.shape, strict=True))] += (
            larger * smaller[index]
        )
    if mode == "full":
        return full
    shape = array.shape
    if mode == "valid":
        shape = tuple(abs(a - k) + 1 for a, k in zip(array.shape, kernel.shape, strict=True))
    first = [(outer - inner) // 2 for outer, inner in zip(full.shape, shape, strict=True)]
    return full[tuple(slice(begin, begin + extent) for begin, extent in zip(first, shape, strict=True))]


def _by_scipy(function: str, array: Any, kernel: Any, mode: str) -> Any:
    """The function of scipy.signal; `direct`, which is exact, for integers."""
    from scipy import signal

    exact = all(dtypes.of(operand.dtype).is_exact for operand in (array, kernel))
    return getattr(signal, function)(array, kernel, mode=mode, method="direct" if exact else "auto")
