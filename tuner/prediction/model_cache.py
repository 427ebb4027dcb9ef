"""Time models on disk, in the cache folder, so that a new process need not train them again.

A file is named by a hash of the training data: times, space files, code, and the library's tiles at some sizes. If the
cache is not writable or a file is corrupt, the model is trained again.
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

MOST_FILES = 32  # beyond this number, the least recently used files are deleted
# Source files that determine the learned state or its training data; a change to any of them invalidates the cache.
LEARNERS = (
    "prediction/*.py",
    "store/*.py",
    "space/**/*.py",
    "families/products.py",
    "devices/product.py",
    "devices/cuda/blas/cublas_tiles.py",
    "devices/cuda/blas/gemm.py",
)


def name(training_data: Iterable[Array | str]) -> str:
    """File name of the model trained on these arrays and texts: 32 hexadecimal digits."""
    sha = hashlib.sha256(_code())
    for each in training_data:
        if isinstance(each, str):
            sha.update(each.encode())
        else:
            sha.update(f"{each.shape} {each.dtype}".encode() + np.ascontiguousarray(each).tobytes())
    return sha.hexdigest()[:32]


def read(name: str, fields: Collection[str]) -> Mapping[str, np.ndarray[Any, Any]] | None:
    """The arrays of the file of this name, by field; None if the file is missing or corrupt."""
    with contextlib.suppress(OSError, RequestError, ValueError, KeyError, zipfile.BadZipFile):
        path = paths.cache_folder() / "models" / name
        if not os.path.isfile(path) or (data := paths.read_checked(_folder() / name)) is None:
            return None
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {field: file[field] for field in fields}
        with contextlib.suppress(OSError):  # a read-only cache can still be read
            os.utime(path)
        return arrays
    return None


def write(name: str, learnt: Mapping[str, Array]) -> None:
    """Write the arrays to the file of this name, and delete old files. Does nothing if the cache is not writable."""
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
    """Digest of the source files in LEARNERS."""
    package = Path(__file__).parent.parent
    files = [file for pattern in LEARNERS for file in sorted(package.glob(pattern))]
    return paths.digest(*(file.read_bytes() for file in files)).encode()
