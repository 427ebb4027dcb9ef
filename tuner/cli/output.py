"""Print the answers and messages of verbs, and format records, rates and tables.

Control characters are replaced, so that text from a file cannot control the terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.terminal import fitted
from tuner.quoting import plain, shown
from tuner.space.deployments import WORDS, of_caches
from tuner.space.texts import config_text
from tuner.space.values.forms import NOTICES, ConfigReference, KernelReference
from tuner.store import verdicts

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.store.rates import Rates
    from tuner.store.record import Record
    from tuner.tuning.finals.summary import Point
    from tuner.tuning.ledger.trial import Trial
    from tuner.tuning.rerun import Rerun

UNVERIFIED = "`reference: none`: its results are unverified"
FIRST_LINES = 4  # printed of a log


def answer(as_json: bool, data: Any, text: str) -> None:
    """Print a verb's answer on standard output: `data` with --json, else `text` if it is not empty."""
    if as_json:
        document(data)
    elif text:
        click.echo(fitted(plain(text), sys.stdout))


def document(data: Any) -> None:
    """Print `data` as a JSON document on standard output."""
    click.echo(json.dumps(data, indent=1))


@contextlib.contextmanager
def diverted() -> Iterator[None]:
    """Send to standard error what scripts and functions of the user print, and their child processes: it is no part of
    the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def say(message: str) -> None:
    """Print a message on standard error. Words of 1000 characters or more are shortened in the middle."""
    text = re.sub(r"\S{1000,}", lambda word: shown(word[0]), plain(message))
    if _printers:
        _printers[-1](text)
    else:
        click.echo(fitted(text, sys.stderr), err=True)


def warn(notes: Iterable[str]) -> None:
    """Print warnings on standard error."""
    for note in notes:
        say(f"warning: {note}")


_printers: list[Callable[[str], None]] = []  # a stack: the last one prints messages


@contextlib.contextmanager
def printed_by(printer: Callable[[str], None]) -> Iterator[None]:
    """A context in which `printer` prints the messages: for a live display, which shares standard error with them."""
    _printers.append(printer)
    try:
        yield
    finally:
        _printers.pop()


def counted(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def first_lines(text: str) -> str:
    """The first FIRST_LINES lines of a log."""
    return "\n".join(text.strip().splitlines()[:FIRST_LINES])


def failure(trial: Trial) -> dict[str, Any]:
    """A failed trial as JSON data: configuration, reason, and the first lines of the log."""
    message = first_lines(trial.outcome.log)
    return {"config": trial.config, "reason": trial.outcome.failure, "message": message}


def table(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """The rows as aligned columns under a header."""
    cells = [header, *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def timing(result: Record | Rerun) -> str:
    """The known figures, as in `4.18 ms (spread 0.1%), 205.3 mJ (spread 1.2%), 32854.2 GFLOP/s (53.1% of FMA),
    24.1 GB/s, 64.6% of cuBLAS 13.1.0`."""
    parts = [f"{result.time_ms:.4g} ms (spread {result.spread:.1%})", *_energy(result), *rates(result)]
    if result.vs_library:
        parts.append(f"{result.vs_library:.1%} of {result.library}")
    if result.vs_best_library:
        parts.append(f"{result.vs_best_library:.1%} of {result.best_library}")
    return ", ".join(parts)


def _energy(result: Record | Rerun) -> list[str]:
    """The energy of a run, and its spread if known; nothing if it was not measured."""
    energy_mj, spread = getattr(result, "energy_mj", None), getattr(result, "energy_spread", None)
    if energy_mj is None:
        return []
    return [f"{energy_mj:.4g} mJ" + (f" (spread {spread:.1%})" if spread is not None else "")]


def sustained(record: Record) -> str:
    """A line such as `sustained: 0.1801 ms at 1755 MHz and 699 W; cuBLAS 13.1.0 0.1795 ms at ...`; empty if nothing was
    run sustained."""
    names = {"kernel": "", "library": f"{record.library} ", "best_library": f"{record.best_library} "}
    runs = [name + _sustained_run(run) for key, name in names.items() if (run := record.sustained.get(key))]
    return "\nsustained: " + "; ".join(runs) if runs else ""


def _sustained_run(run: Mapping[str, float | None]) -> str:
    """The known figures, as in `0.1801 ms at 1755 MHz and 699 W`."""
    units = (("clock_mhz", "MHz"), ("power_w", "W"))
    board = [f"{value:.0f} {unit}" for name, unit in units if (value := run.get(name)) is not None]
    return f"{run['time_ms']:.4g} ms" + (f" at {' and '.join(board)}" if board else "")


def rates(result: Record | Rerun | Rates) -> list[str]:
    """The known rates, in GFLOP/s and GB/s, each with its share of the ceiling if that was measured."""
    shares = [
        (result.gflops, "GFLOP/s", result.vs_peak, result.peak),
        (result.gbytes, "GB/s", result.vs_memory, result.memory),
    ]
    return [
        f"{rate:{'.1f' if rate >= 1 else '.2g'}} {unit}" + (f" ({share:.1%} of {ceiling})" if share else "")
        for rate, unit, share, ceiling in shares
        if rate
    ]


def best(record: Record, space: Space) -> str:
    """A record's configuration, its figures, and its gain over the default, as lines.

    The figures include what its outputs were compared with, if that is a kernel, a configuration or nothing.
    """
    from tuner.space import identity

    is_same = record.verified in NOTICES and record.signature == identity.of(space)
    origin = compared(space) if is_same else f"; {record.origin}" if record.origin not in ("", "imported") else ""
    how = "" if (deployment := of_caches(record.caches)) is None else WORDS[deployment]
    figures = f"{timing(record)}{f', {how}' if how else ''}{origin}{wrong(record.wrong)}{sustained(record)}"
    return "\n".join(filter(None, (f"best: {config_text(record.config)}", figures, _gain_line(record))))


def runner_up(record: Record, rank: int) -> str:
    """A record's runner-up, and why it is used."""
    config, time_ms = record.timed[rank]
    why = f"runner-up {rank} of the record: faster ones are not valid here, or failed verification"
    return f"best: {config_text(config)}\n{time_ms:.4g} ms, {why}"


