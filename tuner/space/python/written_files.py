"""Files for what a space in Python holds in memory: texts of kernels, and arrays."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from tuner import paths
from tuner.errors import EnvironmentTrouble
from tuner.languages import LANGUAGES
from tuner.space.expressions import braces

MOST_SOURCES = 1000  # texts of kernels in the cache
_CUDA = re.compile(r"\b__global__\b|\bKERNEL\b")
_OPENCL = re.compile(r"\b(__kernel|kernel\s+void|__global)\b")
_arrays: dict[int, Path] = {}  # the folder of arrays, by the process that made it


def stem(kernel: object) -> str:
    """The name of a file for a kernel: `add` for `ns::add<{threads}>`."""
    words = re.findall(r"[A-Za-z_]\w*", braces.function(kernel)) if isinstance(kernel, str) else []
    return words[-1][:100] if words else "kernel"


def source(text: str, name: str, languages: Collection[str]) -> Path:
    """A file in the cache that holds the text of a kernel. Its name has the suffix of the language.

    The same text has the same file. Raises EnvironmentTrouble if it cannot be written.
    """
    root = paths.private(paths.cache() / "sources")
    file = paths.private(root / paths.digest(text)[:16]) / f"{name}{suffix(text, languages)}"
    data = text.encode("utf-8", "surrogatepass")
    try:
        if not file.is_file() or file.read_bytes() != data:
            paths.replace(file, data)
            _shorten(root)
        os.utime(file.parent)
    except OSError as error:
        raise EnvironmentTrouble(
            f"{file}: cannot be written: {error.strerror}; choose another folder with TUNER_CACHE"
        ) from None
    return file


def _shorten(root: Path) -> None:
    """Remove the texts that were not used for the longest time, if there are more than MOST_SOURCES."""
    folders = [entry.path for entry in os.scandir(root)]
    if len(folders) > MOST_SOURCES:
        for folder in sorted(folders, key=os.path.getmtime)[: MOST_SOURCES // 2]:
            shutil.rmtree(folder, ignore_errors=True)


def suffix(text: str, languages: Collection[str]) -> str:
    """The suffix of a kernel in one of these languages; without any, of the one that its text looks like."""
    known = [LANGUAGES[name].suffix for name in languages if name in LANGUAGES]
    if known:
        return known[0]
    if _CUDA.search(text):
        return LANGUAGES["cuda"].suffix
    return LANGUAGES["opencl" if _OPENCL.search(text) else "c"].suffix


def array(contents: np.ndarray[Any, Any]) -> Path:
    """A .npy file that holds an array until this process ends. Its name says nothing of the contents, because the names
    of files are part of the identity of a space. Raises ValueError for an array of objects."""
    if os.getpid() not in _arrays:
        _arrays[os.getpid()] = Path(tempfile.mkdtemp(prefix="tuner-"))
        atexit.register(_remove, os.getpid())
    folder = _arrays[os.getpid()]
    digest = paths.digest(str(contents.dtype), str(contents.shape), np.ascontiguousarray(contents).tobytes())
    file = folder / digest[:16] / "array.npy"
    if not file.is_file():
        file.parent.mkdir(exist_ok=True)
        np.save(file, contents, allow_pickle=False)
    return file


def _remove(process: int) -> None:
    """Remove the arrays of this process; a fork leaves those of its parent."""
    if process == os.getpid():
        shutil.rmtree(_arrays[process], ignore_errors=True)
