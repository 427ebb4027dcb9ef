"""The charts of the best beside default and library: bars, and the roofline above them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner.report.contenders import FINALS
from tuner.report.pages.vega_lite import Chart, Spec, colour, label, logarithmic, rows, rule, spec, tips

if TYPE_CHECKING:
    from tuner.report.contenders import Contender
    from tuner.report.findings import Findings
    from tuner.report.roofline import Roofline

ROOFLINE = "Roofline"
SHORT = 0.3  # of the axis: a bar that has no room for its label


def contest(findings: Findings) -> Chart:
    """The best, the default and the library: by the rate that the roofline bounds, else by any that is counted, else by
    time."""
    found = findings.contenders
    unit, values, ceiling = _measure(found, findings.roofline)
    labels = [f"{c.time_ms:.4g} ms" for c in found]
    end = max(*values, ceiling[1] if ceiling else 0.0)
    inside = [value > SHORT * end for value in values]
    names = [c.name for c in found]
    data = rows(
        ("name", "value", "label", "role", "inside"), zip(names, values, labels, map(_role, found), inside, strict=True)
    )
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    more = "more is better" if unit != "ms" else "less is better"
    x: Spec = {"field": "value", "type": "quantitative", "title": f"{unit}, {more}"}
    colours = _coloured(found, None)
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "height": {"band": 0.7}},
            "encoding": {
                "y": y,
                "x": x,
                "color": colours,
                "tooltip": tips("name", "value", "label"),
            },
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


def _measure(found: Sequence[Contender], roof: Roofline | None) -> tuple[str, list[float], tuple[str, float] | None]:
    """The unit that contenders are compared in, their values, and the name and rate of the ceiling above them."""
    best = found[0].rates
    if best is None:
        return "ms", [c.time_ms for c in found], None
    gflops = [c.rates.gflops for c in found if c.rates and c.rates.gflops]
    gbytes = [c.rates.gbytes for c in found if c.rates and c.rates.gbytes]
    ways = [
        ("GFLOP/s", gflops, roof.peak if roof else _ceiling(best.peak, best.gflops, best.vs_peak)),
        ("GB/s", gbytes, roof.memory if roof else _ceiling(best.memory, best.gbytes, best.vs_memory)),
    ]
    # What bounds the kernel; without a roofline, what has a ceiling.
    is_memory_bound = roof.is_memory_bound if roof else ways[0][2] is None and ways[1][2] is not None
    for unit, values, ceiling in reversed(ways) if is_memory_bound else ways:
        if len(values) == len(found):
            return unit, values, ceiling
    return "ms", [c.time_ms for c in found], None


def _ceiling(name: str | None, rate: float | None, share: float | None) -> tuple[str, float] | None:
    return (name, rate / share) if name and rate and share else None


def _role(contender: Contender) -> str:
    return contender.name if contender.name in ("best", "default") else "library"


_COLOURS = {"best": colour("accent"), "default": colour("soft"), "library": colour("warm")}
_SHAPES = {"best": "circle", "default": "square", "library": "circle"}
_SIZES = {"best": 50, "default": 130, "library": 260}  # the larger are seen around a smaller one at the same place
_FILLS = {"best": colour("accent"), "default": "transparent", "library": "transparent"}


def _coloured(found: Sequence[Contender], legend: Spec | None) -> Spec:
    """The colours of the roles that are there."""
    names = list(dict.fromkeys(map(_role, found)))
    scale = {"domain": names, "range": [_COLOURS[name] for name in names]}
    return {"field": "role", "type": "nominal", "scale": scale, "legend": legend}


def _by_role(values: Mapping[str, Any]) -> Spec:
    """A channel that has a value for each role, and no legend."""
    tests = [{"test": f"datum.role == '{role}'", "value": value} for role, value in values.items()]
    return {"condition": tests, "value": values["library"]}


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
    found = findings.contenders
    # The best comes last, and so lies above the others.
    points = [(roof.intensity, c.rates.gflops, c.name, _role(c)) for c in reversed(found) if c.rates and c.rates.gflops]
    x = logarithmic("x", "FLOP per byte that must move", (left, right), 1)
    y = logarithmic("y", "GFLOP/s", (left * bandwidth, top, *(point[1] for point in points)), 1.5)
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": colour("ink"), "strokeWidth": 1.5}, "encoding": {"x": x, "y": y}},
        _at(label(rows(("x", "y", "name"), names[:1]), "name", dx=10, dy=8), x, y),
        _at(label(rows(("x", "y", "name"), names[1:]), "name", "right", dy=-8), x, y),
        {
            "data": {"values": rows(("x", "y", "name", "role"), points)},
            "mark": {"type": "point", "opacity": 1, "strokeWidth": 2},
            "encoding": {
                "x": x, "y": y, "color": _coloured(found, {"orient": "bottom", "title": None}),
                "shape": _by_role(_SHAPES), "size": _by_role(_SIZES), "fill": _by_role(_FILLS),
                "tooltip": tips("name", "y"),
            },
        },
    ]  # fmt: skip
    best = findings.contenders[0].rates
    reached = roof.share(best) if best else 0.0
    caption = (
        f"The kernel does {roof.intensity:,.3g} FLOP per byte. At that, the {roof.bound} ceiling allows "
        f"{roof.attainable:,.0f} GFLOP/s, of which the best reaches {reached:.1%}."
    )
    if roof.in_cache:
        caption += " The caches may hold all arrays, so memory need not bound it."
    return Chart("roofline", ROOFLINE, caption, spec(rows(("x", "y"), edge), 280, layers))


def _at(layer: Spec, x: Spec, y: Spec) -> Spec:
    return {**layer, "encoding": {**layer["encoding"], "x": x, "y": y}}
