"""Run scripts of Kernel Tuner under Kernel Tuner and through `tuner.door`, and print what each took and found.

Example: python benchmarks/door.py examples/opencl/vector_add.py examples/opencl/matmul.py

Each script runs as it is, in its own folder and a process of its own, first under Kernel Tuner, then through the door.
A table says for each call of `tune_kernel` how many configurations were measured, how long the call took, and the best
time that it returned. `per second` is of the whole call. `from first to last` leaves out what comes before the first
configuration is done and after the last one is: a long call approaches it. `--most N` behind the scripts measures N
random configurations in each call, the same number on both sides; `--most N M` measures N under Kernel Tuner and M
through the door. `--part K SEED` measures the same part of each space on both sides, about one in K configurations: it
adds a restriction on a sum of the parameters, whose factors are drawn with the seed. `--seconds S` stops Kernel Tuner
after S seconds of a call; it measures in random order then, so that its rate is that of the whole part.
"""

import argparse
import inspect
import json
import os
import random
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

SIDES = ("Kernel Tuner", "tuner.door")


def main() -> None:
    """Run the scripts that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="+", type=Path)
    parser.add_argument("--most", type=int, nargs="+", metavar="N", help="configurations of each call, by side")
    parser.add_argument("--part", type=int, nargs=2, metavar=("K", "SEED"), help="one in K configurations, drawn")
    parser.add_argument("--seconds", type=float, metavar="S", help="seconds of a call under Kernel Tuner")
    parser.add_argument("--door-first", action="store_true", help="run a script through the door first")
    parser.add_argument("--arguments", default="", metavar="WORDS", help="what each script gets as its arguments")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a script on one side (%(default)s)")
    parser.add_argument("--replace", nargs=2, action="append", default=[], metavar=("PATTERN", "TEXT"),
                        help="a change of each script, such as a smaller size")  # fmt: skip
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        seconds = options.seconds if options.side == SIDES[0] else None
        budget = budget_of(most_of(options.side, options.most), seconds)
        run(options.side, options.scripts[0], budget, options.part, shlex.split(options.arguments))
        return
    print("| script | call | side | configurations | failed | seconds | per second | from first to last | best (ms) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for script in options.scripts:
        for side in SIDES[::-1] if options.door_first else SIDES:
            for line in measured(script, side, options):
                print(line, flush=True)


def measured(script: Path, side: str, options: argparse.Namespace) -> list[str]:
    """The lines of the table for a script on one side."""
    text = script.read_text()
    for pattern, replacement in options.replace:
        text = re.sub(pattern, replacement, text)
    with tempfile.TemporaryDirectory() as state:
        copy = script.resolve().with_name(f".copy-of-{script.name}")
        copy.write_text(text)
        command = [sys.executable, str(Path(__file__).resolve()), "--side", side, copy.name]
        command += ["--most", *map(str, options.most)] if options.most else []
        command += ["--seconds", str(options.seconds)] if options.seconds else []
        command += ["--part", *map(str, options.part)] if options.part else []
        command += [f"--arguments={options.arguments}"]
        caches = {"TUNER_CACHE": f"{state}/cache", "POCL_CACHE_DIR": f"{state}/pocl"}
        variables = {**os.environ, "TUNER_STATE": state, **caches}  # nothing is resumed, and nothing is built
        try:
            done = subprocess.run(
                command,
                cwd=copy.parent,
                env=variables,
                capture_output=True,
                text=True,
                timeout=options.limit,
                check=False,
            )
            output, errors = done.stdout, done.stderr
            if done.returncode < 0:  # what it wrote last, such as a compiler's warning, says nothing of that
                errors = f"killed by {signal.Signals(-done.returncode).name}"
        except subprocess.TimeoutExpired as expired:
            output, errors = (expired.stdout or b"").decode(), f"not done after {options.limit:g} s"
        finally:
            copy.unlink()
    calls = [json.loads(line.removeprefix("CALL ")) for line in output.splitlines() if line.startswith("CALL ")]
    lines = [
        f"| {script.name} | {number} | {side} | {call['rows']} | {call['failed']} | {call['seconds']:.1f} | "
        f"{call['rows'] / call['seconds']:.2f} | {call['rate']} | {call['best']} |"
        for number, call in enumerate(calls, 1)
    ]
    is_done = "DONE" in output.splitlines()
    last = (errors.strip().splitlines() or ["no message"])[-1][:120]
    return lines if is_done else [*lines, f"| {script.name} | | {side} | ends with: {last} | | | | | |"]


def most_of(side: str, most: Sequence[int] | None) -> int | None:
    """The number of configurations of a side: the last one given serves all that follow."""
    return most[min(SIDES.index(side), len(most) - 1)] if most else None


def budget_of(most: int | None, seconds: float | None) -> dict[str, Any]:
    """The arguments of `tune_kernel` that limit a call."""
    limits = {"max_fevals": most, "time_limit": seconds}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if seconds is not None:  # Kernel Tuner measures 100 configurations without a number
        given.setdefault("max_fevals", 10**9)
    return {"strategy": "random_sample", "strategy_options": given} if given else {}


def run(
    side: str, script: Path, budget: Mapping[str, Any], part: Sequence[int] | None, arguments: Sequence[str]
) -> None:
    """Run a script in this process, and print a line for each call of `tune_kernel`."""
    import kernel_tuner
    from kernel_tuner import interface

    if side == SIDES[1]:
        from tuner.door import replacement

        replacement.replace()
    tune_kernel = kernel_tuner.tune_kernel

    def counted(*positional: Any, **keywords: Any) -> Any:
        keywords |= budget
        if part is not None:
            signature = inspect.signature(tune_kernel)
            parameters = signature.bind(*positional, **keywords).arguments["tune_params"]
            keywords["restrictions"] = [*(keywords.get("restrictions") or []), part_of(parameters, *part)]
        began = time.perf_counter()
        rows, env = tune_kernel(*positional, **keywords)
        seconds = time.perf_counter() - began
        right = [row["time"] for row in rows if "__error__" not in row]
        call: dict[str, Any] = {"rows": len(rows), "failed": failures(rows), "seconds": seconds}
        call |= {"rate": rate(rows), "best": f"{min(right):.4g}" if right else "none"}
        print("\nCALL", json.dumps(call), flush=True)
        return rows, env

    kernel_tuner.tune_kernel = interface.tune_kernel = counted
    sys.argv[:] = [script.name, *arguments]
    sys.path[0] = str(Path.cwd())
    try:
        runpy.run_path(script.name, run_name="__main__")
    except SystemExit as ended:  # a script may end by sys.exit(main())
        if ended.code:
            raise
    print("\nDONE")


def part_of(parameters: Mapping[str, Sequence[Any]], most: int, seed: int) -> str:
    """A restriction, as Kernel Tuner reads it, that about one in `most` configurations satisfies."""
    factors = random.Random(seed)  # noqa: S311
    total = " + ".join(f"{factors.randrange(1, 9973)} * {name}" for name in parameters)
    return f"({total}) % 9973 % {most} == 0"


def failures(rows: Sequence[Mapping[str, Any]]) -> str:
    """The number of configurations that failed, and of each kind of error."""
    kinds = Counter(type(row["__error__"]).__name__ for row in rows if "__error__" in row)
    listed = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
    return f"{kinds.total()} ({listed})" if kinds else "0"


def rate(rows: Sequence[Mapping[str, Any]]) -> str:
    """Configurations per second from the end of the first one to the end of the last one; empty for fewer than two."""
    ends = sorted(datetime.fromisoformat(row["timestamp"]) for row in rows if "timestamp" in row)
    seconds = (ends[-1] - ends[0]).total_seconds() if ends else 0.0
    return f"{(len(ends) - 1) / seconds:.2f}" if seconds else ""


if __name__ == "__main__":
    main()
