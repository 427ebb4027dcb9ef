"""Tables of what the store holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner import catalog, paths
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
    found = []
    for kernel in catalog.names():
        records = [r for r in Store(kernel, results).records if device.lower() in r.device.lower()]
        found += [Row(kernel, r) for r in sorted(records, key=lambda r: (r.device, tuple(r.sizes.values())))]
    return found


def markdown(table: list[Row]) -> str:
    """The rows as a Markdown table: time, spread, rate, share of the vendor's library, configuration."""
    lines = [
        "| kernel | size | device | time, ms | spread | GFLOP/s | library beside it | best configuration |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in table:
        r = row.record
        rate = f"{r.gflops:,.0f}" if r.gflops else ""
        share = f"{r.vs_library:.1%} of {r.library}" if r.vs_library else ""
        cells = (row.kernel, short_size(r.sizes), r.device, f"{r.time_ms:.4g}", f"{r.spread:.1%}", rate, share)
        lines.append(f"| {' | '.join(cells)} | {config_text(r.config)} |")
    return "\n".join(lines)


def short_size(sizes: dict[str, int]) -> str:
    """4096 where all sizes but those of 1 agree, else 4096x2048x1024."""
    values = [value for value in sizes.values() if value != 1] or [1]
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, sizes.values()))


def put_into(file: Path, table: str) -> None:
    """Replace what stands between the markers in `file`. Raises RequestError where they are missing."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise RequestError(f"{file}: the lines {BEGIN} and {END} are missing; add them where the table belongs")
    paths.replace(file, f"{head}{BEGIN}\n{table}\n{END}{tail}".encode())
