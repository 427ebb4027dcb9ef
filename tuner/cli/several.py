"""`tune KERNEL SIZE SIZE ...` and `tune FAMILY SIZE ...`: several problems in one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tuner.cli import output
from tuner.cli.screen import logs, progress
from tuner.cli.screen.result import document, lines
from tuner.space import chosen, chosen_types
from tuner.space.size_lists import WeightedSize, distinct, parse, read
from tuner.space.texts import config_text, short_size
from tuner.tuning.request import CheckedRequest, TuningRequest, requests_at
from tuner.tuning.several.problems import Dropped, Untuned, members, tune_sizes

if TYPE_CHECKING:
    from tuner.space.chosen_types import Types
    from tuner.space.model import Operation, Space
    from tuner.store.store import Record
    from tuner.tuning.driver import Result


def tune(
    kernel: str, sizes: Sequence[str], size_lists: Sequence[str], as_json: bool, verbose: bool, **options: Any
) -> int:
    """Tune at each size, print what comes of each, and a table at the end. Returns the exit status."""
    spaces, device, notes = members(kernel, options.pop("device"))
    request = TuningRequest(kernel, None, device=device, **options)
    operation = spaces[0].operation
    problems = sizes_of(sizes, size_lists, operation, chosen_types.parse(request.types, operation))
    begin(request, spaces, problems, notes)
    tuned: list[Result] = []
    dropped: list[Dropped] = []
    untuned: list[Untuned] = []
    with progress.displayed(request.results) as listener, logs.printed(verbose, listener.noted):
        for each in tune_sizes(request, spaces, problems, listener):
            if isinstance(each, Dropped):
                dropped.append(each)
                listener.noted(_dropped(each))
            elif isinstance(each, Untuned):
                untuned.append(each)
                listener.noted(f"{each.kernel} at {short_size(each.sizes)}: {each.reason}")
            else:
                tuned.append(each)
                for line in lines(each):
                    listener.noted(line)
    data = {
        "results": [document(result) for result in tuned],
        "dropped": [vars(each) for each in dropped],
        "untuned": [vars(each) for each in untuned],
    }
    best = [_best(tuned, problem.sizes) for problem in problems]
    output.answer(as_json, data, _table(best))
    return 0 if all(best) else 1


def begin(
    request: TuningRequest, spaces: Sequence[Space], problems: Sequence[WeightedSize], notes: Iterable[str]
) -> None:
    """Say the `notes`, once nothing is wrong that the first of the runs tells. Raises RequestError."""
    for first in requests_at(request, spaces[:1], problems[0].sizes).values():
        CheckedRequest.of(first)
    for note in notes:
        output.say(note)


def sizes_of(
    sizes: Iterable[str], size_lists: Iterable[str], operation: Operation, types: Types | None
) -> list[WeightedSize]:
    """The sizes that are written on the command line, and those of files and grids. Raises RequestError."""
    found = parse(sizes, operation, types)
    for source in size_lists:
        found += read(source, operation, types)
    return distinct(found) or [WeightedSize(chosen.size_of(None, operation, types))]


def _best(tuned: Iterable[Result], sizes: dict[str, int]) -> Result | None:
    """The result at a size of which the store has the fastest record; None where there is none."""
    valid = [(record.value, result) for result in tuned if result.sizes == sizes and (record := _record(result))]
    return min(valid, key=lambda each: each[0], default=(0.0, None))[1]


def _record(result: Result) -> Record | None:
    """What the store has after a result."""
    return result.kept or result.record


def _dropped(drop: Dropped) -> str:
    where = f"at {short_size(drop.near)}" if drop.near else "after its trial"
    return f"{drop.kernel} at {short_size(drop.sizes)}: left out, {drop.value / drop.best:.1f} x the best {where}"


def _table(best: Iterable[Result | None]) -> str:
    """The best at each size, as the store has it."""
    rows = []
    for result in best:
        if result is not None and (record := _record(result)) is not None:
            figures = ", ".join([f"{record.time_ms:.4g} ms", *output.rates(record)])
            rows.append([short_size(result.sizes), result.kernel, figures, config_text(record.config)])
    return output.table(["size", "kernel", "best", "configuration"], rows) if rows else ""
