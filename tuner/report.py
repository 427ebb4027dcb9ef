"""Tables of what the store holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner import paths
from tuner.errors import RequestError
from tuner.space import config_text
from tuner.store import Record, Store

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


@dataclass(frozen=True)
class Row:
    """One record of one kernel."""

    kernel: str
    record: Record


def rows(device: str = "", results: Path | None = None) -> list[Row]:
    """The records of all kernels on devices whose name contains `device`, by kernel, device and size."""
    roots = (results or paths.user_results(), paths.shipped("results"))
    kernels = {path.relative_to(root).with_suffix("").as_posix() for root in roots for path in root.rglob("*.jsonl")}
    found = []
    for kernel in sorted(kernels):
        records = [r for r in Store(kernel, results).records if device.lower() in r.device.lower() and r.is_plain]
        found += [Row(kernel, r) for r in sorted(records, key=lambda r: (r.device, tuple(r.sizes.values())))]
    return found


def markdown(table: list[Row]) -> str:
    """A Markdown table, a line for each kernel and device: rate in GFLOP/s and share of the vendor's library at each
    size, and the best configuration at the largest."""
    sizes = sorted({tuple(row.record.sizes.values()): short_size(row.record.sizes) for row in table}.items())
    columns = list(dict.fromkeys(name for _, name in sizes))
    lines = [
        f"| kernel | device | {' | '.join(columns)} | best configuration at the largest |",
        "|---|---|" + "---|" * (len(columns) + 1),
    ]
    groups: dict[tuple[str, str], dict[str, Record]] = {}
    for row in table:
        groups.setdefault((row.kernel, row.record.device), {}).setdefault(short_size(row.record.sizes), row.record)
    for (kernel, device), records in groups.items():
        cells = [_cell(records.get(column)) for column in columns]
        largest = next(records[column] for column in reversed(columns) if column in records)
        lines.append(f"| {kernel} | {device} | {' | '.join(cells)} | {config_text(largest.config)} |")
    return "\n".join(lines)


def _cell(record: Record | None) -> str:
    """`34,803, 68.4 %`: the rate (the time where work is not counted) and the share."""
    if record is None:
        return ""
    rate = f"{record.gflops:,.0f}" if record.gflops else f"{record.time_ms:.4g} ms"
    return (
        rate
        + (f", {record.vs_library:.1%}" if record.vs_library else "")
        + ("" if record.is_verified else ", imported")
    )


def short_size(sizes: dict[str, int]) -> str:
    """4096 for 4096x4096x4096x1, else all of them: 4096x2048x1024x1."""
    values = list(sizes.values())
    core = values[:-1] if len(values) > 1 and values[-1] == 1 else values
    return str(core[0]) if len(set(core)) == 1 else "x".join(map(str, values))


def put_into(file: Path, table: str) -> None:
    """Replace what stands between the markers in `file`. Raises RequestError where they are missing."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{file}: cannot be read: {error}") from None
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise RequestError(f"{file}: the lines {BEGIN} and {END} are missing; add them where the table belongs")
    paths.replace(file, f"{head}{BEGIN}\n{table}\n{END}{tail}".encode())
