"""Export of a family's time tables as text, which people and other programs can read: a JSON file for each kernel.

In a folder of results, tuner reads such a file like the table itself.
"""

from __future__ import annotations

from pathlib import Path

from tuner.errors import RequestError
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.quoting import shown
from tuner.store import time_tables
from tuner.store.board_names import normalised
from tuner.store.store import Store


def export(request: ExportRequest) -> Export:
    """Write a file for each kernel with tables. Raises RequestError if none has any of the requested device."""
    folder = request.path("-times")
    files: list[Path] = []
    kernels: dict[str, int] = {}
    notes: list[str] = []
    for space in request.spaces:
        stored, problems = time_tables.stored(Store.of(space, request.problem.results).files)
        notes += problems
        wanted = normalised(request.device or "")
        tables = [each.table for each in stored if wanted in normalised(each.head.device)]
        if tables:
            name = space.name.rpartition("/")[2]
            files.append(write(folder / f"{name}{time_tables.TEXT_SUFFIX}", time_tables.text(space.name, tables)))
            kernels[space.name] = sum(table.count for table in tables)
    if not files:
        of = f" of {shown(request.device)}" if request.device else ""
        raise RequestError(f"{request.name}: the store has no time tables{of}; run `tune cover {request.name}` first")
    return Export(files, {"kernels": kernels}, tuple(notes))
