"""The errors for words that denote no kernel, or several: they say which kernels the user may mean."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.catalog.folders import SUFFIXES
from tuner.errors import RequestError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.catalog.kernel_lists import CatalogEntry

MOST_NAMED = 6  # kernels in a message


def ambiguous(kernel: str, matches: list[CatalogEntry]) -> RequestError:
    """Several kernels match."""
    rest = f" or one of {len(matches) - MOST_NAMED} more" if len(matches) > MOST_NAMED else ""
    if len({entry.name for entry in matches}) == len(matches):
        choices = ", ".join(entry.name for entry in matches[:MOST_NAMED])
        more = "write more of the name"
        if all(entry.name.startswith(f"{kernel}/") for entry in matches):
            more += f"; to use all of them, write `tune {kernel} SIZE`, `tune compare {kernel}` or tuner.dispatch"
        return RequestError(f"kernel {quoted(kernel)} could be {choices}{rest}; {more}")
    choices = ", ".join(shown(entry.file) for entry in matches[:MOST_NAMED])
    return RequestError(
        f"kernel {quoted(kernel)} could be {choices}{rest}; write the path of one, or give their projects "
        "different names (`name` in tuner.toml)"
    )


def only_elsewhere(kernel: str, entry: CatalogEntry) -> RequestError:
    """Only another copy of the current project has the kernel."""
    return RequestError(
        f"kernel {quoted(kernel)}: this project has no such kernel; another copy of the project has it: write "
        f"{shown(entry.file)} to use that file"
    )


def missing(kernel: str, entries: list[CatalogEntry], problems: list[str]) -> RequestError:
    """No kernel matches. `entries` are all that are known, `problems` say which files could not be read."""
    import difflib  # which launches do not need

    aliases = {entry.name.rpartition("/")[2]: entry.name for entry in entries}
    aliases |= {entry.name: entry.name for entry in entries}
    near = dict.fromkeys(aliases[match] for match in difflib.get_close_matches(kernel, aliases, n=3))
    hint = f"did you mean {' or '.join(near)}?" if near else "`tune list` shows all kernels, `tune --help` all verbs"
    hint = paths.advice(Path(kernel), SUFFIXES, hint)
    if kernel == "tune":
        hint = "tuning needs no verb: write `tune KERNEL SIZE`"
    elif os.path.isfile(kernel) and not kernel.endswith(SUFFIXES):
        hint = f"it is a file, but not a space file; `tune new {shown(kernel)}` drafts one"
    elif os.path.isdir(kernel):
        hint = "it is a folder; name a space file in it, or one of `tune list`"
    elif _has_records(kernel):
        hint = "there are records of it, but its file is not known; write its path, or add its folder to tuner.toml"
    reason = f"; {problems[0]}" if problems else ""
    return RequestError(f"kernel {quoted(kernel)}: there is no such kernel; {hint}{reason}")


def _has_records(kernel: str) -> bool:
    return ".." not in kernel.split("/") and os.path.isfile(paths.user_results() / f"{kernel.lstrip('/')}.jsonl")
