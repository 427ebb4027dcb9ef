"""What models of times have learnt, in files of the cache: a process that starts needs not learn it again.

A file is named by what it was learnt from: times, space files, code, and what the library tells at some sizes. Without
a cache that can be written, or where a file is damaged, a model learns again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tuner import paths
from tuner.errors import RequestError
from tuner.prediction.amounts import Array

MOST_FILES = 32  # of which the least recently used are deleted
# The modules that learn, and those that say what from.
LEARNERS = (
    "prediction/*.py",
    "store/*.py",
    "space/**/*.py",
    "families/products.py",
    "devices/product.py",
    "devices/cuda/blas/cublas_tiles.py",
    "devices/cuda/blas/gemm.py",
)


def name(given: Iterable[Array | str]) -> str:
    """The name of what is learnt from these numbers and texts."""
    sha = hashlib.sha256(_code())
    for each in given:
        if isinstance(each, str):
            sha.update(each.encode())
        else:
            sha.update(f"{each.shape} {each.dtype}".encode() + np.ascontiguousarray(each).tobytes())
    return sha.hexdigest()[:32]


def read(name: str, fields: Collection[str]) -> Mapping[str, np.ndarray[Any, Any]] | None:
    """What was learnt under this name, by field; None if it is not there, or damaged."""
    with contextlib.suppress(OSError, RequestError, ValueError, KeyError, zipfile.BadZipFile):
        path = paths.cache_folder() / "models" / name
        if not os.path.isfile(path) or (data := paths.read_checked(_folder() / name)) is None:
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            found = {field: file[field] for field in fields}
        with contextlib.suppress(OSError):  # a read-only cache still serves
            os.utime(path)
        return found
    return None


def write(name: str, learnt: Mapping[str, Array]) -> None:
    """Keep what was learnt. A cache that cannot be written stays as it is."""
    with contextlib.suppress(OSError, RequestError):
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **learnt)
        paths.write_checked(_folder() / name, file.getvalue())
        files = sorted(_folder().iterdir(), key=lambda path: path.stat().st_mtime)
        for path in files[:-MOST_FILES]:
            path.unlink(missing_ok=True)


def _folder() -> Path:
    return paths.private(paths.cache() / "models")


@functools.cache
def _code() -> bytes:
    """These modules as they are."""
    here = Path(__file__).parent.parent
    files = [file for pattern in LEARNERS for file in sorted(here.glob(pattern))]
    return paths.digest(*(file.read_bytes() for file in files)).encode()
