"""Tune the gallery: every kernel at three sizes, on all GPUs, within a number of seconds.

    python benchmarks/gallery.py --results results --seconds 400
    python benchmarks/gallery.py vector_add softmax --device opencl --sizes tiny --results /tmp/results

Large sizes come first, in the order of `gallery_problems.py`, then medium and small ones. Problems with a record for
the same code, size and device are skipped, so the same command continues an earlier one; --fresh tunes them again.
Problems that were left out are printed. `tune report --write docs/gallery.md` writes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from gallery_problems import LARGE, MEDIUM, SIZE_NAMES, SMALL, Problem, chosen
from slots import Ended, Job, Slots

from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import TunerError
from tuner.space import chosen_types, parsing
from tuner.space.scope import Scope
from tuner.store.lookup import Query
from tuner.store.store import Store

BUDGETS = {"tiny": 5, SMALL: 60, MEDIUM: 80, LARGE: 80}  # configurations
FACTOR = 2  # times as many where there is much to tune
EXPECTED_SECONDS = {"tiny": 20.0, SMALL: 25.0, MEDIUM: 30.0, LARGE: 60.0}  # before one has been tuned


def is_tuned(problem: Problem, size: str, device: Device, results: Path | None) -> bool:
    """Whether the store has a record of this code, size and device."""
    space = catalog.load(problem.kernel)
    types = chosen_types.parse(dict(problem.types), space.operation)
    sizes = parsing.parse_size(problem.size(size), space.operation, types)
    options = parsing.parse_options({}, space.operation, types)
    scope = Scope(sizes, options, device.language, device.limits, types)
    try:
        candidate = Store.of(space, results).look_up(Query.of(space, scope, device))
    except TunerError:
        return False
    return candidate.match == "exact" and not candidate.stale


def jobs_of(problems: Sequence[Problem], options: argparse.Namespace, device: Device) -> list[Job]:
    """What is to be tuned, the largest first."""
    jobs = []
    for size in sorted(options.sizes, key=["tiny", *SIZE_NAMES].index, reverse=True):
        for problem in problems:
            title = f"{problem.title} {problem.size(size)}"
            languages = catalog.load(problem.kernel).languages
            if device.language not in languages:
                if size == options.sizes[0]:
                    print(f"{problem.title}: left out: it is {' and '.join(languages)}", flush=True)
                continue
            if not options.fresh and is_tuned(problem, size, device, options.results):
                print(f"{title}: the store has it", flush=True)
                continue
            budget = options.budget or BUDGETS[size] * (FACTOR if problem.is_wide else 1)
            command = [sys.executable, "-m", "tuner", problem.kernel, problem.size(size), "--budget", str(budget)]
            command += ["--device", "cuda:0" if device.kind == "cuda" else device.id, "--json"]
            command += [part for name, dtype in problem.types.items() for part in ("--type", f"{name}={dtype}")]
            command += ["--results", str(options.results)] if options.results else []
            jobs.append(Job(title, command + ["--fresh"] * options.fresh, size, EXPECTED_SECONDS[size]))
    return jobs


def ended(job: Ended) -> None:
    """Print what came of a job."""
    if job.stopped and job.status:
        print(f"{job.job.title}: left out: time was over after {job.seconds:.0f} s; it goes on next time", flush=True)
    elif job.status:
        errors = job.errors.strip().splitlines() or [f"status {job.status}"]
        print(f"{job.job.title}: failed: {errors[-1]}", flush=True)
    else:
        found = json.loads(job.output)
        best = found["best"]
        rates = [f"{best['time_ms']:.4g} ms ({best['spread']:.1%})"]
        for rate, unit, name, share in (
            ("gflops", "GFLOP/s", "peak", "vs_peak"),
            ("gbytes", "GB/s", "memory", "vs_memory"),
        ):
            if best[rate]:
                rates.append(
                    f"{best[rate]:,.0f} {unit}" + (f" ({best[share]:.1%} of {best[name]})" if best[share] else "")
                )
        counts = f"{found['evaluated']} of {found['configurations']} in {job.seconds:.0f} s"
        failed = f", failed: {found['failed']}" if found["failed"] else ""
        print(f"{job.job.title}: {', '.join(rates)}; {counts}{failed}; {best['config']}", flush=True)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="kernels of the gallery; default: all")
    parser.add_argument("--device", default="cuda", help="`cuda` uses all GPUs")
    parser.add_argument("--sizes", nargs="+", choices=["tiny", *SIZE_NAMES], default=list(SIZE_NAMES))
    parser.add_argument("--results", type=Path, help="folder of records")
    parser.add_argument("--seconds", type=float, default=3600.0, help="total time")
    parser.add_argument("--per-gpu", type=int, default=3, help="kernels prepared in parallel per GPU")
    parser.add_argument("--budget", type=int, help="configurations per problem; default: depends on the size")
    parser.add_argument("--fresh", action="store_true", help="also tune problems that have a record")
    options = parser.parse_args()
    try:
        problems = chosen(options.kernels)
        device = devices.open_device(options.device)
        jobs = jobs_of(problems, options, device)
        gpus = list(range(devices.count("cuda"))) if device.kind == "cuda" else []
        left_out = Slots(gpus, options.per_gpu).run(jobs, options.seconds, ended)
    except KeyError as error:
        raise SystemExit(f"kernel {error}: the gallery has no problem of this name") from None
    except TunerError as error:
        raise SystemExit(str(error)) from None
    for job in left_out:
        print(f"{job.title}: left out: too little time is left", flush=True)


if __name__ == "__main__":
    main()
