"""Published against measured, as a picture: rates, and shares of the vendor's library, table by table."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from tuner.experiments.results import Reproduced, Reproduction
from tuner.space.model import short_size

# Colours that are told apart without seeing red or green.
SERIES = {"published": "#9a9a9a", "published constants, here": "#0072b2", "tuned, here": "#d55e00"}
MISSING = "no plot: matplotlib is not installed; pip install 'tuner[plot]'"

Values = Callable[[Reproduced], Sequence[float | None]]


def available() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def png(done: Reproduction) -> bytes:
    """The picture. A panel of rates for each table, and one of shares beside it where there are any."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    shares = any(value for rows in done.tables for one in rows for value in _shares(one))
    heights = [0.4 + 0.45 * len(rows) for rows in done.tables]
    figure = Figure(figsize=(14 if shares else 9, 1.2 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1 + shares, squeeze=False, height_ratios=heights)
    for line, table, rows in zip(panels, done.experiment.tables, done.tables, strict=True):
        sizes = {short_size(dict(one.scope.sizes)) for one in rows if one.scope}
        here = f"here at {', '.join(sorted(sizes))}" if sizes else "nothing here"
        title = f"{table.title}: published at {short_size(dict(table.sizes))}, {here}"
        _panel(line[0], rows, _rates, title)
        line[0].set_xlabel("GFLOP/s")
        if any(rate for one in rows for rate in _rates(one)):  # an axis of nothing cannot be logarithmic
            line[0].set_xscale("log")
            low, high = line[0].get_xlim()
            line[0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
            line[0].xaxis.set_major_formatter("{x:,g}")
            line[0].xaxis.set_minor_formatter(NullFormatter())
        line[0].set_yticks(range(len(rows)), [one.row.name for one in rows])
        if shares:
            _panel(line[1], rows, _shares, "")
            line[1].axvline(1, color="black", linewidth=0.8)
            line[1].set(xlabel="share of the vendor's library")
            line[1].set_yticks(range(len(rows)), [""] * len(rows))
    names = sorted({one.device.name for rows in done.tables for one in rows if one.device})
    figure.suptitle(f"{done.experiment.title}\n{done.experiment.device} against {', '.join(names) or 'nothing'}")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SERIES))
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return file.getvalue()


def _panel(panel: Any, rows: Sequence[Reproduced], values: Values, title: str) -> None:
    """Three points for each row, the first row on top."""
    for number, (label, colour) in enumerate(SERIES.items()):
        places = [position + 0.2 * (number - 1) for position in range(len(rows))]
        panel.plot([values(one)[number] for one in rows], places, "o", color=colour, label=label)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.set_title(title, loc="left", fontsize="medium")
    panel.grid(linewidth=0.3)


def _rates(one: Reproduced) -> Sequence[float | None]:
    return one.row.published.gflops, one.constants.gflops, one.tuned.gflops


def _shares(one: Reproduced) -> Sequence[float | None]:
    return one.row.published.share, one.constants.vs_library, one.tuned.vs_library
