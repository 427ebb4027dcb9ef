"""Charts that compare the best with the default and the vendor library: bars, and the roofline."""

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
SHORT = 0.3  # share of the axis; a shorter bar has its label beside it


def contest(findings: Findings) -> Chart:
    """Bars of the best, the default and the library.

    Their length is the rate that the roofline bounds, else any rate that is known, else the time.
    """
    contenders = findings.contenders
    unit, values, ceiling = _measure(contenders, findings.roofline)
    labels = [f"{c.time_ms:.4g} ms" for c in contenders]
    end = max(*values, ceiling[1] if ceiling else 0.0)
    inside = [value > SHORT * end for value in values]
    names = [c.name for c in contenders]
    data = rows(
        ("name", "value", "label", "role", "inside"),
        zip(names, values, labels, map(_role, contenders), inside, strict=True),
    )
    y: Spec = {"field": "name", "type": "nominal", "sort": None, "title": None}
    more = "more is better" if unit != "ms" else "less is better"
    x: Spec = {"field": "value", "type": "quantitative", "title": f"{unit}, {more}"}
    colours = _coloured(contenders, None)
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
    together = [c.name for c in contenders if c.origin == FINALS]
    caption = f"Timed in the same rounds: {', '.join(together)}." if len(together) > 1 else ""
    title = f"Best against {' and '.join(names[1:])}" if names[1:] else "The best"
    return Chart("contest", title, caption, spec(data, 34 * len(data), layers))


def _times(condition: str, ink: Spec, encoding: Spec) -> Spec:
    """The labels, which are times, of the bars that meet a condition."""
    return {
        "transform": [{"filter": condition}],
        "mark": {"type": "text", "align": "left", "dx": 6, "color": ink},
        "encoding": {**encoding, "text": {"field": "label"}},
    }


def _measure(
    contenders: Sequence[Contender], roof: Roofline | None
) -> tuple[str, list[float], tuple[str, float] | None]:
    """The unit in which to compare contenders, their values, and the name and rate of the ceiling that bounds them."""
    best = contenders[0].rates
    if best is None:
        return "ms", [c.time_ms for c in contenders], None
    gflops = [c.rates.gflops for c in contenders if c.rates and c.rates.gflops]
    gbytes = [c.rates.gbytes for c in contenders if c.rates and c.rates.gbytes]
    ways = [
        ("GFLOP/s", gflops, roof.peak if roof else _ceiling(best.peak, best.gflops, best.vs_peak)),
        ("GB/s", gbytes, roof.memory if roof else _ceiling(best.memory, best.gbytes, best.vs_memory)),
    ]
    # Without a roofline, the resource that has a ceiling is assumed to bound the kernel.
    is_memory_bound = roof.is_memory_bound if roof else ways[0][2] is None and ways[1][2] is not None
    for unit, values, ceiling in reversed(ways) if is_memory_bound else ways:
        if len(values) == len(contenders):
            return unit, values, ceiling
    return "ms", [c.time_ms for c in contenders], None


def _ceiling(name: str | None, rate: float | None, share: float | None) -> tuple[str, float] | None:
    return (name, rate / share) if name and rate and share else None


def _role(contender: Contender) -> str:
    return contender.name if contender.name in ("best", "default") else "library"


_COLOURS = {"best": colour("accent"), "default": colour("soft"), "library": colour("warm")}
_SHAPES = {"best": "circle", "default": "square", "library": "circle"}
_SIZES = {"best": 50, "default": 130, "library": 260}  # different, so that points in the same place are visible
_FILLS = {"best": colour("accent"), "default": "transparent", "library": "transparent"}


def _coloured(contenders: Sequence[Contender], legend: Spec | None, values: Mapping[str, Any] = _COLOURS) -> Spec:
    """The colour channel, or another one with these values, with the roles of these contenders."""
    names = list(dict.fromkeys(map(_role, contenders)))
    scale = {"domain": names, "range": [values[name] for name in names]}
    return {"field": "role", "type": "nominal", "scale": scale, "legend": legend}


def roofline(findings: Findings) -> Chart | None:
    """The measured ceilings over arithmetic intensity, and the contenders below them; None if there is no roofline."""
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
    contenders = findings.contenders
    # The best is last, so it is drawn over the others.
    points = [
        (roof.intensity, c.rates.gflops, c.name, _role(c)) for c in reversed(contenders) if c.rates and c.rates.gflops
    ]
    x = logarithmic("x", "FLOP per byte that must move", (left, right), 1)
    y = logarithmic("y", "GFLOP/s", (left * bandwidth, top, *(point[1] for point in points)), 1.5)
    legend = {"orient": "bottom", "title": None}  # one for all channels
    tests = [{"test": f"datum.role == '{role}'", "value": size} for role, size in _SIZES.items()]
    sizes = {"condition": tests, "value": _SIZES["library"]}
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": colour("ink"), "strokeWidth": 1.5}, "encoding": {"x": x, "y": y}},
        _at(label(rows(("x", "y", "name"), names[:1]), dx=10, dy=8), x, y),
        _at(label(rows(("x", "y", "name"), names[1:]), "right", dy=-8), x, y),
        {
            "data": {"values": rows(("x", "y", "name", "role"), points)},
            "mark": {"type": "point", "opacity": 1, "strokeWidth": 2},
            "encoding": {
                "x": x, "y": y, "stroke": _coloured(contenders, legend), "fill": _coloured(contenders, legend, _FILLS),
                "shape": _coloured(contenders, legend, _SHAPES), "size": sizes,
                "tooltip": tips("name", "y"),
            },
        },
    ]  # fmt: skip
    best = findings.contenders[0].rates
    reached = roof.share(best) if best else 0.0
    caption = (
        f"The kernel's arithmetic intensity is {roof.intensity:,.3g} FLOP per byte. There, the {roof.bound} ceiling "
        f"allows {roof.attainable:,.0f} GFLOP/s, of which the best reaches {reached:.1%}."
    )
    if roof.in_cache:
        caption += " The caches may hold all arrays, so memory may not be the bound."
    return Chart("roofline", ROOFLINE, caption, spec(rows(("x", "y"), edge), 280, layers))


def _at(layer: Spec, x: Spec, y: Spec) -> Spec:
    return {**layer, "encoding": {**layer["encoding"], "x": x, "y": y}}
