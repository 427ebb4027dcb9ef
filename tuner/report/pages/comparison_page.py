"""Render a comparison as a table, a chart and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.report.pages import page, vega
from tuner.report.pages.page import Cell, Grid, Section
from tuner.report.pages.vega_lite import Chart, Spec, rows, spec
from tuner.report.words import number, percent, times
from tuner.space.texts import config_text
from tuner.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.comparison import Comparison, Competitor


def table(comparison: Comparison) -> tuple[list[str], list[list[Any]]]:
    """The header and the rows of a comparison, without empty columns."""
    header = [
        *comparison.varying, "ms", "spread", "as fast as the first", "GFLOP/s", "GB/s", "of the library",
        "of the ceiling", "gain over default", "configuration",
    ]  # fmt: skip
    lines = []
    for c in comparison.competitors:
        known, record = c.rates, c.record
        lines.append(
            [
                *c.place(comparison.varying),
                number(record.time_ms),
                percent(record.spread),
                comparison.verdict(c) or times(comparison.ratio(c)),
                number(known.gflops),
                number(known.gbytes),
                percent(record.vs_library),
                f"{percent(c.ceiling[1])} of {c.ceiling[0]}" if c.ceiling else "",
                c.gain_verdict or times(c.gain),
                config_text(record.config),
            ]
        )
    full = [i for i in range(len(header)) if any(line[i] for line in lines)]
    return [header[i] for i in full], [[line[i] for i in full] for line in lines]


def _unit(everyone: Sequence[Competitor]) -> tuple[str, str]:
    """The unit in which all are compared, and the name of that rate; an empty name for a time.

    It is GB/s rather than GFLOP/s if memory bounds all of them.
    """
    ways = [("GFLOP/s", "gflops"), ("GB/s", "gbytes")]
    if all(c.roof is not None and c.roof.is_memory_bound for c in everyone):
        ways.reverse()
    known = ((unit, name) for unit, name in ways if all(getattr(c.rates, name) for c in everyone))
    return next(known, ("ms", ""))


def _ceiling(competitor: Competitor, rate: str) -> float | None:
    """The ceiling for a rate, in its unit; None if unknown."""
    value: float | None = getattr(competitor.rates, rate, None)
    if value is None:
        return None
    if competitor.roof is not None:
        return value / competitor.roof.share(competitor.rates)
    share = competitor.rates.vs_peak if rate == "gflops" else competitor.rates.vs_memory
    return value / share if share else None


_MARKS = {  # marks in the chart: their names and colours
    "library": ("the vendor library", "warm"),
    "ceiling": ("the ceiling that bounds it", "ink"),
}


def chart(comparison: Comparison) -> Chart:
    """A bar chart of the competitors, with marks at the vendor library's rate and at the ceiling."""
    first, rest = comparison.varying[0], comparison.varying[1:]
    everyone = comparison.competitors
    unit, rate = _unit(everyone)
    families = {c.kernel.rpartition("/")[0] for c in everyone}
    family = f"{families.pop()}/" if first == "kernel" and len(families) == 1 else ""
    data = []
    for c in everyone:
        value = getattr(c.rates, rate) if rate else c.record.time_ms
        library = c.record.vs_library and (value / c.record.vs_library if rate else c.record.library_ms)
        name = c.place((first,))[0]
        texts = name.removeprefix(family), ", ".join(c.place(rest)), f"{c.record.time_ms:.4g} ms"
        data.append((*texts, value, library or None, _ceiling(c, rate)))
    values = rows(("name", "group", "label", "value", "library", "ceiling"), data)
    y: Spec = {
        "field": "name", "type": "nominal", "sort": None, "title": comparison.axis(first), "axis": {"labelLimit": 190},
    }  # fmt: skip
    offset: Spec = {"yOffset": {"field": "group", "sort": None}} if rest else {}
    x: Spec = {"type": "quantitative", "title": f"{unit}, {'less' if unit == 'ms' else 'more'} is better"}
    legend: Spec = {"orient": "bottom", "title": ", ".join(map(comparison.axis, rest)), "columns": 3}
    colours: Spec = (
        {"field": "group", "type": "nominal", "sort": None, "legend": legend} if rest else {"value": {"expr": "accent"}}
    )
    tips = [{"field": field, "type": "nominal"} for field in ("name", "group", "label", "value")]
    layers: list[Spec] = [
        {"mark": "bar", "encoding": {"y": y, **offset, "x": {**x, "field": "value"}, "color": colours, "tooltip": tips}}
    ]
    for field, (name, ink) in _MARKS.items():
        if not any(row[field] for row in values):
            continue
        scale = {"domain": [name], "range": [{"expr": ink}]}
        shown: Spec = {
            "orient": "bottom", "title": None, "labelLimit": 300, "symbolType": "stroke", "symbolSize": 120,
            "symbolStrokeColor": {"expr": ink}, "symbolStrokeWidth": 2,
        }  # fmt: skip
        colours = {"datum": name, "type": "nominal", "scale": scale, "legend": shown}
        layers.append(
            {
                "transform": [{"filter": f"isValid(datum.{field})"}],
                "mark": {"type": "tick", "thickness": 2, "opacity": 1},
                "encoding": {
                    "y": y, **offset, "x": {**x, "field": field}, "color": colours, "tooltip": [{"field": field}],
                },
            }
        )  # fmt: skip
    height = (26 if not rest else 16) * len(values)
    independent = {"scale": {"color": "independent"}}
    return Chart("compared", "Side by side", "", spec(values, height, layers, resolve=independent))


def html(comparison: Comparison) -> str:
    """The comparison as an HTML page. Raises RequestError if vl-convert is not installed."""
    header, lines = table(comparison)
    cells = [[*line[:-1], Cell(line[-1], code=True)] for line in lines]
    section = Section.of(chart(comparison), Grid(header, cells))
    stores = dict.fromkeys(c.store for c in comparison.competitors if c.store)
    lead = [f"{len(comparison.competitors)} records.", *(f"Store: `{name}`" for name in stores)]
    return page.render(comparison.title, lead, [section], f"Made by tuner {VERSION}.")


def picture(comparison: Comparison, suffix: str) -> bytes:
    """The chart as an .svg or .png file. Raises RequestError if vl-convert is not installed."""
    return vega.picture([chart(comparison)], comparison.title, suffix)
