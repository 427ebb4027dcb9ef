"""Verified configurations per second: Kernel Tuner alone (NVCUDA) and tuner, on the same space, source and GPU.

    python benchmarks/throughput.py benchmarks/tutorial_1xn.yaml 4096
    python benchmarks/throughput.py sgemm/09_coarsened_2d 4096

Both measure every valid configuration with seven repeats (tuner with fewer if a race is lost), and both verify, Kernel
Tuner through `answer=`. The rate counts from the first configuration to the last; the time before is the start-up. Then
both winners are measured again, interleaved. Needs a GPU, `tuner[cuda]` and cuda-python.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.catalog import catalog
from tuner.measure.benchmark import Bench
from tuner.measure.method import STANDARD
from tuner.search.enumeration import enumerated
from tuner.space import operation, parsing
from tuner.space.answers import reference
from tuner.space.config import Config
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering
from tuner.space.values.forms import ExpressionReference
from tuner.tuning import driver
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.request import TuningRequest

REPEATS = STANDARD.repeats


@dataclass(frozen=True)
class Run:
    """One tuner's run: seconds from its start to its first configuration, and from there to its last."""

    configurations: int
    start_up_s: float
    seconds: float
    best: Config
    time_ms: float
    failed: int

    @property
    def rate(self) -> float:
        """Configurations per second."""
        return (self.configurations - 1) / self.seconds


def kernel_tuner(kernel: str, size: str) -> Run:
    """Kernel Tuner's own loop over the valid configurations of our space, on the same source text."""
    import kernel_tuner

    space, scope, _ = _problem(kernel, size)
    names = list(space.parameters)
    valid = {tuple(config.values()) for config in enumerated(space, scope).configs()}
    contents = operation.inputs(space.operation, scope)
    form = space.operation.reference
    assert isinstance(form, ExpressionReference)
    answers, _ = reference.answers(form, scope, contents)
    inputs = {name: elements.array() for name, elements in contents.items()}
    (step,), scalars = space.steps, iter(operation.scalars(space.operation, scope))
    arguments = [inputs[a.name] if a.shape is not None else next(scalars) for a in space.operation.arguments]
    answer = [answers[a.name].astype(a.dtype) if a.name in answers else None for a in space.operation.arguments]

    def config(params: dict[str, Any]) -> Config:
        return {name: params[name] for name in names}

    # Kernel Tuner reads the threads per block from its parameters. Ours may be derived, so they join under other names.
    configs = {params: dict(zip(names, params, strict=True)) for params in valid}
    blocks = {p: Instance(space, config, scope).geometries[0].block for p, config in configs.items()}
    axes = {f"threads_{axis}": sorted({block[i] for block in blocks.values()}) for i, axis in enumerate("xyz")}

    def is_valid(params: dict[str, Any]) -> bool:
        key = tuple(params[name] for name in names)
        return key in valid and blocks[key] == tuple(params[axis] for axis in axes)

    times: list[float] = []

    def note_time(_: object) -> int:
        times.append(time.time())
        return len(times)

    start = time.time()
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_kernel(
            step.kernel,
            lambda params: rendering.render(Instance(space, config(params), scope))[0].source.text,
            lambda params: Instance(space, config(params), scope).geometries[0].grid,
            arguments,
            {**{name: list(values) for name, values in space.parameters.items()}, **axes},
            grid_div_x=[], grid_div_y=[], grid_div_z=[], block_size_names=list(axes), defines={},
            restrictions=is_valid, lang="NVCUDA", iterations=REPEATS, answer=answer, atol=1e-2,
            compiler_options=["--std=c++17"],
            metrics={"number": note_time},
        )  # fmt: skip
    successes = [r for r in results if isinstance(r.get("time"), float) and "__error__" not in r]
    best = min(successes, key=lambda r: float(r["time"]))
    failed = len(results) - len(successes)
    return Run(len(results), times[0] - start, times[-1] - times[0], config(best), best["time"], failed)


class Clock:
    """A driver.Progress that notes the time at the end of each configuration."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.failed = 0

    def begun(self, step: str) -> None: ...

    def started(self, *_: Any) -> None: ...

    def measured(self, trial: Trial, done: int, best: Trial | None) -> None:
        self.times.append(time.time())
        self.failed += trial.outcome.failure is not None

    def noted(self, text: str) -> None: ...

    def finals(self, count: int) -> None: ...


def ours(kernel: str, size: str) -> Run:
    """Our driver, without earlier trials or builds."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUNER_STATE"] = os.environ["TUNER_CACHE"] = folder
        clock, start = Clock(), time.time()
        result = driver.tune(TuningRequest(kernel, size, "cuda", results=Path(folder)), clock)
    record = result.record
    assert record is not None
    seconds = clock.times[-1] - clock.times[0]
    return Run(len(clock.times), clock.times[0] - start, seconds, record.config, record.time_ms, clock.failed)


def remeasure(kernel: str, size: str, configs: list[Config]) -> list[float]:
    """The medians of the configurations in ms, interleaved."""
    space, scope, device = _problem(kernel, size)
    return [final.time_ms for final in Bench(device, space, scope).finals(configs).candidates]


def _problem(kernel: str, size: str) -> tuple[Space, Scope, devices.Device]:
    space, device = catalog.load(kernel), devices.open_device("cuda")
    sizes = parsing.parse_size(size, space.operation)
    return space, Scope(sizes, space.operation.options, device.language, device.limits), device


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("size")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    problem = (options.kernel, options.size)
    # A process for each task, so a context too.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        runs = {"tuner": processes.apply(ours, problem), "Kernel Tuner": processes.apply(kernel_tuner, problem)}
        times = processes.apply(remeasure, (*problem, [run.best for run in runs.values()]))
    for (name, run), time_ms in zip(runs.items(), times, strict=True):
        print(
            f"{name:12} {run.configurations} configurations, {run.failed} failed, in {run.seconds:.1f} s: "
            f"{run.rate:.2f}/s, start-up {run.start_up_s:.1f} s; best {time_ms:.4f} ms: {run.best}"
        )
    print(f"{runs['tuner'].rate / runs['Kernel Tuner'].rate:.1f} times as many per second")
    if options.json:
        figures = {
            name: {**vars(run), "rate": run.rate, "again_ms": t}
            for (name, run), t in zip(runs.items(), times, strict=True)
        }
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
