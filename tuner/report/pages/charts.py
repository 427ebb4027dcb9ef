"""The charts of a report, as Vega-Lite specifications whose colours are parameters of a theme."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tuner.report.importance import why_no_shares
from tuner.report.landscape import WITHIN, Slice
from tuner.report.pages.contest_charts import ROOFLINE, contest, roofline
from tuner.report.pages.vega_lite import Chart, Spec, colour, logarithmic, rounded, rows, rule, spec, tips
from tuner.report.roofline import why_none

if TYPE_CHECKING:
    from tuner.report.findings import Findings

IMPORTANCE, NEIGHBOURS, SLICES = "Importance of parameters", "Neighbours of the best", "Two parameters at a time"

NAMES = ("contest", "roofline", "convergence", "distribution", "importance", "neighbours", "slices")  # in page order
LEAST_END = 1.1  # smallest upper end of the colour scale of ratios


def charts(findings: Findings) -> list[Chart]:
    """The charts for which there is data."""
    makers = [contest, roofline]
    if not _has_few(findings):
        makers += [convergence, distribution, importance, neighbours, slices]
    return [chart for make in makers if (chart := make(findings)) is not None]


def _has_few(findings: Findings) -> bool:
    """Whether the trials are only the few of a record, without the order of a search."""
    return findings.subject.trials.origin == "record"


def absent(findings: Findings) -> dict[str, tuple[str, str]]:
    """The title of each chart for which there is no data, and the reason, by the chart's name."""
    reasons = {}
    if findings.roofline is None:
        reasons["roofline"] = ROOFLINE, why_none(findings.contenders[0].rates, findings.subject.ceilings)
    if _has_few(findings) or all(neighbour.time_ms is None for neighbour in findings.neighbours):
        reasons["neighbours"] = (
            NEIGHBOURS,
            "None of them has a time; `--measure` measures them on a machine with the device.",
        )
    if _has_few(findings):
        return reasons
    if not findings.shares:
        reasons["importance"] = IMPORTANCE, why_no_shares(findings.subject)
    if not findings.slices:
        reasons["slices"] = SLICES, "Fewer than two parameters vary among the measured configurations."
    return reasons


def convergence(findings: Findings) -> Chart:
    """Time by trial, and the best so far; for a recording, the expected best of a random search."""
    history = findings.convergence
    points = rows(("trial", "ms"), history.points)
    x: Spec = {"field": "trial", "type": "quantitative", "title": "trial", "scale": {"zero": False, "nice": False}}
    if findings.random_search:
        y = logarithmic("ms", "ms", (time_ms for _, time_ms in findings.random_search))
        curve = {"values": rows(("trial", "ms"), findings.random_search)}
        title, caption = "What a random search would find", (
            "The line is the median best time of a random search of this space, by its number of trials: a yardstick "
            "for strategies (`tune replay`)."
        )  # fmt: skip
        x = logarithmic("trial", "trials of a random search", (1, history.trials), 1)
        lines: list[Spec] = [_steps(curve, x, y)]
    else:
        y = logarithmic("ms", "ms", (time_ms for _, time_ms in history.points))
        steps = [(number, time_ms) for number, time_ms, _ in history.improvements]
        steps.append((history.trials, steps[-1][1]))
        curve = {"values": rows(("trial", "ms"), steps)}
        last = history.improvements[-1][0]
        title, caption = "Convergence", f"Each dot is a trial. The line is the best so far; trial {last} found it."
        if history.winner is not None and history.winner != last:
            caption += f" Trial {history.winner} won the finals."
        if besides := len(findings.subject.besides):
            caption += f" Not shown, because they are not part of the search: {besides} more, measured for a report."
        dots: Spec = {
            "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.45, "color": colour("soft")},
            "encoding": {"x": x, "y": y, "tooltip": tips("trial", "ms")},
        }
        lines = [dots, _steps(curve, x, y)]
    return Chart("convergence", title, caption, spec(points, 240, lines))


def _steps(data: Spec, x: Spec, y: Spec) -> Spec:
    return {
        "data": data,
        "mark": {"type": "line", "interpolate": "step-after", "color": colour("accent"), "strokeWidth": 2},
        "encoding": {"x": x, "y": y},
    }


