"""Markdown tables of records: each number has its unit, and no column is empty."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from tuner.classes import dataclass
from tuner.space.texts import config_text, problem_text, short_size, types_text
from tuner.store import verdicts
from tuner.store.record import Record

LADDER_SIZE = "4096"  # the size at which most tutorials publish times
# Families of unrelated kernels with different sizes, shown in separate tables.
GALLERIES = ("gallery", "triton")


@dataclass(frozen=True)
class ReportRow:
    """A record and its kernel. `options`: those that differ from the kernel's defaults, as in `, alpha=2`."""

    kernel: str
    record: Record
    options: str = ""

    @property
    def title(self) -> str:
        """The kernel, the chosen types and `options`, as in `mine/axpy, real=float16, alpha=2`."""
        return self.kernel + types_text(self.record.types) + self.options


def _of_families(table_of: Callable[[str, str, list[ReportRow]], str]) -> Callable[[list[ReportRow]], str]:
    """Makes a function of all rows of one that has the name, the device and the rows of a family."""

    @functools.wraps(table_of)
    def tables(table: list[ReportRow]) -> str:
        return "\n\n".join(table_of(*key, rows) for key, rows in _families(table).items())

    return tables


@_of_families
def results_table(name: str, device: str, table: list[ReportRow]) -> str:
    """A Markdown table for each family and device, with a row per kernel.

    A cell shows, at one size, the kernel's rate and its shares of the vendor library's rates: those of the default
    algorithm and of the fastest one. Without a vendor library, it shows all known rates. The last column is the best
    configuration at the largest size. Rows for the library follow, with the median of its rates in the kernels' finals.
    """
    columns, rows = _columns(table), list[list[str]]()
    library_rates: dict[str, dict[str, list[float]]] = {}
    for (kernel, _), records in _groups(table).items():
        largest = next(records[column] for column in reversed(columns) if column in records)
        rows.append([kernel, *(_cell(records.get(column)) for column in columns), config_text(largest.config)])
        for column, record in records.items():
            for library, rate in _library_rates(record).items():
                library_rates.setdefault(library, {}).setdefault(column, []).append(rate)
    for library, by_size in library_rates.items():
        cells = [f"{_rate(median(by_size[column]))} GFLOP/s" if column in by_size else "" for column in columns]
        rows.append([library, *cells, ""])
    return _table([f"{name} on {device}", *columns, "best configuration at the largest"], rows, numbers=0)


@_of_families
def gains_table(name: str, device: str, table: list[ReportRow]) -> str:
    """A Markdown table for each family and device, with a row per kernel; empty without records.

    A cell shows, at one size, the times in ms with the default configuration (the published constants) and with the
    best one, the speedup, and the shares of the vendor library's rates before and after tuning: of the rates of its
    default algorithm and of its fastest one.
    """
    columns, rows = _columns(table), list[list[str]]()
    for (kernel, _), records in _groups(table).items():
        cells = [_gain_cell(records[c]) + _origin(records[c]) if c in records else "" for c in columns]
        rows.append([kernel, *cells])
    return _table([f"{name} on {device}", *columns], rows, numbers=0)


def ladder_table(table: list[ReportRow]) -> str:
    """A Markdown table for each device, with a row per kernel; empty without records.

    All records must have the size LADDER_SIZE. The table shows the rate in GFLOP/s, the shares of the vendor library's
    rates (those of the default algorithm and of the fastest one), and the speedup over the published constants. Rows
    for the library follow the kernels of each family.
    """
    groups = _groups(table)
    devices = dict.fromkeys(device for _, device in groups)
    return "\n\n".join(
        _ladder(device, {kernel: records[LADDER_SIZE] for (kernel, on), records in groups.items() if on == device})
        for device in devices
    )


@_of_families
def gallery_table(name: str, device: str, table: list[ReportRow]) -> str:
    """A Markdown table for each gallery and device, with a row per kernel; empty without records.

    It shows the largest problem, and for that problem the rate, the times in ms with the default and with the best
    configuration, the speedup and the best configuration. Another column has the speedups at smaller sizes.
    """
    header = [
        f"{name} on {device}",
        "largest problem",
        "rate",
        "tuning gains",
        "at smaller sizes",
        "best configuration",
    ]
    rows = []
    for (kernel, _), by_size in _groups(table).items():
        *smaller, largest = sorted(by_size.values(), key=lambda record: math.prod(record.sizes.values()))
        gains = [f"{_speedup(r)} at {short_size(r.sizes)}" for r in smaller if r.default_ms]
        rows.append([
            kernel.removeprefix(f"{name}/"),
            problem_text(largest.sizes, {}),
            _work_rates(largest) + _origin(largest),
            _gain_cell(largest) if largest.default_ms else "",
            ", ".join(gains),
            config_text(largest.config),
        ])  # fmt: skip
    return _table(header, rows, numbers=0)


def _work_rates(record: Record) -> str:
    """`312 GFLOP/s (0.5% of FMA), 3,511 GB/s (82.3% of copy)`: the known rates; the time if there are none."""
    arithmetic = _rate(record.gflops) + " GFLOP/s" + _share_of(record.vs_peak, record.peak) if record.gflops else ""
    bandwidth = _rate(record.gbytes) + " GB/s" + _share_of(record.vs_memory, record.memory) if record.gbytes else ""
    return ", ".join(filter(None, (arithmetic, bandwidth))) or f"{record.time_ms:.4g} ms"


def _share_of(share: float | None, ceiling: str | None) -> str:
    return f" ({share:.1%} of {ceiling})" if share else ""


