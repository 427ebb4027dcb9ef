"""Vega-Lite from vl-convert, which works offline: its JavaScript for pages, and pictures."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.devices.builds import build_cache
from tuner.errors import EnvironmentTrouble, RequestError
from tuner.report.pages.vega_lite import theme

if TYPE_CHECKING:
    from tuner.report.pages.vega_lite import Chart, Spec

VERSION = "6.4"  # of Vega-Lite, as vl-convert names it
PICTURES = (".svg", ".png")
WIDTH, SCALE = 680, 2  # width of a chart in a picture, in pixels; a PNG has SCALE times as many
_SNIPPET = "window.vegaEmbed = vegaEmbed;"
MISSING = "pages and pictures need vl-convert, which is not installed; pip install vl-convert-python"


def is_installed() -> bool:
    """Whether vl-convert is installed."""
    return find_spec("vl_convert") is not None


def check() -> None:
    """Raise RequestError if vl-convert is not installed."""
    if not is_installed():
        raise RequestError(f"{MISSING}, or leave out --output")


@functools.cache
def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script, which sets `window.vegaEmbed`.

    It is kept in the cache, because bundling takes a second, most of the time of a small page.
    """
    check()
    import vl_convert

    name = f"vega-{metadata.version('vl-convert-python')}-{VERSION}.js"
    with contextlib.suppress(EnvironmentTrouble):  # without a cache
        if kept := build_cache.read(name):
            return kept.decode()
    text: str = vl_convert.javascript_bundle(_SNIPPET, vl_version=VERSION)
    with contextlib.suppress(EnvironmentTrouble):
        build_cache.write(name, text.encode())
    return text


def picture(charts: Sequence[Chart], title: str, suffix: str) -> bytes:
    """All charts, one below the other, as the bytes of an .svg or .png file with a white background.

    Raises RequestError if vl-convert is not installed.
    """
    check()
    import vl_convert

    whole: Spec = {
        "$schema": charts[0].spec["$schema"],
        "title": {"text": title, "anchor": "start", "fontSize": 16, "offset": 18},
        "background": "white",
        "spacing": 36,
        "vconcat": [_fixed(chart) for chart in charts],
        "params": [param for chart in charts for param in chart.spec.get("params", [])],
        "resolve": {"scale": {"color": "independent"}, "legend": {"color": "independent"}},
        "config": {**theme(dark=False), "background": "white"},
    }
    if suffix == ".svg":
        svg: str = vl_convert.vegalite_to_svg(whole, vl_version=VERSION)
        return svg.encode()
    png: bytes = vl_convert.vegalite_to_png(whole, vl_version=VERSION, scale=SCALE)
    return png


def _fixed(chart: Chart) -> dict[str, Any]:
    """The specification of a chart with a fixed width, without the members that only the enclosing one may have."""
    inner = {name: value for name, value in chart.spec.items() if name not in ("$schema", "autosize", "params")}
    title = ": ".join(filter(None, (chart.title, chart.detail)))
    return {**inner, "width": WIDTH, "title": {"text": title, "anchor": "start"}}


def suffix_of(path: Path) -> str:
    """The file format by a path's suffix: .html, .svg or .png. Raises RequestError for any other."""
    suffix = path.suffix.lower()
    if suffix in (".html", ".htm"):
        return ".html"
    if suffix not in PICTURES:
        raise RequestError(f"--output {path}: ends in {suffix or 'nothing'}; write a name in .html, .svg or .png")
    return suffix
