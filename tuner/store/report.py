"""Markdown tables of the records in the store."""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tuner import paths
from tuner.errors import RequestError
from tuner.space import catalog, wheels
from tuner.space.texts import config_text, problem_text, short_size, types_text
from tuner.store.store import Place, Record, Store

LADDER_SIZE = "4096"  # at which most tutorials print their times
GALLERY = "gallery"  # the family whose kernels are no steps of a ladder, and have sizes of their own


@dataclass(frozen=True)
class ReportRow:
    """A record and its kernel."""

    kernel: str
    record: Record

    @property
    def title(self) -> str:
        """The kernel, with the types that were chosen, as in `mine/axpy, real=float16`."""
        return self.kernel + types_text(self.record.types)


def rows(
    device: str = "", results: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> list[ReportRow]:
    """The records of all kernels, by kernel, device and size. `device` is a kind of device, or part of a name.

    `say` gets a message for each line that holds no record. Raises RequestError if there are records, but none of
    `device`.
    """
    roots = [results or paths.user_results(), paths.shipped("results")]
    of_wheels = [wheel.folder / "results" for wheel in wheels.installed()[0]]
    files = {
        path.relative_to(root).with_suffix("").as_posix()
        for root in (*roots, *of_wheels)
        for path in root.rglob("*.jsonl")
    }
    table = []
    for kernel in sorted(files):
        store = Store(kernel, results, [Place(root / f"{kernel}.jsonl", kernel) for root in of_wheels])
        for problem in store.problems:
            say(problem)
        records = [record for record in store.records if record.is_plain]
        table += [ReportRow(kernel, r) for r in sorted(records, key=lambda r: (r.device, tuple(r.sizes.values())))]
    current = {entry.name for entry in catalog.every()[0]}
    known = {row.record.key for row in table if row.kernel in current}
    table = [row for row in table if row.kernel in current or row.record.key not in known]  # those of a kernel renamed
    matches = [row for row in table if device == row.record.kind or device.casefold() in row.record.device.casefold()]
    if table and not matches:
        names = ", ".join(sorted({row.record.device for row in table}))
        raise RequestError(f"--device {paths.shown(device)}: the store knows none of this name; it has {names}")
    return matches


def tables(table: list[ReportRow]) -> dict[str, str]:
    """The Markdown tables, by name: `results` and, where the store has records for them, `gains`, `ladder` and
    `gallery`. What the last one shows is in no other."""
    gallery = [row for row in table if _family(row.kernel) == GALLERY]
    stages = [row for row in table if _family(row.kernel) != GALLERY]
    optional = {
        "gains": gains_table([row for row in stages if row.record.default_ms is not None]),
        "ladder": ladder_table([row for row in stages if short_size(row.record.sizes) == LADDER_SIZE]),
        "gallery": gallery_table(gallery),
    }
    return {"results": results_table(stages)} | {name: text for name, text in optional.items() if text}


def results_table(table: list[ReportRow]) -> str:
    """A Markdown table with a line per kernel and device.

    It shows the rate in GFLOP/s and the shares of the vendor's library, by its default and by the best of its
    algorithms, at each size, or all rates where there is no such library, and the best configuration at the largest
    size. A line for each of the two follows their kernels: the median of its rates in their finals.
    """
    columns = _columns(table)
    lines = [
        f"| kernel | device | {' | '.join(columns)} | best configuration at the largest |",
        "|---|---|" + "---|" * (len(columns) + 1),
    ]
    for family, kernels in itertools.groupby(_groups(table).items(), key=lambda group: _family(group[0][0])):
        library_rates: dict[tuple[str, str], dict[str, list[float]]] = {}
        for (kernel, device), records in kernels:
            cells = [_cell(records.get(column)) for column in columns]
            largest = next(records[column] for column in reversed(columns) if column in records)
            lines.append(f"| {kernel} | {device} | {' | '.join(cells)} | {config_text(largest.config)} |")
            for column, record in records.items():
                for library, rate in _library_rates(record).items():
                    library_rates.setdefault((library, device), {}).setdefault(column, []).append(rate)
        for (library, device), by_size in library_rates.items():
            cells = [_rate(median(by_size[column])) if column in by_size else "" for column in columns]
            lines.append(f"| {family}: {library} | {device} | {' | '.join(cells)} |  |")
    return "\n".join(lines)


def gains_table(table: list[ReportRow]) -> str:
    """A Markdown table with a line per kernel and device; empty without records.

    It shows, at each size, the time in ms with the space's default, which is the published constants, and with the best
    configuration, the gain, and both shares of the vendor's library, by its default and by the best of its algorithms.
    """
    columns = _columns(table)
    lines = [f"| kernel | device | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for (kernel, device), records in _groups(table).items():
        cells = [_gain(records[c]) + _origin(records[c]) if c in records else "" for c in columns]
        lines.append(f"| {kernel} | {device} | {' | '.join(cells)} |")
    return "\n".join(lines) if table else ""


def ladder_table(table: list[ReportRow]) -> str:
    """A Markdown table for each device, of records of LADDER_SIZE: a line for each kernel with its rate in GFLOP/s, its
    share of the vendor's library, that of the best of its algorithms where a record has one, and how many times faster
    it is than with the published constants. The library has lines of its own after the kernels that it was measured
    beside. Empty where there is no record."""
    groups = _groups(table)
    devices = dict.fromkeys(device for _, device in groups)
    return "\n\n".join(
        _ladder(device, {kernel: records[LADDER_SIZE] for (kernel, on), records in groups.items() if on == device})
        for device in devices
    )


def gallery_table(table: list[ReportRow]) -> str:
    """A Markdown table with a line per kernel and device: the largest problem, the rate there, the time in ms with the
    space's default and with the best configuration, the gain, that at smaller sizes, and the best configuration. Empty
    without records."""
    lines = [
        "| kernel | device | the largest problem | rate | tuning gains | at smaller sizes | best configuration |",
        "|---|---|---|---:|---|---|---|",
    ]
    for (kernel, device), by_size in _groups(table).items():
        *smaller, largest = sorted(by_size.values(), key=lambda record: math.prod(record.sizes.values()))
        gains = [f"{_ratio(r.default_ms, r.time_ms)} at {short_size(r.sizes)}" for r in smaller if r.default_ms]
        lines.append(
            f"| {kernel.removeprefix(GALLERY + '/')} | {device} | {problem_text(largest.sizes, {})} "
            f"| {_work_rates(largest)}{_origin(largest)} | {_gain(largest) if largest.default_ms else ''} "
            f"| {', '.join(gains)} | {config_text(largest.config)} |"
        )
    return "\n".join(lines) if table else ""


def _work_rates(record: Record) -> str:
    """`312 GFLOP/s (0.5% of FMA), 3,511 GB/s (82.3% of copy)`, as far as they are known; the time where no work is
    counted."""
    arithmetic = _rate(record.gflops) + " GFLOP/s" + _of(record.vs_peak, record.peak) if record.gflops else ""
    bandwidth = _rate(record.gbytes) + " GB/s" + _of(record.vs_memory, record.memory) if record.gbytes else ""
    return ", ".join(filter(None, (arithmetic, bandwidth))) or f"{record.time_ms:.4g} ms"


def _of(share: float | None, ceiling: str | None) -> str:
    return f" ({share:.1%} of {ceiling})" if share else ""


def _ladder(device: str, records: Mapping[str, Record]) -> str:
    """The table of one device from its `records`, by kernel."""
    names = dict.fromkeys(record.library.partition(" ")[0] for record in records.values() if record.library)
    shares = [f"share of {' or '.join(names) or 'the library'}"]
    if best := {record.best_library.partition(" ")[0] for record in records.values() if record.best_library}:
        shares.append(f"of the best of {' or '.join(sorted(best))}")
    lines = [
        f"| {device} at {LADDER_SIZE} | GFLOP/s | {' | '.join(shares)} | gain over the published constants |",
        "|---|" + "---:|" * (len(shares) + 2),
    ]
    for family, kernels in itertools.groupby(records, key=_family):
        library_rates: dict[str, list[float]] = {}
        for kernel in kernels:
            record = records[kernel]
            gain = _ratio(record.default_ms, record.time_ms) if record.default_ms else ""
            cells = [_share(record.vs_library), _share(record.vs_best_library)][: len(shares)]
            lines.append(f"| {kernel} | {_rate_cell(record)}{_origin(record)} | {' | '.join(cells)} | {gain} |")
            for library, rate in _library_rates(record).items():
                library_rates.setdefault(library, []).append(rate)
        for library, rates in library_rates.items():
            lines.append(f"| {family}: {library} | {_rate(median(rates))} |{'  |' * (len(shares) + 1)}")
    return "\n".join(lines)


def _gain(record: Record) -> str:
    """`3.594 to 3.022 ms, 1.19 x, 75.7 to 90.0%`, and another two shares where there are those of the best library."""
    assert record.default_ms is not None
    before, after, libraries = record.default_ms, record.time_ms, (record.library_ms, record.best_library_ms)
    shares = [f"{100 * library / before:.1f} to {library / after:.1%}" for library in libraries if library]
    return ", ".join([f"{before:.4g} to {after:.4g} ms", _ratio(before, after), *shares])


def _ratio(before: float, after: float) -> str:
    """`1.19 x`."""
    return f"{before / after:.2f} x" if before < 100 * after else f"{before / after:,.0f} x"


def _library_rates(record: Record) -> dict[str, float]:
    """GFLOP/s of the vendor's library in the final of `record`, by its name: by its default, and by the best of its
    algorithms."""
    named = ((record.library, record.library_ms), (record.best_library, record.best_library_ms))
    work = (record.gflops or 0.0) * record.time_ms
    return {name: work / time_ms for name, time_ms in named if name and time_ms and work}


def _columns(table: list[ReportRow]) -> list[str]:
    """All sizes, ascending."""
    sizes = sorted({tuple(row.record.sizes.values()): short_size(row.record.sizes) for row in table}.items())
    return list(dict.fromkeys(name for _, name in sizes))


def _groups(table: list[ReportRow]) -> dict[tuple[str, str], dict[str, Record]]:
    """The records of each kernel and device, by size."""
    groups: dict[tuple[str, str], dict[str, Record]] = {}
    for row in table:
        groups.setdefault((row.title, row.record.device), {}).setdefault(short_size(row.record.sizes), row.record)
    return groups


def _family(kernel: str) -> str:
    return kernel.rpartition("/")[0] or kernel


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(record: Record | None) -> str:
    """`34,803, 68.4%, 67.1%`: the rate and the shares of the library, by its default and by the best of its algorithms;
    all rates where there is no library to compare with."""
    if record is None:
        return ""
    if record.gbytes and not record.vs_library:
        return _work_rates(record) + _origin(record)
    shares = _share(record.vs_library), _share(record.vs_best_library)
    return ", ".join(filter(None, [_rate_cell(record), *shares])) + _origin(record)


def _rate_cell(record: Record) -> str:
    """`34,803`, in GFLOP/s; in GB/s where only bytes are counted; the time where no work is counted."""
    if record.gflops:
        return _rate(record.gflops)
    return f"{_rate(record.gbytes)} GB/s" if record.gbytes else f"{record.time_ms:.4g} ms"


def _share(value: float | None) -> str:
    """`68.4%` of the vendor's library, where it was measured."""
    return f"{value:.1%}" if value else ""


def _origin(record: Record) -> str:
    """`, imported` or `, unverified` where nothing has verified the record here; what did if that is code."""
    return f", {record.origin}" if record.origin else ""


def put_into(file: Path, tables: Mapping[str, str]) -> None:
    """Replace the text between `<!-- NAME: begin -->` and `<!-- NAME: end -->` in `file` by the table NAME.

    Tables without markers are left out. Raises RequestError if no table has markers, or a marker has no end.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{paths.shown(file)}: cannot be read: {error}") from None
    markers = {name: (f"<!-- {name}: begin -->", f"<!-- {name}: end -->") for name in tables}
    present = {name: pair for name, pair in markers.items() if pair[0] in text}
    if not present:
        lines = ", or ".join(f"{begin} and {end}" for begin, end in markers.values())
        raise RequestError(f"{file}: there is no place for a table; add the lines {lines}")
    for name, (begin, end) in present.items():
        head, _, rest = text.partition(begin)
        _, closing, tail = rest.partition(end)
        if not closing:
            raise RequestError(f"{file}: {begin} has no {end} after it; add it where the table ends")
        text = f"{head}{begin}\n{tables[name]}\n{end}{tail}"
    paths.replace(file, text.encode())
