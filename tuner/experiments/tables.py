"""Format published against measured figures: as Markdown, as JSON, and as text and columns for a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tuner.experiments.experiment import PublishedFigures
from tuner.experiments.results import Measurement, Reproduction, RowResult
from tuner.quoting import plain
from tuner.space.texts import config_text, short_size, size_text

LEAST_ROWS = 5  # different times needed for a rank correlation
HEADER = (
    "row",
    *("published", "GFLOP/s", "share"),
    "measured on",
    *("published constants", "GFLOP/s", "share"),
    *("tuned", "GFLOP/s", "share"),
    *("loads, counted", "tuned"),
)
LEGEND = (
    "Times in ms; shares are of {}, measured in the same rounds; figures in parentheses are derived from the printed "
    "ones; * marks a printed rate that does not follow from the printed time."
)


def rank_correlation(results: Iterable[RowResult]) -> tuple[float, int] | None:
    """Spearman's rank correlation of the published times with ours for the same constants, and the number of rows.

    None if there are fewer than LEAST_ROWS different published times, or if rows differ in device or size.
    """
    both = [r for r in results if r.row.stage and r.row.published.time_ms and r.constants.time_ms]
    published = [result.row.published.time_ms for result in both]
    measured = [result.constants.time_ms for result in both]
    if len(set(published)) < LEAST_ROWS or len({_measured_on(result) for result in both}) > 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(published, measured).statistic), len(both)


def markdown(reproduction: Reproduction) -> str:
    """A Markdown page: the head, each table with notes on its rows, and the legend."""
    parts = [f"# {reproduction.experiment.title}", head(reproduction)]
    for number, results in enumerate(reproduction.tables):
        header, cells = columns(results)
        body = [[*row, _stage(result)] for row, result in zip(cells, results, strict=True)]
        table = [[*header, "stage"], ["---", *["---:"] * (len(header) - 1), "---"], *body]
        parts.append(f"## {title(reproduction, number)}")
        parts.append("\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in table))
        parts.append("\n".join(f"- {line}" for line in notes(reproduction, number)))
    return plain("\n\n".join([*parts, legend(reproduction)]) + "\n")


def document(reproduction: Reproduction) -> dict[str, Any]:
    """The reproduction as JSON data; times in ms, rates in GFLOP/s."""
    experiment = reproduction.experiment
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "author": experiment.author,
        "where": experiment.where,
        "published_device": experiment.device,
        "note": experiment.note,
        "finished": reproduction.finished,
        "tables": [
            {
                "title": table.title,
                "size": dict(table.sizes),
                "note": table.note,
                "rank_correlation": _correlation_json(results),
                "rows": [_row_json(result) for result in results],
            }
            for table, results in zip(experiment.tables, reproduction.tables, strict=True)
        ],
        "rank_correlation": _correlation_json(reproduction.rows),
    }


def _correlation_json(results: Iterable[RowResult]) -> dict[str, Any] | None:
    correlation = rank_correlation(results)
    return correlation and {"spearman": correlation[0], "rows": correlation[1]}


def _row_json(result: RowResult) -> dict[str, Any]:
    row, device = result.row, result.device and result.device.describe()
    return {
        "row": row.name,
        "stage": row.stage,
        "reference": row.reference,
        "published": asdict(row.published),
        "note": row.note,
        "device": device and {name: device[name] for name in ("device", "name", "toolchain", "peak")},
        "size": result.scope and dict(result.scope.sizes),
        "constants": asdict(result.constants),
        "tuned": {**asdict(result.tuned), "origin": result.origin},
        "library": result.library,
        "library_ms": result.library_ms,
        "printed_loads": row.loads and row.loads.printed,
    }


def head(reproduction: Reproduction) -> str:
    """What was published and where, and the devices of this machine that measured it."""
    experiment = reproduction.experiment
    devices = {
        result.device.id: result.device for results in reproduction.tables for result in results if result.device
    }
    measured_on = "; ".join(f"{name}: {device.name}, {device.toolchain}" for name, device in sorted(devices.items()))
    publication = f"{experiment.where}; author: {experiment.author}; device: {experiment.device}"
    measurement = f"Measured on {measured_on}." if measured_on else "Nothing was measured."
    parts = [f"{experiment.title} ({publication}).", experiment.note, measurement]
    return " ".join(filter(None, parts))


def legend(reproduction: Reproduction) -> str:
    """What the units and marks of the tables mean."""
    libraries = sorted({result.library for result in reproduction.rows if result.library})
    return LEGEND.format(", ".join(libraries) or "the vendor's library")


def title(reproduction: Reproduction, number: int) -> str:
    """The title of table `number`, with its size."""
    table = reproduction.experiment.tables[number]
    return f"{table.title} ({size_text(table.sizes)})"


def columns(results: Sequence[RowResult]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of cells of a table, without empty columns."""
    rows = [
        [
            result.row.name,
            *_published(result.row.published),
            _measured_on(result),
            *_measured(result.constants),
            *_measured(result.tuned),
            *(_count(measurement.loads) for measurement in (result.constants, result.tuned)),
        ]
        for result in results
    ]
    filled = [position for position in range(len(HEADER)) if any(row[position] for row in rows)]
    return [HEADER[position] for position in filled], [[row[position] for position in filled] for row in rows]


