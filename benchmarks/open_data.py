"""Complete recordings of shipped kernels, for `results/recordings`.

    python benchmarks/open_data.py --into results/recordings
    python benchmarks/open_data.py --into results/recordings --only "hgemm/09.* 4096" --seconds 170
    python benchmarks/open_data.py --into results/recordings --t4 t4
    python benchmarks/open_data.py --into results/recordings --table

Each problem of the list is recorded like `tune record` does it, without finals: every valid configuration is verified
and timed REPEATS times, none is stopped early, and failures keep their reasons. A file that exists is left alone. After
`--seconds`, the current problem is broken off: its ledger keeps what was measured, and the next run continues there.
`--list` prints the problems, and measures nothing. `--t4 FOLDER` measures nothing either: it writes each recording of
the folder as a T4 file, with its metadata beside it. `--table` describes the recordings of the folder in a table.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tuner.exchange.exports.names import beside
from tuner.exchange.exports.target import Problem
from tuner.exchange.exports.trials import of_recording
from tuner.exchange.interop import t4
from tuner.measure.method import Method
from tuner.space.texts import size_text
from tuner.tuning.crew.crews import Crews
from tuner.tuning.exploration import explored
from tuner.tuning.progress import Quiet
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.request import CheckedRequest, TuningRequest

REPEATS = 7


@dataclass(frozen=True)
class Recorded:
    """A kernel and its sizes, the first size of all kernels first."""

    kernel: str
    sizes: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)


_SQUARES = ("4096", "2048", "8192")
_CUBES = ("4096x4096x4096", "2048x2048x2048", "8192x8192x8192")
PROBLEMS = (
    Recorded("hgemm/09_wgmma", _SQUARES),
    Recorded("sgemm3x/wgmma_halves", _SQUARES),
    Recorded("gallery/softmax", ("8192x4096",)),
    Recorded("triton/attention", ("16x2048", "16x1024", "16x4096")),
    Recorded("gallery/scan", ("67108864", "33554432", "134217728")),
    Recorded("gallery/transpose", ("8192x8192",)),
    Recorded("gallery/nbody", ("32768",)),
    Recorded("gallery/matmul_tiled", ("2048x2048x2048",)),
    Recorded("gallery/layer_norm", ("8192x4096",)),
    Recorded("gallery/spmv", ("rows=262144,width=262144,entries=8388608",)),
    Recorded("gallery/histogram", ("67108864",)),
    Recorded("gallery/convolution", ("2048x2048x5x5",)),
    Recorded("triton/matmul", _CUBES),
    Recorded("hgemm/07_mma_unrolled", _SQUARES),
    Recorded("gallery/tma_wgmma", _CUBES),
    Recorded("triton/matmul_fp8", _CUBES),
    Recorded("hgemm/02_mma_naive", _SQUARES),
    Recorded("hgemm/01_wmma_naive", _SQUARES),
    Recorded("sgemm/07_tiled_1xn", _SQUARES),
    Recorded("gallery/point_in_polygon", ("1000000",)),
)


def record(crews: Crews, kernel: str, size: str, types: Mapping[str, str], device: str, folder: Path) -> str:
    """Record one problem. Returns a line about it; an empty one if the file is there."""
    began = time.monotonic()
    method = Method(REPEATS, race=False)
    request = TuningRequest(kernel, size, device, types=types, strategy="brute_force", method=method)
    checked = CheckedRequest.of(request)
    task = checked.task
    stem = Problem(task.space, task.sizes, task.options, task.types).file_name
    if any(folder.glob(f"{stem}-*.json.gz")):
        return ""
    with explored(crews, checked, Quiet(crews.noted)) as done:
        of_device, trials = done.crew.device, done.trials
    data = recordings.of_trials(
        task.space, task.sizes, task.types, task.options, of_device.name, trials, of_device.conditions
    )
    path = folder / f"{stem}-{of_device.name.replace(' ', '_')}.json.gz"
    recordings.write(path, data)
    t4.describe(path, data, of_device.kind, of_device.architecture, of_device.toolchain)
    failed = sum(entry.time_ms is None for entry in data.entries.values())
    took = time.monotonic() - began
    return f"{path.name}: {len(data.entries)} configurations, {failed} failed, {took:.1f} s"


def as_t4(folder: Path, target: Path) -> int:
    """Write the recordings of a folder as T4 files with metadata. Returns how many there are."""
    target.mkdir(parents=True, exist_ok=True)
    paths = recordings.files(folder)
    for path in paths:
        file = target / path.name.removesuffix(".gz")
        file.write_text(json.dumps(t4.results(of_recording(recordings.read(path))), indent=1) + "\n")
        about = beside(path, recordings.METADATA).read_text()
        told = about.replace("in Kernel Tuner's cache format", "in the T4 format").replace(path.name, file.name)
        beside(file, recordings.METADATA).write_text(told)
    return len(paths)


def table(folder: Path) -> str:
    """A Markdown table of the recordings of a folder."""
    header = ["kernel", "size", "configurations", "failed", "times each", "best, ms", "median / best", "clock, MHz"]
    rows = [header, ["---"] * len(header)]
    for path in recordings.files(folder):
        data = recordings.read(path)
        entries = data.entries.values()
        times = [entry.time_ms for entry in entries if entry.time_ms is not None]
        repeats = min(len(entry.times) for entry in entries if entry.time_ms is not None)
        clocks = [entry.extra["clock_mhz"] for entry in entries if "clock_mhz" in entry.extra]
        size = size_text(data.size) if isinstance(data.size, dict) else str(data.size)
        about = [data.kernel, size, str(len(entries)), str(len(entries) - len(times)), str(repeats)]
        best = [f"{data.optimum_ms:.4g}", f"{median(times) / data.optimum_ms:.2f}"]
        rows.append([*about, *best, f"{min(clocks):.0f} to {max(clocks):.0f}" if clocks else "not noted"])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _break_off(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Record, and print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path("results/recordings"), help="folder of the recordings")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="*", default=[""], metavar="REGEX", help="only problems such as these")
    parser.add_argument("--seconds", type=int, default=0, help="break off after so many seconds; 0: never")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--t4", type=Path, metavar="FOLDER")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    most = max(len(problem.sizes) for problem in PROBLEMS)
    problems = [(problem, problem.sizes[i]) for i in range(most) for problem in PROBLEMS if i < len(problem.sizes)]
    order = [(p, size) for p, size in problems if any(re.search(only, f"{p.kernel} {size}") for only in options.only)]
    if options.list:
        print("\n".join(f"{problem.kernel} {size}" for problem, size in order))
        return
    if options.table:
        print(table(options.into))
        return
    if options.t4:
        print(f"{options.t4}: {as_t4(options.into, options.t4)} recordings")
        return
    options.into.mkdir(parents=True, exist_ok=True)
    if options.seconds:
        signal.signal(signal.SIGALRM, _break_off)
        signal.alarm(options.seconds)
    try:
        with Crews(lambda text: print(text, flush=True)) as crews:
            for problem, size in order:
                line = record(crews, problem.kernel, size, problem.types, options.device, options.into)
                print(line or f"{problem.kernel} {size}: is there", flush=True)
        signal.alarm(0)
    except KeyboardInterrupt:
        print("broken off: the ledger keeps what was measured")


if __name__ == "__main__":
    main()
