"""Convolutions and correlations of arrays: NumPy computes small ones and those of which an FFT would lose elements.

Importing scipy.signal takes a second, which is long for a command that only checks a space file.
"""

import functools
import itertools
from typing import Any

import numpy as np

from tuner.space import dtypes

MOST_TERMS = 1 << 10  # elements of the smaller array; each costs one pass over the larger one
MOST_PRODUCTS = 1 << 22  # multiplications
MOST_NOISE = 1 << 30  # by which the smallest sum of magnitudes is above the errors of an FFT
_MODES = ("full", "same", "valid")


def correlate(array: Any, kernel: Any, mode: str = "full") -> Any:
    """`scipy.signal.correlate`; exact for integers."""
    array, kernel = np.asarray(array), np.asarray(kernel)
    return _computed("correlate", array, kernel, np.conj(np.flip(kernel)), mode)


def convolve(array: Any, kernel: Any, mode: str = "full") -> Any:
    """`scipy.signal.convolve`; exact for integers."""
    array, kernel = np.asarray(array), np.asarray(kernel)
    return _computed("convolve", array, kernel, kernel, mode)


def _computed(function: str, array: Any, kernel: Any, flipped: Any, mode: str) -> Any:
    """A function of scipy.signal, whose FFT is for floats alone, and whose sums over several axes take several times as
    long as `_convolved`."""
    fits = _fits(array, kernel, mode)
    if fits and min(array.size, kernel.size) <= MOST_TERMS and array.size * kernel.size <= MOST_PRODUCTS:
        return _convolved(array, flipped, mode)
    from scipy import signal

    exact = all(dtypes.of(operand.dtype).is_exact for operand in (array, kernel))
    compute = functools.partial(getattr(signal, function), array, kernel, mode)
    if not exact and signal.choose_conv_method(array, kernel, mode) == "fft" and _are_resolved(array, flipped, mode):
        return compute(method="fft")
    return _convolved(array, flipped, mode) if fits and array.ndim > 1 else compute(method="direct")


def _are_resolved(array: Any, kernel: Any, mode: str) -> bool:
    """Whether an FFT computes all elements. It rounds each by the largest ones: sums of small terms and zeros become
    noise, and a NaN or an infinity makes all elements NaN."""
    if not (np.isfinite(array).all() and np.isfinite(kernel).all()):
        return False
    from scipy import signal

    sums = signal.convolve(np.abs(array), np.abs(kernel), mode, method="fft")  # of the magnitudes of the terms
    noise = np.linalg.norm(array) * np.linalg.norm(kernel) / np.sqrt(max(array.size, kernel.size))
    return bool(np.min(sums) > MOST_NOISE * np.finfo(sums.dtype).eps * noise)


def _fits(array: Any, kernel: Any, mode: str) -> bool:
    """Whether `_convolved` can compute it. Invalid arguments go to SciPy, which has messages for them."""
    pairs = list(zip(array.shape, kernel.shape, strict=False))
    covers = all(a >= k for a, k in pairs) or all(a <= k for a, k in pairs)
    return (
        array.ndim == kernel.ndim > 0
        and mode in _MODES
        and (covers or mode != "valid")
        and array.dtype.kind in "iufc"
        and array.dtype == kernel.dtype
        and min(array.size, kernel.size) > 0
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
