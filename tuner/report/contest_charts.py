"""The charts of the best beside default and library: bars, and the roofline above them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.report.contenders import FINALS
from tuner.report.vega_lite import Chart, Spec, colour, label, logarithmic, rows, rule, spec, tips

if TYPE_CHECKING:
    from tuner.report.contenders import Contender
    from tuner.report.findings import Findings

SHORT = 0.3  # of the longest bar: what has no room for a label


def contest(findings: Findings) -> Chart:
    """The best, the default and the library, by rate where work is counted, else by time."""
    found = findings.contenders
    unit, values, ceiling = _measure(found)
    labels = [f"{c.time_ms:.4g} ms" for c in found]
    inside = [value > SHORT * max(values) for value in values]
    names = [c.name for c in found]
    data = rows(
        ("name", "value", "label", "role", "inside"), zip(names, values, labels, map(_role, found), inside, strict=True)
    )
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    more = "more is better" if unit != "ms" else "less is better"
    x: Spec = {"field": "value", "type": "quantitative", "title": f"{unit}, {more}"}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "height": {"band": 0.7}},
            "encoding": {"y": y, "x": x, "color": _roles(found), "tooltip": tips("name", "value", "label")},
        },
        _times("datum.inside", colour("paper"), {"y": y, "x": {"datum": 0}}),
    ]
    if not all(inside):
        layers.append(_times("!datum.inside", colour("ink"), {"y": y, "x": x}))
    if ceiling is not None:
        layers += rule(ceiling[1], f"{ceiling[0]} ceiling")
    together = [c.name for c in found if c.origin == FINALS]
    caption = f"Timed in the same rounds: {', '.join(together)}." if len(together) > 1 else ""
    title = f"Best against {' and '.join(names[1:])}" if names[1:] else "The best"
    return Chart("contest", title, caption, spec(data, 34 * len(data), layers))


def _times(which: str, ink: Spec, places: Spec) -> Spec:
    """The times of bars: within long ones, beside short ones."""
    return {
        "transform": [{"filter": which}],
        "mark": {"type": "text", "align": "left", "dx": 6, "color": ink},
        "encoding": {**places, "text": {"field": "label"}},
    }


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
    colours = {"best": colour("accent"), "default": colour("soft"), "library": colour("warm")}
    names = list(dict.fromkeys(map(_role, found)))
    scale = {"domain": names, "range": [colours[name] for name in names]}
    return {"field": "role", "type": "nominal", "scale": scale, "legend": None}


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
    x = logarithmic("x", "FLOP per byte that must move", (left, right), 1)
    y = logarithmic("y", "GFLOP/s", (left * bandwidth, top, *(point[1] for point in points)), 1.5)
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": colour("ink"), "strokeWidth": 1.5}, "encoding": {"x": x, "y": y}},
        _at(label(rows(("x", "y", "name"), names[:1]), "name", dx=10, dy=8), x, y),
        _at(label(rows(("x", "y", "name"), names[1:]), "name", "right", dy=-8), x, y),
        {
            "data": {"values": rows(("x", "y", "name", "role"), points)},
            "mark": {"type": "point", "filled": True, "size": 90, "opacity": 0.9},
            "encoding": {
                "x": x, "y": y, "color": {**_roles(findings.contenders), "legend": {"orient": "bottom", "title": None}},
                "tooltip": tips("name", "y"),
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