def _ladder(device: str, records: Mapping[str, Record]) -> str:
    """The table of one device. `records` maps each kernel to its record."""
    names = dict.fromkeys(_brand(record.library) for record in records.values() if record.library)
    best = dict.fromkeys(_brand(record.best_library) for record in records.values() if record.best_library)
    header = [
        f"{device} at {LADDER_SIZE}",
        "rate",
        f"share of {' or '.join(names)}",
        f"share of the best of {' or '.join(best)}",
        "gain over the published constants",
    ]
    rows: list[list[str]] = []
    for name, kernels in itertools.groupby(records, key=family):
        library_rates: dict[str, list[float]] = {}
        for kernel in kernels:
            record = records[kernel]
            gain = _speedup(record)
            shares = (_share(record.vs_library), _share(record.vs_best_library))
            rows.append([kernel, _rate_cell(record) + _origin(record), *shares, gain])
            for library, rate in _library_rates(record).items():
                library_rates.setdefault(library, []).append(rate)
        rows += [[f"{name}: {lib}", f"{_rate(median(r))} GFLOP/s", "", "", ""] for lib, r in library_rates.items()]
    return _table(header, rows, numbers=4)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: int) -> str:
    """A Markdown table without its empty columns. The last `numbers` columns of `header` are right-aligned."""
    shown = [column for column in range(len(header)) if any(row[column] for row in rows)]
    marks = ["---"] * (len(header) - numbers) + ["---:"] * numbers
    lines = [f"| {' | '.join(cells[column] for column in shown)} |" for cells in (header, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks[column] for column in shown)}|", *lines[1:]])


def _gain_cell(record: Record) -> str:
    """The effect of tuning: `3.594 to 3.022 ms, 1.19 x, 75.7 to 90.0% of cuBLAS, 74.9 to 89.0% of cuBLASLt`."""
    assert record.default_ms is not None
    before, after = record.default_ms, record.time_ms
    shares = [
        f"{100 * time_ms / before:.1f} to {time_ms / after:.1%} of {_brand(name)}"
        for name, time_ms in _libraries(record)
    ]
    return ", ".join([f"{before:.4g} to {after:.4g} ms", _speedup(record), *shares])


def _speedup(record: Record) -> str:
    """`1.19 x` over the default, or why the two are indistinguishable; empty if the default has no time."""
    if record.default_ms is None:
        return ""
    ratio = record.default_ms / record.time_ms
    return verdicts.of_default(record) or (f"{ratio:.2f} x" if ratio < 100 else f"{ratio:,.0f} x")


def _libraries(record: Record) -> list[tuple[str, float]]:
    """The vendor library's measured times in ms in the finals of `record`: default algorithm, fastest algorithm."""
    measured = (record.library, record.library_ms), (record.best_library, record.best_library_ms)
    return [(name, time_ms) for name, time_ms in measured if name and time_ms]


def _library_rates(record: Record) -> dict[str, float]:
    """The vendor library's rates in GFLOP/s in the finals of `record`, by library and types."""
    work = (record.gflops or 0.0) * record.time_ms
    return {name + types_text(record.types): work / time_ms for name, time_ms in _libraries(record) if work}


def _columns(table: list[ReportRow]) -> list[str]:
    """The sizes of all rows as text, ascending, without duplicates."""
    sizes = sorted({tuple(row.record.sizes.values()): short_size(row.record.sizes) for row in table}.items())
    return list(dict.fromkeys(name for _, name in sizes))


def _groups(table: list[ReportRow]) -> dict[tuple[str, str], dict[str, Record]]:
    """For each kernel and device, the first record of each size."""
    groups: dict[tuple[str, str], dict[str, Record]] = {}
    for row in table:
        groups.setdefault((row.title, row.record.device), {}).setdefault(short_size(row.record.sizes), row.record)
    return groups


def _families(table: list[ReportRow]) -> dict[tuple[str, str], list[ReportRow]]:
    """The rows of each family and device. Each group becomes a table, so it has columns only for its own sizes."""
    families: dict[tuple[str, str], list[ReportRow]] = {}
    for row in table:
        families.setdefault((family(row.kernel), row.record.device), []).append(row)
    return dict(sorted(families.items()))


def family(kernel: str) -> str:
    """The kernel's name without its last part: `sgemm` for `sgemm/03_naive`; the name itself if it has one part."""
    return kernel.rpartition("/")[0] or kernel


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(record: Record | None) -> str:
    """`34,803 GFLOP/s, 68.4% of cuBLAS, 67.1% of cuBLASLt`: the rate and its shares of the vendor library's.

    All known rates if bytes are counted and no library was measured; empty without a record.
    """
    if record is None:
        return ""
    if record.gbytes and not record.vs_library:
        return _work_rates(record) + _origin(record)
    shares = [f"{time_ms / record.time_ms:.1%} of {_brand(name)}" for name, time_ms in _libraries(record)]
    return ", ".join([_rate_cell(record), *shares]) + _origin(record)


def _rate_cell(record: Record) -> str:
    """`34,803 GFLOP/s`; GB/s if only bytes are counted; the time if neither is."""
    if record.gflops:
        return f"{_rate(record.gflops)} GFLOP/s"
    return f"{_rate(record.gbytes)} GB/s" if record.gbytes else f"{record.time_ms:.4g} ms"


def _share(value: float | None) -> str:
    """`68.4%`, a share of the vendor library's rate; empty if it was not measured."""
    return f"{value:.1%}" if value else ""


def _brand(library: str) -> str:
    """The library's name without its version: `cuBLAS` for `cuBLAS 13.1.0`."""
    return library.partition(" ")[0]


def _origin(record: Record) -> str:
    """`, imported` or `, unverified` for an unverified record; a notice if the reference is code; else empty."""
    return f", {record.origin}" if record.origin else ""
