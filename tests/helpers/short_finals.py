"""Finals that end after a few rounds of one process, because few tests are about the precision of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers import ROOT
from tuner.tuning.finals import final_round, selection


def shorten(replace: Callable[[Any, str, Any], None] = setattr) -> None:
    """Shorten the finals of `tune` in this process."""
    replace(final_round, "FINAL_SECONDS", 0.1)
    replace(final_round, "MOST_PROCESSES", 1)
    replace(selection, "COMPARED_RUNS", 30)


# Before a Python program: its finals are short.
SHORT = f"import sys; sys.path.append({str(ROOT / 'tests')!r}); from helpers.short_finals import shorten; shorten()\n"
TUNE = (
    "-c",
    f"{SHORT}sys.argv[0] = 'tune'\nfrom tuner.__main__ import main; main()",
)  # Python's arguments for the command
