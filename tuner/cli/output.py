"""What verbs print. Text from files is stripped of control characters, which must not drive the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tuner.paths import plain
from tuner.space.model import Config, config_text

if TYPE_CHECKING:
    from tuner.store.store import Record
    from tuner.tuning.driver import Point
    from tuner.tuning.rerun import Rerun


def document(data: Any) -> None:
    """`data` as the one JSON document of standard output."""
    click.echo(json.dumps(data, indent=1))


def say(message: str) -> None:
    """A message on standard error."""
    click.echo(plain(message), err=True)


def first_lines(text: str, most: int = 4) -> str:
    """The start of a log."""
    return "\n".join(text.strip().splitlines()[:most])


def table(header: list[str], rows: list[list[Any]]) -> None:
    """Columns under a header, on standard output."""
    cells = [header, *([plain(" ".join(c) if isinstance(c, list) else c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def timing(measured: Record | Rerun) -> str:
    """`4.18 ms (spread 0.1 %), 32854.2 GFLOP/s, 64.6 % of cuBLAS 13.1.0`, as far as it is known."""
    parts = [f"{measured.time_ms:.4g} ms (spread {measured.spread:.1%})"]
    if measured.gflops or measured.gbytes:
        parts.append(rate(measured.gflops, measured.gbytes))
    if measured.vs_library:
        parts.append(f"{measured.vs_library:.1%} of {plain(measured.library)}")
    return ", ".join(parts)


def rate(gflops: float | None, gbytes: float | None) -> str:
    """The work done in a second; where only its bytes are counted, the bytes moved. Empty where neither is."""
    return f"{gflops:.1f} GFLOP/s" if gflops else f"{gbytes:.1f} GB/s" if gbytes else ""


def record(best: Record) -> None:
    """A record's configuration and times, on standard output."""
    click.echo(f"best: {configuration(best.config)}\n{timing(best)}")


def front(points: Sequence[Point]) -> None:
    """What is traded off, one line for each configuration, on standard output."""
    rows = [[*(_value(value) for value in point.values.values()), config_text(point.config)] for point in points]
    table([*points[0].values, "configuration"], rows)


def _value(value: float | None) -> str:
    return "?" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"


def configuration(config: Config) -> str:
    """A configuration for the terminal."""
    return plain(config_text(config))
