"""Matrix products of a reference, computed once per run, even if its worker is replaced.

They dominate the time of a reference: 8192 x 8192 in float64 takes seconds on many cores. The rest is one pass over the
arrays.
"""

import contextlib
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class ReferenceCache:
    """Matrix products by name, in an unnamed file that parent and children share. The file goes with the last of
    them, however they end."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        """`file` is open for reading and writing. Without it, the cache serves this process alone."""
        self._file = file
        self._products: dict[str, Array] = {}
        if file is not None:
            self._read(file)

    def get(self, name: str, compute: Callable[[], Array]) -> Array:
        """The product called `name`; `compute()` is called if the cache lacks it."""
        if name not in self._products:
            self._products[name] = compute()
            if self._file is not None:
                try:
                    self._append(self._file, name, self._products[name])
                except OSError:  # the disk is full: the next worker computes again; a torn product stays the last one
                    self._file = None
        return self._products[name]

    def _read(self, file: BinaryIO) -> None:
        """Read all products, up to one that a kill cut short. The next product overwrites that one."""
        file.seek(0)
        end = 0
        with contextlib.suppress(EOFError, ValueError, OSError):
            while True:
                end = file.tell()
                name = str(np.load(file))
                self._products[name] = np.load(file)
        file.seek(end)

    def _append(self, file: BinaryIO, name: str, product: Array) -> None:
        np.save(file, np.array(name))
        np.save(file, product)
        file.flush()
