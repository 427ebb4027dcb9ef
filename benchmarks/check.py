"""Whether `tune check` finds a planted slow-down, and reports none where none was planted.

    python benchmarks/check.py --device host --planted 10 --busy 2
    python benchmarks/check.py --device cuda --planted 3

A stage is copied into a Git repository of its own, tuned at several sizes, and committed with its records. Then its
source is changed in two ways, in turn: by some more steps of its inner loop, whose sum is multiplied by zero; and by
another function in the file, which nobody calls, so that the machine code is another one but does the same. Each time,
`tune check` compares all records with the commit. In `--repeats` runs of each kind, it prints how often the records
were slower, as fast, undecided or faster, and the median of the ratios that it found. `--busy N` has N processes keep
as many cores busy meanwhile. A planted slow-down counts as found if the check fails with `--fail-above` at a third of
it; a run without one, if it fails with no record slower.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tuner import devices
from tuner.catalog import catalog


@dataclass(frozen=True)
class Stage:
    """A stage, its sizes, the line of its source before which more steps are planted, and these steps."""

    name: str
    sizes: tuple[str, ...]
    before: str
    steps: str
    function: str


HOST = Stage(
    "sgemm/01_host_blocked",
    ("192", "256", "384"),
    "                for (int k0 = 0; k0 < K; k0 += block_size) {\n",
    """\
                const float zero = 0.0f * beta;
                for (int i = 0; i < rows; i++)
                    for (int k = 0; k < K * {percent} / 100; k++) {{
                        const float a = A[((size_t)b * M + i0 + i) * K + k], *row = B + ((size_t)b * K + k) * N + j0;
                        for (int j = 0; j < columns; j++) sum[i][j] += zero * a * row[j];
                    }}
""",
    "int another(int x) { return 3 * x + 1; }\n",
)
NAIVE = Stage(
    "sgemm/03_naive",
    ("64", "96", "128"),
    "    for (int k = 0; k < K; k++) {\n",
    """\
    const float zero = 0.0f * beta;
    for (int k = 0; k < K * {percent} / 100; k++) {{
        sum += zero * A[k] * B[(size_t)k * N];
    }}
""",
    "KERNEL void another(GLOBAL float *y) { y[0] = 3; }\n",
)
STAGES = {"host": HOST, "opencl": NAIVE, "cuda": NAIVE}
CUDA_SIZES = ("1024", "2048", "4096")


def main() -> None:
    """Run the checks and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="host")
    parser.add_argument("--planted", type=int, default=10, help="percent of the inner loop's steps")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--sizes", nargs="*", help="default: three, by the kind of device")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep cores busy meanwhile")
    parser.add_argument("--budget", default="6", help="of tuning, which only has to make the records")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many")
    options = parser.parse_args()
    kind = devices.split(options.device)[0]
    sizes = options.sizes or (CUDA_SIZES if kind == "cuda" else STAGES[kind].sizes)
    with tempfile.TemporaryDirectory() as folder, _busy(options.busy):
        _run(STAGES[kind], sizes, Path(folder), options)


def _run(stage: Stage, sizes: Sequence[str], folder: Path, options: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * options.minutes
    file = _copied(stage, folder)
    environment = {
        **os.environ,
        "TUNER_STATE": str(folder / "state"),
        "TUNER_RESULTS": str(folder / "results"),
    }
    for size in sizes:
        _tune([str(file), size, "--device", options.device, "--budget", options.budget], environment)
    for command in ("init -q", "add -A", "-c user.name=check -c user.email=check@example.org commit -qm records"):
        subprocess.run(["git", "-C", str(folder), *command.split()], check=True)  # noqa: S607
    source = next(each for each in folder.glob("kernel.*") if each.suffix != ".yaml")
    original = source.read_text()
    planted = original.replace(stage.before, stage.steps.format(percent=options.planted) + stage.before)
    kinds = {f"planted {options.planted} %": planted, "another function": original + stage.function}
    assert planted != original, "the line before which steps are planted has changed"
    allowed = 1 + options.planted / 300
    statuses = {name: Counter[str]() for name in kinds}
    ratios: dict[str, list[float]] = {name: [] for name in kinds}
    failed, runs, seconds = Counter[str](), Counter[str](), Counter[str]()
    for _ in range(options.repeats):
        for name, text in kinds.items():
            if time.monotonic() > end:
                continue
            source.write_text(text)
            began = time.monotonic()
            arguments = ["check", str(file), "--device", options.device, "--fail-above", str(allowed), "--json"]
            done = _tune(arguments, environment, may_fail=True)
            seconds[name] += round(time.monotonic() - began)
            checks: list[dict[str, Any]] = json.loads(done.stdout)["checks"]
            statuses[name].update(check["status"] for check in checks)
            ratios[name] += [check["ratio"]["middle"] for check in checks if check["ratio"]]
            runs[name] += 1
            failed[name] += done.returncode
            print(f"{name}: {', '.join(_text(check) for check in checks)}; status {done.returncode}", flush=True)
    source.write_text(original)
    done = _tune(["check", str(file), "--device", options.device, "--json"], environment, may_fail=True)
    unchanged = Counter(check["status"] for check in json.loads(done.stdout)["checks"])
    for name in kinds:
        found = ", ".join(f"{count} {status}" for status, count in statuses[name].most_common())
        middle = f"{median(ratios[name]):.3f}" if ratios[name] else "none"
        rate = f"{seconds[name] / max(1, runs[name]):.0f} s a check"
        print(f"{name}: failed {failed[name]} of {runs[name]}; records {found}; median ratio {middle}; {rate}")
    print(f"unchanged: status {done.returncode}; records {', '.join(f'{n} {s}' for s, n in unchanged.items())}")


def _text(check: dict[str, Any]) -> str:
    ratio = check["ratio"]
    more = f" {ratio['middle']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}, {check['rounds']})" if ratio else ""
    return f"{check['sizes']['M']} {check['status']}{more}"


def _copied(stage: Stage, folder: Path) -> Path:
    """The stage's files in a folder. Gives its space file."""
    original, _ = catalog.find(stage.name)
    (source,) = catalog.load(stage.name).sources
    text = original.read_text()
    (folder / f"kernel{source.suffix}").write_text(source.read_text())
    (folder / "operation.yaml").write_text((original.parent / "operation.yaml").read_text())
    file = folder / "kernel.yaml"
    file.write_text(text)
    (folder / ".gitignore").write_text("state\n")
    return file


def _tune(
    arguments: list[str], environment: dict[str, str], may_fail: bool = False
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tuner", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if (done.returncode and not may_fail) or done.returncode not in (0, 1) or (may_fail and not done.stdout):
        sys.exit(f"{' '.join(arguments)}: status {done.returncode}: {done.stderr}")
    return done


def _spin() -> None:
    while True:
        sum(range(1000))


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """A block in which `count` processes compute without end."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()


if __name__ == "__main__":
    main()
