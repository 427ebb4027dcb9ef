"""`tune KERNEL SIZE SIZE ...` and `tune FAMILY SIZE ...`: tune several problems in one run."""

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
    from tuner.space.computation import Operation
    from tuner.space.model import Space
    from tuner.store.record import Record
    from tuner.tuning.driver import Result


def tune(
    kernel: str, sizes: Sequence[str], size_lists: Sequence[str], as_json: bool, verbose: bool, **options: Any
) -> int:
    """Tune at each size, print each result and finally a table of the best. Returns the exit status."""
    spaces, device, notes = members(kernel, options.pop("device"))
    request = TuningRequest(kernel, None, device=device, **options)
    operation = spaces[0].operation
    problems = sizes_of(sizes, size_lists, operation, chosen_types.parse(request.types, operation))
    begin(request, spaces, problems, notes)
    tuned: list[Result] = []
    dropped: list[Dropped] = []
    untuned: list[Untuned] = []
    with progress.displayed(request.results) as listener, logs.printed(verbose, listener.noted):
        for outcome in tune_sizes(request, spaces, problems, listener):
            if isinstance(outcome, Dropped):
                dropped.append(outcome)
                listener.noted(_dropped(outcome))
            elif isinstance(outcome, Untuned):
                untuned.append(outcome)
                listener.noted(f"{outcome.kernel} at {short_size(outcome.sizes)}: {outcome.reason}")
            else:
                tuned.append(outcome)
                for line in lines(outcome):
                    listener.noted(line)
    data = {
        "results": [document(result) for result in tuned],
        "dropped": [vars(drop) for drop in dropped],
        "untuned": [vars(problem) for problem in untuned],
    }
    best = [_best(tuned, problem.sizes) for problem in problems]
    output.answer(as_json, data, _table(best))
    return 0 if all(best) else 1


def begin(
    request: TuningRequest, spaces: Sequence[Space], problems: Sequence[WeightedSize], notes: Iterable[str]
) -> None:
    """Check the request on the first problem, then print `notes`. Raises RequestError if it is wrong."""
    for first in requests_at(request, spaces[:1], problems[0].sizes).values():
        CheckedRequest.of(first)
    for note in notes:
        output.say(note)


def sizes_of(
    sizes: Iterable[str], size_lists: Iterable[str], operation: Operation, types: Types | None
) -> list[WeightedSize]:
    """The distinct sizes given on the command line, in files and by grids; if there are none, the operation's default.

    Raises RequestError if one is wrong.
    """
    weighted = parse(sizes, operation, types)
    for source in size_lists:
        weighted += read(source, operation, types)
    return distinct(weighted) or [WeightedSize(chosen.size_of(None, operation, types))]


def _best(tuned: Iterable[Result], sizes: dict[str, int]) -> Result | None:
    """The result with the best record at `sizes`; None if no result there has a record."""
    valid = [(record.value, result) for result in tuned if result.sizes == sizes and (record := _record(result))]
    return min(valid, key=lambda pair: pair[0], default=(0.0, None))[1]


def _record(result: Result) -> Record | None:
    """The record in the store after a run: the better one of an earlier run, or this run's."""
    return result.kept or result.record


def _dropped(drop: Dropped) -> str:
    place = f"at {short_size(drop.near)}" if drop.near else "after a short trial"
    return f"{drop.kernel} at {short_size(drop.sizes)}: dropped: {drop.value / drop.best:.1f} x the best {place}"


def _table(best: Iterable[Result | None]) -> str:
    """A table of the stored best at each size, with its gain over the default."""
    rows = []
    for result in best:
        if result is not None and (record := _record(result)) is not None:
            figures = ", ".join([f"{record.time_ms:.4g} ms", *output.rates(record)])
            gain, config = output.gain_for_table(record), config_text(record.config)
            rows.append((short_size(result.sizes), result.kernel, figures, gain, config))
    return output.table(["size", "kernel", "best", "gain", "configuration"], rows) if rows else ""
