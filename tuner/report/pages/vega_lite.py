"""The parts of Vega-Lite specifications that charts share: themes, data, axes, labels and rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tuner.classes import dataclass

Spec = dict[str, Any]
MOST_TICKED = 50.0  # ratio of a logarithmic axis's ends up to which its ticks are not only powers of ten
_DIGITS = 5  # significant digits of a number in a page


@dataclass(frozen=True)
class Chart:
    """A chart: the name of its section, a title, a caption, and a specification that is as wide as its container.

    `detail` is added to the title in a picture, in which the reader cannot make a selection.
    """

    name: str
    title: str
    caption: str
    spec: Spec
    detail: str = ""


def theme(dark: bool) -> Spec:
    """The Vega-Lite configuration for a light or a dark page, with colours for colour-blind readers (Okabe and Ito)."""
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
        "legend": {"labelColor": ink, "titleColor": soft, "labelFontSize": 12, "titleFontWeight": "normal",
                   "layout": {"bottom": {"direction": "vertical", "anchor": "start"}}},
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


def rounded(value: float) -> float:
    """A number rounded to the significant digits that a chart shows."""
    return value if value == 0 or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def rows(names: Sequence[str], values: Iterable[Sequence[Any]]) -> list[Spec]:
    """Rows of data, with `names` as keys and with rounded numbers."""
    return [
        {name: rounded(v) if isinstance(v, float) else v for name, v in zip(names, row, strict=True)} for row in values
    ]


def spec(data: Any, height: int, layers: Sequence[Spec], **more: Any) -> Spec:
    """The specification of a chart of layers, as wide as its container and `height` pixels high."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "data": {"values": data},
        "layer": list(layers),
        **more,
    }


def colour(name: str) -> Spec:
    """A colour of the theme."""
    return {"expr": name}


def logarithmic(field: str, title: str, values: Iterable[float], margin: float = 1.03) -> Spec:
    """A logarithmic axis from the least to the largest of `values`, extended by the factor `margin` at both ends."""
    known = list(values)
    domain = [rounded(min(known) / margin), rounded(max(known) * margin)]
    scale = {"type": "log", "domain": domain, "nice": False}
    axis: Spec = {"tickCount": 6}
    if domain[1] > MOST_TICKED * domain[0]:  # grid lines at 2, 3, 4, ... of every decade would be too many
        decades = range(math.ceil(math.log10(domain[0])), math.floor(math.log10(domain[1])) + 1)
        axis = {"values": [10.0**decade for decade in decades]}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def label(values: list[Spec], align: str = "left", **more: Any) -> Spec:
    """A layer of the names of `values` beside points of other layers."""
    return {
        "data": {"values": values},
        "mark": {"type": "text", "align": align, "dx": 4 if align == "left" else -4, "color": colour("soft"), **more},
        "encoding": {"text": {"field": "name"}},
    }


def rule(value: float, name: str) -> list[Spec]:
    """A vertical dashed line with a name."""
    data = rows(("at", "name"), [(value, name)])
    mark: Spec = {"type": "rule", "strokeDash": [4, 3], "color": colour("ink")}
    x: Spec = {"field": "at", "type": "quantitative"}
    text = label(data, "right", baseline="bottom", y=-3)
    text["encoding"] |= {"x": x}
    return [{"data": {"values": data}, "mark": mark, "encoding": {"x": x, "tooltip": tips("name", "at")}}, text]


def tips(*fields: str) -> list[Spec]:
    """The fields of a tooltip."""
    return [{"field": field, "type": "nominal"} for field in fields]
