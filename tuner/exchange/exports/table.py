"""Export of all trials as comma-separated values."""

import csv
import io
from typing import Any

from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.trials import Trials, gather


def export(request: ExportRequest) -> Export:
    """Write the table. Raises RequestError if there are no trials."""
    trials = gather(request.problem, request.device, request.storage)
    return Export.of_trials([write(request.path(".csv"), text(trials))], trials)


def text(trials: Trials) -> str:
    """One line per trial: kernel, device, sizes, types, options that are not at their defaults, parameters, median time
    and all times in ms or the reason of failure, then all extra members of the trials."""
    recording = trials.recording
    extra = sorted({name for entry in recording.entries.values() for name in entry.extra})
    problem = {"kernel": recording.kernel, "device": recording.device}
    problem |= recording.size if isinstance(recording.size, dict) else {"size": recording.size}
    problem |= recording.about.get("types", {}) | recording.options
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*problem, *recording.parameters, "time_ms", "times_ms", "failure", *extra])
    for key, entry in recording.entries.items():
        times = " ".join(map(str, entry.times))
        row = [*problem.values(), *key, entry.time_ms, times, entry.failure, *map(entry.extra.get, extra)]
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """`value`, quoted if a spreadsheet would read it as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
