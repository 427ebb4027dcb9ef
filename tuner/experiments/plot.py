"""Plot published against measured figures: rates, and shares of the vendor's library, for each table."""

import io
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from tuner.experiments.results import Reproduction, RowResult
from tuner.space.texts import short_size

# Colours that can be told apart with red-green colour blindness.
SERIES = {"published": "#9a9a9a", "published constants, here": "#0072b2", "tuned, here": "#d55e00"}
MISSING = "no plot: matplotlib is not installed; pip install matplotlib"

Values = Callable[[RowResult], Sequence[float | None]]


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def png(reproduction: Reproduction) -> bytes:
    """The plot as a PNG file: for each table a panel of rates, and a panel of shares beside it if any are known."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    shares = any(share for results in reproduction.tables for result in results for share in _shares(result))
    heights = [0.4 + 0.45 * len(results) for results in reproduction.tables]
    figure = Figure(figsize=(14 if shares else 9, 1.2 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), 1 + shares, squeeze=False, height_ratios=heights)
    for line, table, results in zip(panels, reproduction.experiment.tables, reproduction.tables, strict=True):
        sizes = {short_size(dict(result.scope.sizes)) for result in results if result.scope}
        measured = f"here at {', '.join(sorted(sizes))}" if sizes else "nothing here"
        title = f"{table.title}: published at {short_size(dict(table.sizes))}, {measured}"
        _panel(line[0], results, _rates, title)
        line[0].set_xlabel("GFLOP/s")
        if any(rate for result in results for rate in _rates(result)):  # a logarithmic axis needs data
            line[0].set_xscale("log")
            low, high = line[0].get_xlim()
            line[0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
            line[0].xaxis.set_major_formatter("{x:,g}")
            line[0].xaxis.set_minor_formatter(NullFormatter())
        line[0].set_yticks(range(len(results)), [result.row.name for result in results])
        if shares:
            _panel(line[1], results, _shares, "")
            line[1].axvline(1, color="black", linewidth=0.8)
            line[1].set(xlabel="share of the vendor's library")
            line[1].set_yticks(range(len(results)), [""] * len(results))
    names = sorted({result.device.name for results in reproduction.tables for result in results if result.device})
    experiment = reproduction.experiment
    figure.suptitle(f"{experiment.title}\n{experiment.device} against {', '.join(names) or 'nothing'}")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SERIES))
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return file.getvalue()


def _panel(panel: Any, results: Sequence[RowResult], values: Values, title: str) -> None:
    """Plot three points per row, one of each series, with the first row on top."""
    for number, (label, colour) in enumerate(SERIES.items()):
        positions = [position + 0.2 * (number - 1) for position in range(len(results))]
        panel.plot([values(result)[number] for result in results], positions, "o", color=colour, label=label)
    panel.set_ylim(len(results) - 0.5, -0.5)
    panel.set_title(title, loc="left", fontsize="medium")
    panel.grid(linewidth=0.3)


def _rates(result: RowResult) -> Sequence[float | None]:
    return result.row.published.gflops, result.constants.gflops, result.tuned.gflops


def _shares(result: RowResult) -> Sequence[float | None]:
    return result.row.published.share, result.constants.vs_library, result.tuned.vs_library
