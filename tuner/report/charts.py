"""The charts of a report as specifications in Vega-Lite. They take their colours from the parameters of a theme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.report.landscape import WITHIN, Slice

if TYPE_CHECKING:
    from tuner.report.contenders import Contender
    from tuner.report.findings import Findings

Spec = dict[str, Any]
MOST_TICKED = 50.0  # times the least value, up to which a logarithmic axis has more marks than powers of ten
_DIGITS = 5  # of a number in a page


@dataclass(frozen=True)
class Chart:
    """A chart: the name of its place in the page, a title, what it shows in words, and its specification, whose width
    is that of its container. `detail` belongs to its title where the reader can choose nothing, in a picture."""

    name: str
    title: str
    caption: str
    spec: Spec
    detail: str = ""


def theme(dark: bool) -> Spec:
    """The configuration of Vega-Lite for a light or a dark page. Its colours are told apart by those who cannot tell
    red from green (Okabe and Ito)."""
    ink, soft, grid = ("#e6e6e6", "#a8adb5", "#3a3f47") if dark else ("#1d2430", "#5b6472", "#dfe3e8")
    accent, warm = ("#56b4e9", "#e69f00") if dark else ("#0072b2", "#d55e00")
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink, "titleColor": soft, "gridColor": grid, "domainColor": soft, "tickColor": soft,
            "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 150,
            "labelOverlap": True, "labelSeparation": 6,
        },
        "legend": {"labelColor": ink, "titleColor": soft, "labelFontSize": 12, "titleFontWeight": "normal"},
        "title": {"color": ink},
        "range": {"category": [accent, "#009e73", "#cc79a7", "#8c8c8c", "#7b5ea7", "#b8a800"]},
        "params": [
            {"name": "ink", "value": ink},
            {"name": "soft", "value": soft},
            {"name": "accent", "value": accent},
            {"name": "warm", "value": warm},
            {"name": "paper", "value": "#15181d" if dark else "#ffffff"},
        ],
    }  # fmt: skip


def charts(findings: Findings) -> list[Chart]:
    """Those charts for which there is data."""
    made = (contest, roofline, convergence, distribution, importance, neighbours, slices)
    return [chart for make in made if (chart := make(findings)) is not None]


def rounded(value: float) -> float:
    """A number with as many digits as a chart shows."""
    return value if value == 0 or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def rows(names: Sequence[str], values: Iterable[Sequence[Any]]) -> list[Spec]:
    """Rows of data with short numbers."""
    return [
        {name: rounded(v) if isinstance(v, float) else v for name, v in zip(names, row, strict=True)} for row in values
    ]


def spec(data: Any, height: int, layers: Sequence[Spec], **more: Any) -> Spec:
    """A chart as wide as its container."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "data": {"values": data},
        "layer": list(layers),
        **more,
    }


def _colour(name: str) -> Spec:
    return {"expr": name}


def _log(field: str, title: str, values: Iterable[float], margin: float = 1.03) -> Spec:
    """An axis of times or ratios: logarithmic, from the least to the largest of `values`, and a little more."""
    known = list(values)
    domain = [rounded(min(known) / margin), rounded(max(known) * margin)]
    scale = {"type": "log", "domain": domain, "nice": False}
    axis: Spec = {"tickCount": 6}
    if domain[1] > MOST_TICKED * domain[0]:  # lines at 2, 3, 4 and so on of every decade would be a grille
        decades = range(math.ceil(math.log10(domain[0])), math.floor(math.log10(domain[1])) + 1)
        axis = {"values": [10.0**decade for decade in decades]}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _label(values: list[Spec], field: str, align: str = "left", **more: Any) -> Spec:
    """A layer of text beside points of other layers."""
    return {
        "data": {"values": values},
        "mark": {"type": "text", "align": align, "dx": 4 if align == "left" else -4, "color": _colour("soft"), **more},
        "encoding": {"text": {"field": field}},
    }


