"""How fast the best measured configuration of a family is beside the vendor's library, from the shipped time tables.

    python benchmarks/best_known.py gemm16 "NVIDIA H200" --least 0.85
    python benchmarks/best_known.py gemm16 "NVIDIA H200" --without wgmma_summed

At each size at which a device's tables have a kernel's time and the library's, the ratio is the library's time over
that of the fastest configuration, both with the usual launch overhead. Prints, by types and options, how many times,
configurations and sizes the tables hold, at how many sizes the ratio is below --least, and those where it is lowest.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict

from tuner import paths
from tuner.prediction import launch_overhead
from tuner.store import time_tables
from tuner.store.time_table import TimeTable


def main() -> None:
    """Compare the tables of each set of types and options with the library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family")
    parser.add_argument("device")
    parser.add_argument("--least", type=float, default=0.85, help="sizes with a lower ratio are counted")
    parser.add_argument("--without", action="append", default=[], metavar="KERNEL", help="leave this kernel out")
    parser.add_argument("--names", type=int, default=5, help="how many of the lowest ratios are named")
    options = parser.parse_args()
    found = defaultdict[str, list[tuple[str, TimeTable]]](list)
    for file in sorted((paths.shipped("results") / options.family).glob("*.times")):
        for table in time_tables.read_file(file)[0]:
            if table.device == options.device:
                found[str({**table.types, **table.options})].append((file.stem, table))
    for name, tables in found.items():
        print(f"{name}: {summary(tables, set(options.without), options.least, options.names)}")


def summary(tables: list[tuple[str, TimeTable]], without: set[str], least: float, names: int) -> str:
    """The counts of these tables, each with its kernel's name."""
    counts = Counter[float]()
    for _, table in tables:
        counts[table.launch_ms or 0.0] += table.count
    usual = launch_overhead.usual(counts) or None
    best, library = dict[tuple[int, ...], float](), dict[tuple[int, ...], float]()
    configurations = set[tuple[str, object]]()
    for kernel, table in tables:
        library |= launch_overhead.all_adjusted(table.library, table.launch_ms, usual)
        for key, by_size in table.times.items() if kernel not in without else ():
            configurations.add((kernel, key))
            for sizes, time_ms in launch_overhead.all_adjusted(by_size, table.launch_ms, usual).items():
                best[sizes] = min(best.get(sizes, time_ms), time_ms)
    ratios = sorted((library[sizes] / time_ms, sizes) for sizes, time_ms in best.items() if sizes in library)
    below = sum(ratio < least for ratio, _ in ratios)
    lowest = ", ".join(f"{'x'.join(map(str, sizes))} {ratio:.2f}" for ratio, sizes in ratios[:names])
    times = sum(table.count for kernel, table in tables if kernel not in without)
    held = f"{times:,} times of {len(configurations):,} configurations at {len(best):,} sizes"
    return f"{held}; below {least:g} x the library at {below} of {len(ratios):,}: {lowest}"


if __name__ == "__main__":
    main()
