"""Which kernels a word of a command line denotes, among those that have records."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tuner.catalog import catalog, folders
from tuner.errors import RequestError
from tuner.quoting import quoted


def matching(text: str, names: Sequence[str]) -> list[str]:
    """The kernels that `text` denotes: by name, pattern, family or part of a name, whichever matches first.

    Raises RequestError if there are none.
    """
    if Path(text).suffix in folders.SUFFIXES:
        text = catalog.find(text)[1]
    matchers: Iterable[Callable[[str], bool]] = (
        lambda name: name == text,
        lambda name: fnmatch.fnmatchcase(name, text),
        lambda name: name.rpartition("/")[0] == text,
        lambda name: catalog.is_part(text, name),
    )
    for is_match in matchers:
        if found := [name for name in names if is_match(name)]:
            return found
    raise RequestError(f"kernel {quoted(text)}: the store has no record of such a kernel; `tune report` shows all")