def contest(findings: Findings) -> Chart:
    """The best, the default and the library, by rate where work is counted, else by time."""
    found = findings.contenders
    unit, values, ceiling = _measure(found)
    labels = [f"{c.time_ms:.4g} ms" for c in found]
    data = rows(
        ("name", "value", "label", "role"), zip([c.name for c in found], values, labels, map(_role, found), strict=True)
    )
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    more = "more is better" if unit != "ms" else "less is better"
    x: Spec = {"field": "value", "type": "quantitative", "title": f"{unit}, {more}"}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "height": {"band": 0.7}},
            "encoding": {"y": y, "x": x, "color": _roles(found), "tooltip": _tips("name", "value", "label")},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 6, "color": _colour("paper")},
            "encoding": {"y": y, "x": {"datum": 0}, "text": {"field": "label"}},
        },
    ]
    if ceiling is not None:
        layers += _rule(ceiling[1], f"{ceiling[0]} ceiling")
    caption = "Best, default and library were timed in the same rounds." if findings.subject.finals else ""
    names = [c.name for c in found[1:]]
    title = f"Best against {' and '.join(names)}" if names else "The best"
    return Chart("contest", title, caption, spec(data, 34 * len(data), layers))


def _measure(found: Sequence[Contender]) -> tuple[str, list[float], tuple[str, float] | None]:
    """The unit that contenders are compared in, their values, and the name and rate of the ceiling above them."""
    best = found[0].rates
    if best is None:
        return "ms", [c.time_ms for c in found], None
    arithmetic = best.vs_peak or 0.0, "GFLOP/s", best.peak, [c.rates and c.rates.gflops for c in found]
    memory = best.vs_memory or 0.0, "GB/s", best.memory, [c.rates and c.rates.gbytes for c in found]
    # What is nearer to its ceiling tells more.
    for share, unit, name, values in sorted((arithmetic, memory), key=lambda way: -way[0]):
        known = [value for value in values if value]
        if len(known) == len(found):
            return unit, known, (name, known[0] / share) if name and share else None
    return "ms", [c.time_ms for c in found], None


def _role(contender: Contender) -> str:
    return contender.name if contender.name in ("best", "default") else "library"


def _roles(found: Sequence[Contender]) -> Spec:
    """The colours of those that are there."""
    colours = {"best": _colour("accent"), "default": _colour("soft"), "library": _colour("warm")}
    names = list(dict.fromkeys(map(_role, found)))
    scale = {"domain": names, "range": [colours[name] for name in names]}
    return {"field": "role", "type": "nominal", "scale": scale, "legend": None}


def _rule(value: float, name: str) -> list[Spec]:
    """A vertical line with a name."""
    data = rows(("at", "name"), [(value, name)])
    mark: Spec = {"type": "rule", "strokeDash": [4, 3], "color": _colour("ink")}
    x: Spec = {"field": "at", "type": "quantitative"}
    text = _label(data, "name", "right", baseline="bottom", y=-3)
    text["encoding"] |= {"x": x}
    return [{"data": {"values": data}, "mark": mark, "encoding": {"x": x, "tooltip": _tips("name", "at")}}, text]


def _tips(*fields: str) -> list[Spec]:
    return [{"field": field, "type": "nominal"} for field in fields]


def roofline(findings: Findings) -> Chart | None:
    """The measured ceilings over arithmetic intensity, and the contenders below."""
    roof = findings.roofline
    if roof is None:
        return None
    left = 10 ** math.floor(math.log10(min(roof.intensity, roof.ridge) / 3))
    right = 10 ** math.ceil(math.log10(max(roof.intensity, roof.ridge) * 3))
    (memory, bandwidth), (peak, top) = roof.memory, roof.peak
    edge = [(left, left * bandwidth), (roof.ridge, top), (right, top)]
    names = [
        (left * 1.2, left * 1.2 * bandwidth, f"{memory}: {bandwidth:,.0f} GB/s"),
        (right / 1.2, top, f"{peak}: {top:,.0f} GFLOP/s"),
    ]
    points = [
        (roof.intensity, c.rates.gflops, c.name, _role(c)) for c in findings.contenders if c.rates and c.rates.gflops
    ]
    x = _log("x", "FLOP per byte that must move", (left, right), 1)
    y = _log("y", "GFLOP/s", (left * bandwidth, top, *(point[1] for point in points)), 1.5)
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": _colour("ink"), "strokeWidth": 1.5}, "encoding": {"x": x, "y": y}},
        _at(_label(rows(("x", "y", "name"), names[:1]), "name", dx=10, dy=8), x, y),
        _at(_label(rows(("x", "y", "name"), names[1:]), "name", "right", dy=-8), x, y),
        {
            "data": {"values": rows(("x", "y", "name", "role"), points)},
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 0.9},
            "encoding": {
                "x": x, "y": y, "color": {**_roles(findings.contenders), "legend": {"orient": "bottom", "title": None}},
                "tooltip": _tips("name", "y"),
            },
        },
    ]  # fmt: skip
    best = findings.contenders[0].rates
    reached = (best.gflops or 0.0) / roof.attainable if best else 0.0
    bound = roof.peak[0] if roof.intensity >= roof.ridge else roof.memory[0]
    caption = (
        f"The kernel does {roof.intensity:,.3g} FLOP per byte. At that, the {bound} ceiling allows "
        f"{roof.attainable:,.0f} GFLOP/s, of which the best reaches {reached:.1%}."
    )
    if roof.in_cache:
        caption += " The caches may hold all arrays, so memory need not bound it."
    return Chart("roofline", "Roofline", caption, spec(rows(("x", "y"), edge), 280, layers))


