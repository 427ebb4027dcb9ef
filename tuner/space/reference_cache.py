"""Matrix products of a reference, computed once for a run however often its worker is replaced.

They are what a reference's time goes into: 8192 x 8192 in float64 takes seconds on many cores. The rest is one pass
over the arrays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Products:
    """Products by name, kept in a file without a name that parent and children share: it is gone with the last of
    them, however they end."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        """`file` is open for reading and writing; without one, products are kept for this process alone."""
        self._file = file
        self._known: dict[str, Array] = {}
        if file is not None:
            self._read(file)

    def get(self, name: str, make: Callable[[], Array]) -> Array:
        """The product called `name`, computed by `make()` where it is not known."""
        if name not in self._known:
            self._known[name] = make()
            if self._file is not None:
                try:
                    self._append(self._file, name, self._known[name])
                except OSError:  # a full disk costs the next worker the same work again; what is torn stays the last
                    self._file = None
        return self._known[name]

    def _read(self, file: BinaryIO) -> None:
        """All products, up to one that was cut short by a kill: the next is written over it."""
        file.seek(0)
        whole = 0
        with contextlib.suppress(EOFError, ValueError, OSError):
            while True:
                whole = file.tell()
                name = str(np.load(file))
                self._known[name] = np.load(file)
        file.seek(whole)

    def _append(self, file: BinaryIO, name: str, product: Array) -> None:
        np.save(file, np.array(name))
        np.save(file, product)
        file.flush()
