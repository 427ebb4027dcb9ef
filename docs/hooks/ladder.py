"""Draw docs/images/ladder.svg, the rates of all stages, from the records that ship: `python docs/hooks/ladder.py`.

It suits light and dark pages: it has its own background, and its colours follow the reader's colour scheme.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from steps import DEVICE, Ladder, ladders

from tuner import paths
from tuner.report import store_tables

PICTURE = paths.shipped("results").parent / "docs/images/ladder.svg"
# Each for the light and the dark scheme. The colours are distinguishable with red-green colour blindness.
COLOURS = {
    "ground": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#818b98", "#7d8590"),
    "grid": ("#d8dee4", "#2a313a"),
    "tuned": ("#b84a00", "#ff9a4d"),
    "published": ("#0063a5", "#6cb6ff"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}


def described(all_ladders: Sequence[Ladder]) -> str:
    """A text description of the picture, for accessibility and for the test that the picture is up to date."""
    lines = [
        f"Matrix products on an {DEVICE} at {store_tables.LADDER_SIZE}, in TFLOP/s, tuned and with published constants."
    ]
    for ladder in all_ladders:
        for step in ladder.measured:
            lines.append(f"{step.kernel}: {_tera(step.tuned)}, {_tera(step.published)}.")
        lines.append(f"{ladder.family}: {ladder.library} {_tera(ladder.library_rate)}, {_ceiling(ladder)}.")
    return "\n".join(lines)


def svg(all_ladders: Sequence[Ladder]) -> str:
    """The picture: a panel for each ladder, with two curves over its steps and two horizontal lines."""
    import matplotlib
    from matplotlib.figure import Figure

    style = {"svg.fonttype": "none", "svg.hashsalt": "tuner", "font.family": "sans-serif", "font.size": 9}
    with matplotlib.rc_context({**style, "axes.edgecolor": LIGHT["faint"], "text.color": LIGHT["ink"]}):
        figure = Figure(figsize=(9.2, 4.4), layout="constrained", facecolor=LIGHT["ground"])
        panels = figure.subplots(1, len(all_ladders), width_ratios=[len(each.measured) for each in all_ladders])
        for panel, ladder in zip(panels, all_ladders, strict=True):
            _draw(panel, ladder)
        edge = store_tables.LADDER_SIZE
        figure.suptitle(f"{DEVICE}, {edge} x {edge} x {edge}", fontsize=10)
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _following_the_reader(file.getvalue(), described(all_ladders))


def _draw(panel: Any, ladder: Ladder) -> None:
    steps = ladder.measured
    places = range(len(steps))
    highest = ladder.ceiling_rate / 1e3
    for rate, words in ((highest, _ceiling(ladder)), (ladder.library_rate / 1e3, ladder.library)):
        panel.axhline(rate, color=LIGHT["faint"], linewidth=1, linestyle=":" if rate == highest else "--")
        text = words if rate == highest else f"{words} {_tera(ladder.library_rate)}"
        panel.annotate(text, (0, rate), (0, 3), textcoords="offset points", color=LIGHT["ink"], fontsize=8)
    for name, rates in (
        ("published", [step.published for step in steps]),
        ("tuned", [step.tuned for step in steps]),
    ):
        values = [rate / 1e3 if rate else float("nan") for rate in rates]
        label = {"tuned": "tuned", "published": "published constants"}[name]
        panel.plot(places, values, "o-", color=LIGHT[name], linewidth=1.6, markersize=4, label=label)
    best = steps[-1].tuned or 0.0
    panel.annotate(
        f"{_tera(best)}", (places[-1], best / 1e3), (3, 6), textcoords="offset points", ha="right", fontsize=8,
        color=LIGHT["tuned"], fontweight="bold",
    )  # fmt: skip
    panel.set_xticks(places, [step.kernel.partition("/")[2] for step in steps], rotation=40, ha="right")
    panel.set_facecolor(LIGHT["ground"])
    panel.set(title=ladder.family, ylabel="TFLOP/s", ylim=(0, highest * 1.12))
    panel.tick_params(colors=LIGHT["ink"], labelsize=8)
    panel.yaxis.label.set_color(LIGHT["ink"])
    panel.grid(axis="y", color=LIGHT["grid"], linewidth=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(loc="center left", frameon=False, labelcolor=LIGHT["ink"], fontsize=8, bbox_to_anchor=(0, 0.62))


def _following_the_reader(text: str, words: str) -> str:
    """The SVG with colours that follow the reader's colour scheme, and `words` as its description."""
    for name, colour in LIGHT.items():
        text = re.sub(colour, f"var(--{name}, {colour})", text, flags=re.IGNORECASE)
    light, dark = (
        "".join(f"--{name}: {pair[position]}; " for name, pair in COLOURS.items()).rstrip() for position in (0, 1)
    )
    style = f"<style>svg {{ {light} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    _, tag, rest = text.partition("<svg ")
    attributes, _, body = rest.partition(">")
    text = f'{tag}role="img" {attributes}>\n<desc>{words}</desc>\n{style}{body}'
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _tera(rate: float | None) -> str:
    """GFLOP/s as TFLOP/s, with three significant digits."""
    return "unknown" if rate is None else f"{rate / 1e3:.0f}" if rate >= 1e5 else f"{rate / 1e3:.3g}"


def _ceiling(ladder: Ladder) -> str:
    """Such as `measured ceiling, FMA 65.3`."""
    return f"measured ceiling, {ladder.ceiling} {_tera(ladder.ceiling_rate)}"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(svg(ladders()), encoding="utf-8")
    print(f"wrote {PICTURE}")