def _at(layer: Spec, x: Spec, y: Spec) -> Spec:
    return {**layer, "encoding": {**layer["encoding"], "x": x, "y": y}}


def convergence(findings: Findings) -> Chart:
    """Time by trial, and the best so far; for a recording, what a random search would find."""
    found = findings.convergence
    points = rows(("trial", "ms"), found.points)
    x: Spec = {"field": "trial", "type": "quantitative", "title": "trial", "scale": {"zero": False, "nice": False}}
    if findings.random_search:
        y = _log("ms", "ms", (time_ms for _, time_ms in findings.random_search))
        curve = {"values": rows(("trial", "ms"), findings.random_search)}
        title, caption = "What a random search would find", (
            "The line is the median best time of a random search of this space, by its number of trials: a yardstick "
            "for strategies (`tune replay`)."
        )  # fmt: skip
        x = _log("trial", "trials of a random search", (1, found.trials), 1)
        lines: list[Spec] = [_steps(curve, x, y)]
    else:
        y = _log("ms", "ms", (time_ms for _, time_ms in found.points))
        steps = [(number, time_ms) for number, time_ms, _ in found.improvements]
        steps.append((found.trials, steps[-1][1]))
        curve = {"values": rows(("trial", "ms"), steps)}
        last = found.improvements[-1][0]
        title, caption = "Convergence", f"Each dot is a trial. The line is the best so far; trial {last} found it."
        dots: Spec = {
            "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.45, "color": _colour("soft")},
            "encoding": {"x": x, "y": y, "tooltip": _tips("trial", "ms")},
        }
        lines = [dots, _steps(curve, x, y)]
    return Chart("convergence", title, caption, spec(points, 240, lines))


def _steps(data: Spec, x: Spec, y: Spec) -> Spec:
    return {
        "data": data,
        "mark": {"type": "line", "interpolate": "step-after", "color": _colour("accent"), "strokeWidth": 2},
        "encoding": {"x": x, "y": y},
    }


def distribution(findings: Findings) -> Chart:
    """The histogram of times."""
    found, subject = findings.distribution, findings.subject
    data = rows(("from", "to", "count"), found.bins)
    x = _log("from", "ms", (found.bins[0][0], found.bins[-1][1]), 1.01)
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "color": _colour("accent")},
            "encoding": {
                "x": x,
                "x2": {"field": "to"},
                "y": {"field": "count", "type": "quantitative", "title": "configurations"},
                "y2": {"datum": 0},
                "tooltip": _tips("from", "to", "count"),
            },
        }
    ]
    default = subject.default
    if default in subject.times and default is not None and default != subject.best:
        layers += _rule(subject.times[default], "default")
    caption = (
        f"{found.within:,} of {found.total:,} configurations are within {WITHIN:.0%} of the fastest; the slowest takes "
        f"{found.bins[-1][1] / found.bins[0][0]:,.3g} times as long."
    )
    return Chart("distribution", "Distribution of times", caption, spec(data, 200, layers))