def _published(figures: PublishedFigures) -> list[str]:
    """The cells of time, rate and share: as printed, or derived and in parentheses."""
    derived = {
        "time": figures.time_ms and f"({_number(figures.time_ms)})",
        "rate": figures.gflops and f"({_number(figures.gflops)})",
        "share": figures.share and f"({figures.share:.1%})",
    }
    cells = {kind: figures.printed.get(kind) or text or "" for kind, text in derived.items()}
    return [cells["time"], cells["rate"] + " *" * figures.contradicts, cells["share"]]


def _measured(measurement: Measurement) -> list[str]:
    """The cells of time, rate and share; without a time, `failed` or `left out`."""
    if measurement.time_ms is None:
        return ["failed" if measurement.failed else "left out" if measurement.reason else "", "", ""]
    return [
        _number(measurement.time_ms),
        _number(measurement.gflops) if measurement.gflops else "",
        f"{measurement.vs_library:.1%}" if measurement.vs_library else "",
    ]


def _measured_on(result: RowResult) -> str:
    """The device and size, as `opencl:0, 256`; empty if not measured."""
    return f"{result.device.id}, {short_size(dict(result.scope.sizes))}" if result.device and result.scope else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _count(loads: int | None) -> str:
    """A number of loads, and its bytes at 4 bytes each, as `550 million, 2.2 GB`."""
    return "" if loads is None else f"{loads / 1e6:,.0f} million, {4 * loads / 1e9:.4g} GB"


def notes(reproduction: Reproduction, number: int) -> list[str]:
    """The notes on table `number` and its rows, one line each."""
    table, results = reproduction.experiment.tables[number], reproduction.tables[number]
    lines = [table.note] if table.note else []
    stages = [result for result in results if result.scope and result.row.stage]
    if small := [result for result in stages if result.scope and result.scope.sizes != table.sizes]:
        lines.append(f"At a small size, which says little about the published size: {_names(small, stages)}.")
    if bare := [r for r in stages if r.row.space and r.row.space.operation.reference.kind == "none"]:
        lines.append(f"Unverified, because there is no reference: {_names(bare, stages)}.")
    if (correlation := rank_correlation(results)) is not None:
        lines.append(
            "Rank correlation (Spearman) of published and measured times: {:.3f}, {} rows.".format(*correlation)
        )
    if number == len(reproduction.tables) - 1 > 0 and (correlation := rank_correlation(reproduction.rows)) is not None:
        lines.append("The same over all tables: {:.3f}, {} rows.".format(*correlation))
    for result in results:
        row = result.row
        if row.reference == "peak" and result.device and result.device.peak:
            lines.append(f"{row.name}: {result.device.peak}.")
        if row.loads:
            lines.append(f"{row.name}: {row.loads.printed} loads per output, as printed; counted, not measured.")
        if row.note:
            lines.append(f"{row.name}: {row.note}")
    tuned = {r.row.stage: f"{config_text(r.tuned.config)} ({r.origin})" for r in stages if r.tuned.config}
    return [*lines, *(f"{stage} tuned: {config}" for stage, config in tuned.items()), *_reasons(results)]


def _reasons(results: Sequence[RowResult]) -> list[str]:
    """One line for each reason why rows, or one of their two configurations, have no time."""
    groups: dict[tuple[str, str], list[RowResult]] = {}
    for result in results:
        measurements = {"": result.constants}
        if result.row.stage and result.tuned.reason != result.constants.reason:
            measurements = {", published constants": result.constants, ", tuned": result.tuned}
        for label, measurement in measurements.items():
            if measurement.time_ms is None and measurement.reason:
                outcome = "Failed" if measurement.failed else "Left out"
                groups.setdefault((f"{outcome}{label}", measurement.reason), []).append(result)
    return [f"{outcome}: {_names(group, results)}: {reason}." for (outcome, reason), group in groups.items()]


def _names(group: Sequence[RowResult], results: Sequence[RowResult]) -> str:
    """The names of the rows in `group`; `all stages` if it is every stage of `results`."""
    stages = sum(result.row.stage is not None for result in results)
    return "all stages" if len(group) == stages > 1 else "; ".join(result.row.name for result in group)


def _stage(result: RowResult) -> str:
    """A row's kernel and published configuration; empty for a reference."""
    return f"{result.row.stage} {config_text(result.row.config)}" if result.row.stage else ""
