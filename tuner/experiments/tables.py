"""Published against measured: as Markdown, as JSON, and as the lines and columns of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tuner import paths
from tuner.experiments.published import Published
from tuner.experiments.results import Measurement, Reproduced, Reproduction
from tuner.space.model import config_text, short_size, size_text

LEAST_ROWS = 5  # for a rank correlation
HEADER = (
    "row",
    *("published", "GFLOP/s", "share"),
    "measured on",
    *("published constants", "GFLOP/s", "share"),
    *("tuned", "GFLOP/s", "share"),
    *("loads, counted", "tuned"),
)
LEGEND = (
    "Times in ms; shares of {}, measured in the same rounds; in parentheses, what follows from the printed figures; "
    "* a printed rate that does not follow from the printed time."
)


def rank_correlation(rows: Iterable[Reproduced]) -> tuple[float, int] | None:
    """Spearman's coefficient of the published times and ours with the published constants, and the number of rows; None
    of fewer than LEAST_ROWS, and where they were not all measured on one device at one size."""
    both = [one for one in rows if one.row.stage and one.row.published.time_ms and one.constants.time_ms]
    published = [one.row.published.time_ms for one in both]
    measured = [one.constants.time_ms for one in both]
    if len(set(published)) < LEAST_ROWS or len({_here(one) for one in both}) > 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(published, measured).statistic), len(both)


def markdown(done: Reproduction) -> str:
    """A page: head, tables, and under each what there is to say of its rows."""
    parts = [f"# {done.experiment.title}", head(done)]
    for number, rows in enumerate(done.tables):
        header, cells = columns(rows)
        body = [[*row, _stage(one)] for row, one in zip(cells, rows, strict=True)]
        table = [[*header, "stage"], ["---", *["---:"] * (len(header) - 1), "---"], *body]
        parts.append(f"## {title(done, number)}")
        parts.append("\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in table))
        parts.append("\n".join(f"- {line}" for line in lines(done, number)))
    return paths.plain("\n\n".join([*parts, legend(done)]) + "\n")


def document(done: Reproduction) -> dict[str, Any]:
    """All of it for JSON; times in ms, rates in GFLOP/s."""
    experiment = done.experiment
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "author": experiment.author,
        "where": experiment.where,
        "published_device": experiment.device,
        "note": experiment.note,
        "finished": done.finished,
        "tables": [
            {
                "title": table.title,
                "size": dict(table.sizes),
                "note": table.note,
                "rank_correlation": _correlation_json(rows),
                "rows": [_row_json(one) for one in rows],
            }
            for table, rows in zip(experiment.tables, done.tables, strict=True)
        ],
        "rank_correlation": _correlation_json(done.rows),
    }


def _correlation_json(rows: Iterable[Reproduced]) -> dict[str, Any] | None:
    found = rank_correlation(rows)
    return None if found is None else {"spearman": found[0], "rows": found[1]}


def _row_json(one: Reproduced) -> dict[str, Any]:
    row, published = one.row, one.row.published
    return {
        "row": row.name,
        "stage": row.stage,
        "reference": row.reference,
        "published": asdict(published),
        "note": row.note,
        "device": one.device
        and {name: one.device.describe()[name] for name in ("device", "name", "toolchain", "peak")},
        "size": one.scope and dict(one.scope.sizes),
        "constants": asdict(one.constants),
        "tuned": {**asdict(one.tuned), "origin": one.origin},
        "library": one.library,
        "library_ms": one.library_ms,
        "printed_loads": row.loads and row.loads.printed,
    }


def head(done: Reproduction) -> str:
    """What was published where, and what it was measured on here."""
    experiment = done.experiment
    devices = {one.device.id: one.device for rows in done.tables for one in rows if one.device}
    here = "; ".join(f"{name}: {device.name}, {device.toolchain}" for name, device in sorted(devices.items()))
    where = f"{experiment.where}; author: {experiment.author}; device: {experiment.device}"
    parts = [f"{experiment.title} ({where}).", experiment.note, f"Measurement on {here or 'nothing'}."]
    return " ".join(part for part in parts if part)


def legend(done: Reproduction) -> str:
    """What units and marks mean."""
    libraries = sorted({one.library for one in done.rows if one.library})
    return LEGEND.format(", ".join(libraries) or "the vendor's library")


def title(done: Reproduction, number: int) -> str:
    """The title of a table, with its size."""
    table = done.experiment.tables[number]
    return f"{table.title} ({size_text(table.sizes)})"


def columns(rows: Sequence[Reproduced]) -> tuple[list[str], list[list[str]]]:
    """Header and cells, without the columns that are empty."""
    cells = [
        [
            one.row.name,
            *_published(one.row.published),
            _here(one),
            *_measured(one.constants),
            *_measured(one.tuned),
            *(_count(m.loads) for m in (one.constants, one.tuned)),
        ]
        for one in rows
    ]
    kept = [position for position in range(len(HEADER)) if any(row[position] for row in cells)]
    return [HEADER[position] for position in kept], [[row[position] for position in kept] for row in cells]


def _published(published: Published) -> list[str]:
    """Time, rate and share: as printed, or in parentheses."""
    derived = {
        "time": published.time_ms and f"({_number(published.time_ms)})",
        "rate": published.gflops and f"({_number(published.gflops)})",
        "share": published.share and f"({published.share:.1%})",
    }
    cells = {kind: published.printed.get(kind) or text or "" for kind, text in derived.items()}
    return [cells["time"], cells["rate"] + " *" * published.contradicts, cells["share"]]


def _measured(measured: Measurement) -> list[str]:
    if measured.time_ms is None:
        return ["failed" if measured.failed else "left out" if measured.reason else "", "", ""]
    return [
        _number(measured.time_ms),
        _number(measured.gflops) if measured.gflops else "",
        f"{measured.vs_library:.1%}" if measured.vs_library else "",
    ]


def _here(one: Reproduced) -> str:
    """`opencl:0, 256`: device and size."""
    return f"{one.device.id}, {short_size(dict(one.scope.sizes))}" if one.device and one.scope else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _count(loads: int | None) -> str:
    """`550 million, 2.2 GB`: loads, and the bytes of as many floats."""
    return "" if loads is None else f"{loads / 1e6:,.0f} million, {4 * loads / 1e9:.4g} GB"


def lines(done: Reproduction, number: int) -> list[str]:
    """What there is to say of a table's rows."""
    table, rows = done.experiment.tables[number], done.tables[number]
    lines = [table.note] if table.note else []
    stages = [one for one in rows if one.scope and one.row.stage]
    if small := [one for one in stages if one.scope and one.scope.sizes != table.sizes]:
        lines.append(f"At a small size, which says little of the published one: {_names(small, stages)}.")
    if (found := rank_correlation(rows)) is not None:
        lines.append(f"Rank correlation (Spearman) of published times and ours: {found[0]:.3f}, {found[1]} rows.")
    if number == len(done.tables) - 1 > 0 and (found := rank_correlation(done.rows)) is not None:
        lines.append(f"The same over all tables: {found[0]:.3f}, {found[1]} rows.")
    for one in rows:
        if one.row.reference == "peak" and one.device and one.device.peak:
            lines.append(f"{one.row.name}: {one.device.peak}.")
        if one.row.loads:
            lines.append(f"{one.row.name}: {one.row.loads.printed} loads an output, as printed; counted, not measured.")
        if one.row.note:
            lines.append(f"{one.row.name}: {one.row.note}")
    tuned = {one.row.stage: f"{config_text(one.tuned.config)} ({one.origin})" for one in stages if one.tuned.config}
    return [*lines, *(f"{stage} tuned: {config}" for stage, config in tuned.items()), *_reasons(rows)]


def _reasons(rows: Sequence[Reproduced]) -> list[str]:
    """Why rows, or a half of them, have no time; each reason once."""
    found: dict[tuple[str, str], list[Reproduced]] = {}
    for one in rows:
        halves = {"": one.constants}
        if one.row.stage and one.tuned.reason != one.constants.reason:
            halves = {", published constants": one.constants, ", tuned": one.tuned}
        for half, measured in halves.items():
            if measured.time_ms is None and measured.reason:
                kind = "Failed" if measured.failed else "Left out"
                found.setdefault((f"{kind}{half}", measured.reason), []).append(one)
    return [f"{what}: {_names(which, rows)}: {reason}." for (what, reason), which in found.items()]


def _names(some: Sequence[Reproduced], rows: Sequence[Reproduced]) -> str:
    stages = sum(one.row.stage is not None for one in rows)
    return "all stages" if len(some) == stages > 1 else "; ".join(one.row.name for one in some)


def _stage(one: Reproduced) -> str:
    return f"{one.row.stage} {config_text(one.row.config)}" if one.row.stage else ""
