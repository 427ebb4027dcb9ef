"""Time to the first output of `tune`: an error for a wrong request, the verdict on a file, or the first line of a run.

    python benchmarks/first_words.py --runs 3

In a pipe, a run prints its first line after 0.3 s, so that a run which fails sooner prints only its error. Prints the
seconds from the start of a command to its end or its first line: the median over the commands, and the slowest. CPU
times hardly depend on other load.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
SPACE = """\
title: a mistyped key
operation:
  sizes: {n: }
  arguments: [{name: y, dtype: float32, shape: [n], role: out}]
  refrence: 2
kernel: twice
parameters: {a: [1, 2]}
"""
WRONG = (
    "sgemm/99_nothing 100", "03_naiv_ 100", "gemm 100", "nowhere.yaml 100", "shwo 03_naive 8", "03_naive 0",
    "03_naive 4096x", "03_naive 1x2", "03_naive M=1,N=2", "03_naive 8,Q=2", "03_naive", "03_naive 1000000000000",
    "03_naive 8 --device tpu", "03_naive 8 --device host", "03_naive 8 --strategy magic", "03_naive 8 --budget soon",
    "03_naive 8 --objective speed", "03_naive 8 --set gamma=1", "03_naive 8 --type real=int8", "03_naive 8 --nonsense",
    "03_naive 8 --seed -1", "03_naive 8 --timeout nan", "mistyped.yaml 8", "validate mistyped.yaml", "best 03_naive 0",
    "show 03_naive zero", "run nothing 8", "report nope 12", "explain nope 12", "failures nope 12", "record nope 12",
    "history 03_naive 0", "export 03_naive 8 --to nothing", "compare nothing", "import nowhere.json",
    "cover sgemm 0", "cover sgemm --sizes 64:x", "sgemm 64 0", "sgemm 64 --strategy magic",
)  # fmt: skip
SIZES = {"few_rows": " 4x1024x1024"}  # of spaces that have no configuration at 1024
RUN = "sgemm/03_naive 64 --device {device} --budget 1"


def seconds(command: str, folder: Path, is_wrong: bool) -> tuple[float, float]:
    """Until `tune` with these words has ended, and of the processor; exits where it does not answer as it should."""
    began, used = time.perf_counter(), processor_seconds()
    done = subprocess.run(
        words(command), cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    taken = time.perf_counter() - began
    if (done.returncode == 2) != is_wrong:
        sys.exit(f"tune {command}: status {done.returncode}: {done.stderr}")
    return taken, processor_seconds() - used


def processor_seconds() -> float:
    """What the processes that have ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_to_first_line(command: str, folder: Path) -> float:
    """Until `tune` with these words has said anything."""
    began = time.perf_counter()
    with subprocess.Popen(words(command), cwd=folder, env=environment(folder), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        taken = time.perf_counter() - began
        process.stderr.read()
    return taken


def words(command: str) -> list[str]:
    """The command of a process."""
    return [sys.executable, "-m", "tuner", *shlex.split(command)]


def environment(folder: Path) -> dict[str, str]:
    """That of a user whose Python has compiled its modules before, and whose files lie in `folder`."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {name: str(folder / name) for name in ("TUNER_CACHE", "TUNER_STATE", "TUNER_RESULTS")}
    return {**inherited, **own, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}


def main() -> None:
    """Run every command, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="opencl")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mistyped.yaml").write_text(SPACE)
        (folder / "twice.cu").write_text("")
        files = [file for file in sorted((HERE / "spaces").rglob("*.yaml")) if file.name != "operation.yaml"]
        right = [f"validate {shlex.quote(str(file))}{SIZES.get(file.stem, '')}" for file in files]
        tune = RUN.format(device=given.device)
        print("| commands | number | s: median | slowest | processor, s: median | slowest |\n|---|---|---|---|---|---|")
        for title, commands in (("wrong requests", WRONG), ("`validate` of a valid file", right)):
            is_wrong = title == "wrong requests"
            # This fills the cache of Python's bytecode, and of the launch forms, which a wheel has.
            seconds("cover sgemm 0" if is_wrong else commands[0], folder, is_wrong)
            runs = [[seconds(command, folder, is_wrong) for _ in range(given.runs)] for command in commands]
            columns = []
            for kind in (0, 1):
                medians = [median(run[kind] for run in of_command) for of_command in runs]
                slowest = commands[medians.index(max(medians))].replace(f"{HERE}/", "")
                columns += [f"{median(medians):.2f}", f"{max(medians):.2f} `{slowest}`"]
            print(f"| {title} | {len(commands)} | {' | '.join(columns)} |", flush=True)
        first = [seconds_to_first_line(tune, folder) for _ in range(given.runs + 1)][1:]
        print(f"| first line of `tune {tune}` | 1 | {median(first):.2f} | {max(first):.2f} | | |")


if __name__ == "__main__":
    main()
