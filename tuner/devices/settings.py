"""Settings: environment variables that change threads, memory or code, read once and compared with their defaults.

Each backend names its own, one by one, because most variables select a device, name a cache or print. A variable that
is unset, empty or set to its default is no condition of a trial.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tuner import paths
from tuner.devices.conditions import Value

Settings = Mapping[str, Value]  # by the name of the variable

# How a process on a CPU gets its memory; an empty text is the default of a variable whose default has no value.
MEMORY: Settings = {
    "GLIBC_TUNABLES": "",
    "MALLOC_ARENA_MAX": "",
    "MALLOC_MMAP_MAX_": "",
    "MALLOC_MMAP_THRESHOLD_": "",
    "MALLOC_TOP_PAD_": "",
    "MALLOC_TRIM_THRESHOLD_": "",
    "NUMPY_MADVISE_HUGEPAGE": 1,
}
LONGEST = 200  # characters of a value; a digest stands for a longer one
LARGEST = 2**63  # the largest number that is stored as one
_WORDS = {"true": 1, "yes": 1, "on": 1, "false": 0, "no": 0, "off": 0}


def effective(defaults: Settings) -> dict[str, Value]:
    """The value of each variable in `defaults`: that of the environment, else its default."""
    return {name: read(name, default) for name, default in defaults.items()}


def read(name: str, default: Value = "") -> Value:
    """The value of a variable: a number if it is one, 1 or 0 for words such as `true`, else its text."""
    text = " ".join(os.environ.get(name, "").split())
    if not text:
        return default
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    if text.removeprefix("-").removeprefix("+").isdecimal() and abs(int(text)) < LARGEST:
        return int(text)
    return text if text.isprintable() and len(text) <= LONGEST else f"digest {paths.digest(text)}"