def gain(record: Record) -> str:
    """`1.57 x`, the gain over the default; `none` if the default is the best, or the verdict, such as a tie, if times
    are too close to tell.

    Empty if the default was not measured.
    """
    if record.default_ms is None:
        return ""
    if record.default_ms == record.time_ms:
        return "none"
    return verdicts.of_default(record) or f"{record.default_ms / record.time_ms:.2f} x"


def gain_for_table(record: Record) -> str:
    """The same, with the gain by the shortest times where other programs distort it."""
    short = gain(record)
    shortest = verdicts.undistorted_gain(record) if short.endswith(" x") else None
    return short if shortest is None else f"{short} ({shortest:.3g} x by the shortest times)"


def _gain_line(record: Record) -> str:
    """The same as a line, such as `1.57 x as fast as the default (0.106 ms, spread 0.4%)`."""
    short = gain(record)
    if short in ("", "none"):
        return short and "no gain: the default is the best"
    if not short.endswith(" x"):
        return f"{short} {'with' if short == verdicts.TIE else 'from'} the default ({record.default_ms:.4g} ms)"
    spread = "" if record.default_spread is None else f", spread {record.default_spread:.1%}"
    return f"{short} as fast as the default ({record.default_ms:.4g} ms{spread}){verdicts.by_least(record)}"


def compared(space: Space) -> str:
    """What outputs are compared with, if it is a kernel or a configuration; else empty."""
    reference = space.operation.reference
    return f"; {reference.text}" if isinstance(reference, KernelReference | ConfigReference) else ""


def wrong(count: int) -> str:
    """The number of wrong elements in the outputs; empty if there are none."""
    return f"; {count} elements are wrong, as the tolerance allows" if count else ""


def front(points: Sequence[Point]) -> str:
    """A table of the trade-off between several objectives: their values for each configuration."""
    rows = [[*map(_value, point.values.values()), config_text(point.config)] for point in points]
    return table([*points[0].values, "configuration"], rows)


def _value(value: float | None) -> str:
    return "?" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"