def importance(findings: Findings) -> Chart | None:
    """The share of each parameter."""
    if not findings.shares:
        return None
    data = rows(("name", "share"), findings.shares.items())
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    x: Spec = {"field": "share", "type": "quantitative", "title": "share", "axis": {"format": "%"}}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "color": _colour("accent")},
            "encoding": {"x": x, "y": y, "tooltip": [{"field": "name"}, {"field": "share", "format": ".1%"}]},
        }
    ]
    caption = (
        "The share of the variance of the time's logarithm that each parameter explains by itself, over all "
        "configurations that were measured: fANOVA, as Optuna computes it from a random forest. What matters over the "
        "whole space may not matter near the best: see the neighbours."
    )
    return Chart("importance", "Importance of parameters", caption, spec(data, 22 * len(data), layers))


def neighbours(findings: Findings) -> Chart | None:
    """The time of each neighbour of the best over that of the best."""
    best_ms = findings.subject.times[findings.subject.best]
    measured = [n for n in findings.neighbours if n.time_ms is not None]
    if not measured:
        return None
    data = rows(
        ("name", "ratio", "ms", "parameter"),
        [(f"{n.name} = {n.value}", (n.time_ms or 0.0) / best_ms, n.time_ms, n.name) for n in measured],
    )
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    x = _log("ratio", "times the best", [1, *(row["ratio"] for row in data)])
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "color": _colour("accent"), "strokeWidth": 3},
            "encoding": {"y": y, "x": x, "x2": {"datum": 1}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "color": _colour("accent"), "opacity": 1},
            "encoding": {"y": y, "x": x, "tooltip": _tips("name", "ratio", "ms")},
        },
        *_rule(1.0, ""),
    ]
    caption = "The best with one parameter changed. What is left of 1 was faster in the search, but not in the finals."
    if not any(row["ratio"] < 1 for row in data):
        caption = "The best with one parameter changed."
    return Chart("neighbours", "Neighbours of the best", caption, spec(data, 18 * len(data), layers))


def slices(findings: Findings) -> Chart | None:
    """The fastest time for each pair of values of two parameters, which the reader chooses."""
    if not findings.slices:
        return None
    best_ms = min(findings.subject.times.values())
    pairs = [f"{a} and {b}" for a, b in (part.names for part in findings.slices)]
    cells = [
        (position, str(a), str(b), time_ms / best_ms, time_ms, count, time_ms / best_ms > _middle(part, best_ms))
        for position, part in enumerate(findings.slices)
        for a, b, time_ms, count in part.cells
    ]
    data = rows(("pair", "a", "b", "ratio", "ms", "count", "dark"), cells)
    orders = [_order(cell[i] for part in findings.slices for cell in part.cells) for i in (0, 1)]
    x: Spec = {"field": "a", "type": "ordinal", "sort": orders[0], "title": None, "axis": {"labelAngle": 0}}
    y: Spec = {"field": "b", "type": "ordinal", "sort": orders[1], "title": None}
    colour: Spec = {
        "field": "ratio",
        "type": "quantitative",
        "title": "times the fastest",
        "scale": {"type": "log", "scheme": "viridis", "reverse": True, "domainMin": 1},
        "legend": {"orient": "bottom", "gradientLength": 180},
    }
    layers: list[Spec] = [
        {"mark": {"type": "rect"}, "encoding": {"x": x, "y": y, "color": colour, "tooltip": _tips("ms", "count")}},
        {
            "mark": {"type": "text", "fontSize": 11},
            "encoding": {
                "x": x,
                "y": y,
                "text": {"field": "ratio", "format": ".3~g"},
                "color": {"condition": {"test": "datum.dark", "value": "white"}, "value": "black"},
            },
        },
    ]
    choice: Spec = {
        "name": "pair",
        "value": 0,
        "bind": {"input": "select", "options": list(range(len(pairs))), "labels": pairs, "name": "across and up: "},
    }
    caption = (
        f"Of all configurations with these two values, the fastest, over the fastest of all. It opens with {pairs[0]}."
    )
    whole = spec(data, 240, layers, params=[choice], transform=[{"filter": "datum.pair == pair"}])
    across, up = findings.slices[0].names
    return Chart("slices", "Two parameters at a time", caption, whole, f"{across} across, {up} up")


def _middle(part: Slice, best_ms: float) -> float:
    """The ratio from which a cell is dark."""
    return math.sqrt(max(time_ms for _, _, time_ms, _ in part.cells) / best_ms)


def _order(values: Iterable[Any]) -> list[str]:
    """Distinct values as texts: numbers ascending, then other texts."""
    distinct = sorted(set(values), key=lambda v: (isinstance(v, str), v))
    return [str(value) for value in distinct]