def distribution(findings: Findings) -> Chart:
    """The histogram of times."""
    histogram, subject = findings.distribution, findings.subject
    data = rows(("from", "to", "count"), histogram.bins)
    x = logarithmic("from", "ms", (histogram.bins[0][0], histogram.bins[-1][1]), 1.01)
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "color": colour("accent")},
            "encoding": {
                "x": x,
                "x2": {"field": "to"},
                "y": {"field": "count", "type": "quantitative", "title": "configurations"},
                "y2": {"datum": 0},
                "tooltip": tips("from", "to", "count"),
            },
        }
    ]
    default = subject.default
    if default in subject.times and default is not None and default != subject.best:
        layers += rule(subject.times[default], "default")
    caption = (
        f"Configurations within {WITHIN:.0%} of the fastest: {histogram.within:,} of {histogram.total:,}. The "
        f"slowest takes {histogram.bins[-1][1] / histogram.bins[0][0]:,.3g} times as long."
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
            "mark": {"type": "bar", "color": colour("accent")},
            "encoding": {"x": x, "y": y, "tooltip": [{"field": "name"}, {"field": "share", "format": ".1%"}]},
        }
    ]
    together = max(0.0, 1 - sum(findings.shares.values()))
    caption = (
        "The share of the variance of the time's logarithm that each parameter explains by itself, over all "
        "configurations that were measured: fANOVA, as Optuna computes it from a random forest. The other "
        f"{together:.0%} depend on several parameters together. What matters over the whole space may not matter near "
        "the best: see the neighbours."
    )
    return Chart("importance", IMPORTANCE, caption, spec(data, 22 * len(data), layers))


def neighbours(findings: Findings) -> Chart | None:
    """The time of each neighbour of the best, relative to the best's; None if none was measured."""
    best_ms = findings.subject.times[findings.subject.best]
    measured = [n for n in findings.neighbours if n.time_ms is not None]
    if not measured:
        return None
    data = rows(
        ("name", "ratio", "ms", "parameter"),
        [(f"{n.name} = {n.value}", (n.time_ms or 0.0) / best_ms, n.time_ms, n.name) for n in measured],
    )
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    x = logarithmic("ratio", "times the best", [1, *(row["ratio"] for row in data)])
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "color": colour("accent"), "strokeWidth": 3},
            "encoding": {"y": y, "x": x, "x2": {"datum": 1}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "color": colour("accent"), "opacity": 1},
            "encoding": {"y": y, "x": x, "tooltip": tips("name", "ratio", "ms")},
        },
        *rule(1.0, ""),
    ]
    source = findings.subject.source
    caption = f"The best with one parameter changed, relative to the best's {best_ms:.4g} ms in the {source}."
    if any(row["ratio"] < 1 for row in data):
        caption += f" Those left of 1 were faster than the best in the {source}."
    if late := [f"{n.name} = {n.value}" for n in measured if n.after_finals]:
        caption += f" Measured for a report, after the finals: {', '.join(late)}."
    if unsure := sum(bool(n.verdict) for n in measured):
        caption += f" {unsure} of {len(measured)} are indistinguishable from the best: the table says which."
    return Chart("neighbours", NEIGHBOURS, caption, spec(data, 18 * len(data), layers))


def slices(findings: Findings) -> Chart | None:
    """The fastest time for each pair of values of two parameters that the reader selects; None if there are none."""
    if not findings.slices:
        return None
    best_ms = min(findings.subject.times.values())
    pairs = [f"{a} and {b}" for a, b in _names(findings)]
    ends = [_end(part, best_ms) for part in findings.slices]
    cells = [
        (position, str(a), str(b), time_ms / best_ms, time_ms, count, time_ms / best_ms > math.sqrt(ends[position]))
        for position, part in enumerate(findings.slices)
        for a, b, time_ms, count in part.cells
    ]
    data = rows(("pair", "a", "b", "ratio", "ms", "count", "dark"), cells)
    orders = [_order(cell[i] for part in findings.slices for cell in part.cells) for i in (0, 1)]
    across, up = ({"signal": f"{json.dumps(names)}[pair]"} for names in zip(*_names(findings), strict=True))
    x: Spec = {"field": "a", "type": "ordinal", "sort": orders[0], "axis": {"labelAngle": 0, "title": across}}
    y: Spec = {"field": "b", "type": "ordinal", "sort": orders[1], "axis": {"title": up}}
    end = {"expr": f"{json.dumps(ends)}[pair]"}
    colour: Spec = {
        "field": "ratio",
        "type": "quantitative",
        "title": "times the fastest",
        "scale": {"type": "log", "scheme": "viridis", "reverse": True, "domainMin": 1, "domainMax": end},
        "legend": {"orient": "bottom", "gradientLength": 180},
    }
    layers: list[Spec] = [
        {"mark": {"type": "rect"}, "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips("ms", "count")}},
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
        "The fastest configuration with each pair of values, relative to the fastest of all. It starts with "
        f"{pairs[0]}."
    )
    whole = spec(data, 240, layers, params=[choice], transform=[{"filter": "datum.pair == pair"}])
    return Chart("slices", SLICES, caption, whole, pairs[0])


def _names(findings: Findings) -> list[tuple[str, str]]:
    return [part.names for part in findings.slices]


def _end(part: Slice, best_ms: float) -> float:
    """The upper end of the colour scale; at least LEAST_END, so that nearly equal ratios have similar colours."""
    return rounded(max(LEAST_END, *(time_ms / best_ms for _, _, time_ms, _ in part.cells)))


def _order(values: Iterable[Any]) -> list[str]:
    """Distinct values as strings: numbers in ascending order, then strings."""
    distinct = sorted(set(values), key=lambda v: (isinstance(v, str), v))
    return [str(value) for value in distinct]
