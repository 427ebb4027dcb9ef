"""A comparison as a table, a chart and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.report import page, vega
from tuner.report.page import Cell, Grid, Section
from tuner.report.vega_lite import Chart, Spec, rows, spec
from tuner.report.words import number, percent, times
from tuner.space.texts import config_text
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.report.comparison import Comparison


def table(found: Comparison) -> tuple[list[str], list[list[Any]]]:
    """Header and rows, without empty columns."""
    header = [
        *found.varying, "ms", "spread", "as fast as the first", "GFLOP/s", "GB/s", "of the library", "of the ceiling",
        "gain over default", "configuration",
    ]  # fmt: skip
    lines = []
    for c in found.competitors:
        known, record = c.rates, c.record
        share, ceiling = max((known.vs_peak or 0.0, known.peak), (known.vs_memory or 0.0, known.memory), key=_first)
        lines.append(
            [
                *c.place(found.varying),
                number(record.time_ms),
                percent(record.spread),
                found.verdict(c) or times(found.ratio(c)),
                number(known.gflops),
                number(known.gbytes),
                percent(record.vs_library),
                f"{percent(share)} of {ceiling}" if share else "",
                c.gain_verdict or times(c.gain),
                config_text(record.config),
            ]
        )
    full = [i for i in range(len(header)) if any(line[i] for line in lines)]
    return [header[i] for i in full], [[line[i] for i in full] for line in lines]


def _first(pair: tuple[float, str | None]) -> float:
    return pair[0]


def chart(found: Comparison) -> Chart:
    """A bar for each competitor, with marks at the library and at the ceiling."""
    first, rest = found.varying[0], found.varying[1:]
    everyone = found.competitors
    unit, attribute = "ms", ""
    if all(c.rates.gflops for c in everyone):
        unit, attribute = "GFLOP/s", "gflops"
    elif all(c.rates.gbytes for c in everyone):
        unit, attribute = "GB/s", "gbytes"
    families = {c.kernel.rpartition("/")[0] for c in everyone}
    family = f"{families.pop()}/" if first == "kernel" and len(families) == 1 else ""
    data = []
    for c in everyone:
        value = getattr(c.rates, attribute) if attribute else c.record.time_ms
        share = (c.rates.vs_peak if attribute == "gflops" else c.rates.vs_memory) if attribute else None
        library = c.record.vs_library and (value / c.record.vs_library if attribute else c.record.library_ms)
        name = c.place((first,))[0]
        texts = name.removeprefix(family), ", ".join(c.place(rest)), f"{c.record.time_ms:.4g} ms"
        data.append((*texts, value, library or None, value / share if share else None))
    values = rows(("name", "group", "label", "value", "library", "ceiling"), data)
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 190}}
    offset: Spec = {"yOffset": {"field": "group", "sort": None}} if rest else {}
    x: Spec = {"type": "quantitative", "title": f"{unit}, {'less' if unit == 'ms' else 'more'} is better"}
    colour: Spec = (
        {"field": "group", "type": "nominal", "sort": None, "legend": {"orient": "bottom", "title": ", ".join(rest)}}
        if rest
        else {"value": {"expr": "accent"}}
    )
    tips = [{"field": field, "type": "nominal"} for field in ("name", "group", "label", "value")]
    layers: list[Spec] = [
        {"mark": "bar", "encoding": {"y": y, **offset, "x": {**x, "field": "value"}, "color": colour, "tooltip": tips}}
    ]
    marks = {"library": "warm", "ceiling": "ink"}
    named = [field for field in marks if any(row[field] for row in values)]
    layers += [
        {
            "transform": [{"filter": f"isValid(datum.{field})"}],
            "mark": {"type": "tick", "thickness": 2, "opacity": 1, "color": {"expr": marks[field]}},
            "encoding": {"y": y, **offset, "x": {**x, "field": field}, "tooltip": [{"field": field}]},
        }
        for field in named
    ]
    words = {"library": "the vendor's library, in the same rounds", "ceiling": "the measured ceiling of the device"}
    caption = " ".join(f"{'Orange marks' if f == 'library' else 'Marks in ink'}: {words[f]}." for f in named)
    height = (26 if not rest else 16) * len(values)
    return Chart("compared", "Side by side", caption, spec(values, height, layers))


def html(found: Comparison) -> str:
    """The comparison as a page. Raises RequestError where vl-convert is not installed."""
    header, lines = table(found)
    cells = [[*line[:-1], Cell(line[-1], code=True)] for line in lines]
    section = Section.of(chart(found), Grid(header, cells))
    stores = dict.fromkeys(c.store for c in found.competitors if c.store)
    lead = [f"{len(found.competitors)} records.", *(f"Store: `{name}`" for name in stores)]
    return page.render(found.title, lead, [section], f"Made by tuner {VERSION}.")


def picture(found: Comparison, suffix: str) -> bytes:
    """The chart as an .svg or .png file. Raises RequestError where vl-convert is not installed."""
    return vega.picture([chart(found)], found.title, suffix)
