"""Trials as comma-separated values."""

from __future__ import annotations

import csv
import io
from typing import Any

from tuner.exchange.formats import Export, ExportRequest, write
from tuner.exchange.trials import Trials, gather


def export(request: ExportRequest) -> Export:
    """Write the table. Raises RequestError."""
    trials = gather(request.problem, request.device, request.storage)
    return Export.of_trials([write(request.path(".csv"), text(trials))], trials)


def text(trials: Trials) -> str:
    """A line for each trial: kernel, device, sizes, parameters, the median of `times_ms` in ms, or the reason why it
    failed, and whatever else was kept."""
    recording = trials.recording
    more = sorted({name for entry in recording.entries.values() for name in entry.extra})
    about = {"kernel": recording.kernel, "device": recording.device}
    about |= recording.size if isinstance(recording.size, dict) else {"size": recording.size}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*about, *recording.parameters, "time_ms", "times_ms", "failure", *more])
    for key, entry in recording.entries.items():
        times = " ".join(map(str, entry.times))
        row = [*about.values(), *key, entry.time_ms, times, entry.failure, *(entry.extra.get(name) for name in more)]
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula is marked as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
