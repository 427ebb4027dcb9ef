"""The pages of the course, one per stage: generated from the kernel's header comment, its space file and its record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from steps import DEVICE, Ladder, Step

from tuner import devices
from tuner.catalog import catalog
from tuner.report import store_tables
from tuner.space.model import Space

MARKER = "<!-- steps -->"  # in docs/course.md, replaced by the list of steps
MOST_VALUES = 8  # shown of each knob


def name(kernel: str) -> str:
    """The page of a kernel, such as `course/sgemm-03_naive.md`."""
    return f"course/{kernel.replace('/', '-')}.md"


def pages(ladders: Sequence[Ladder]) -> dict[str, str]:
    """The text of each page, by its name."""
    found = {}
    for ladder in ladders:
        stems = {step.kernel.partition("/")[2]: step.kernel for step in ladder.steps}
        for before, step in zip([None, *ladder.steps], ladder.steps, strict=False):
            found[name(step.kernel)] = _page(step, before, ladder, catalog.load(step.kernel), stems)
    return found


def contents(ladders: Sequence[Ladder]) -> str:
    """The list of steps, which replaces MARKER."""
    lines = []
    for ladder in ladders:
        lines += [f"### {ladder.family}", "", "| step | what is new | TFLOP/s |", "|---|---|---:|"]
        for step in ladder.steps:
            rate = f"{step.tuned / 1e3:.3g}" if step.tuned else ""
            lines.append(f"| [{step.kernel}]({name(step.kernel)}) | {catalog.load(step.kernel).title} | {rate} |")
        lines += [f"| {ladder.library} |  | {ladder.library_rate / 1e3:.3g} |", ""]
    return "\n".join(lines)


def _page(step: Step, before: Step | None, ladder: Ladder, space: Space, stems: Mapping[str, str]) -> str:
    source = space.sources[0]
    text = source.read_text(encoding="utf-8")
    kind = "opencl" if "opencl" in space.languages else devices.kinds_of(space)[0]
    trial = f"tune {step.kernel} 4096"
    trials = {
        "opencl": [f"tune {step.kernel} 256 --device opencl --budget 20", trial],
        "cuda": [trial],
        "host": [f"tune {step.kernel} 256 --device host"],
    }[kind]
    fence = "c" if source.suffix == ".c" else "cpp"
    return "\n\n".join(
        [
            f"# {step.kernel}\n\nThis page is for people who take [the course](../course.md). *{space.title}.*",
            "## What changes, and why it is faster",
            _linked(_prose(header(text)), stems, step.kernel),
            "## What it reaches",
            _figures(step, before, ladder),
            "## Its knobs",
            _knobs(space, step),
            "## Try it",
            "```sh\n" + "\n".join(trials) + "\n```",
            "## The kernel",
            f'??? note "kernels/{step.kernel}{source.suffix}, {len(text.splitlines())} lines"\n\n'
            + "\n".join(f"    {line}".rstrip() for line in [f"```{fence}", *text.splitlines(), "```"]),
        ]
    )


def header(text: str) -> list[str]:
    """The lines of a kernel file's header comment, without `// `."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").removeprefix(" "))
    return lines


def _prose(lines: Sequence[str]) -> str:
    """The comment as Markdown, with an empty line around each list and before each new subject."""
    found: list[str] = []
    for line in lines:
        item, inner = line.startswith("- "), line.startswith("  ")
        in_list = bool(found) and found[-1].startswith(("- ", "  "))
        subject = re.match(r"(Against|Ideas?|How|What else|With)\b.*[: ]", line) is not None
        if found and found[-1] and ((item and not in_list) or (in_list and not item and not inner) or subject):
            found.append("")
        found.append(line if inner else re.sub(r"(?<!\w)([_*])(?=\w)", r"\\\1", line))
    return "\n".join(found)


def _linked(text: str, stems: Mapping[str, str], here: str) -> str:
    """`text` with names of other steps of this family as links."""

    def link(match: re.Match[str]) -> str:
        kernel = stems.get(match[0])
        return match[0] if kernel in (None, here) else f"[{match[0]}]({Path(name(str(kernel))).name})"

    return re.sub(r"(?<![\w/])\d\d_\w+", link, text)


def _figures(step: Step, before: Step | None, ladder: Ladder) -> str:
    """A table of the record's rates, with those of the previous step."""
    if not step.tuned or not step.record:
        return "No record of this step ships."
    lines = [
        f"| {DEVICE} at {store_tables.LADDER_SIZE} | TFLOP/s | share of {ladder.library} "
        "| share of the measured ceiling |",
        "|---|---:|---:|---:|",
    ]
    library = step.library or ladder.library_rate  # measured in the same rounds as the record
    rows = [("tuned", step.tuned, library), ("published constants", step.published, library)]
    if before:
        rows.append((f"previous step, tuned: {before.kernel}", before.tuned, before.library or ladder.library_rate))
    for words, rate, beside in [*rows, (ladder.library, library, library)]:
        if rate:
            shares = f"{rate / beside:.1%} | {rate / ladder.ceiling_rate:.1%}"
            lines.append(f"| {words} | {rate / 1e3:.4g} | {shares} |")
    r = step.record
    measured = (
        f"It took {r.time_ms:.4g} ms, measured on {r.date[:10]} with {r.toolchain}. {r.evaluated:,} configurations"
    )
    return "\n".join(lines) + f"\n\n{measured} of {r.configurations:,} were tried."


def _knobs(space: Space, step: Step) -> str:
    """A table of the parameters: values, published value, best value."""
    best = step.record.config if step.record else {}
    lines = [f"| knob | values | published | best at {store_tables.LADDER_SIZE} |", "|---|---|---:|---:|"]
    for knob, values in space.parameters.items():
        shown = ", ".join(map(str, values[:MOST_VALUES])) + (", .." if len(values) > MOST_VALUES else "")
        lines.append(f"| `{knob}` | {shown} | {space.default.get(knob, '')} | {best.get(knob, '')} |")
    return "\n".join(lines)
