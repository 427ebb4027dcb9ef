"""`tune KERNEL SIZE`: the search for the fastest configuration."""

import difflib
from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import DEVICES, JSON, KERNEL, RESULTS, SEED, SET, TYPES, storage_option
from tuner.errors import RequestError
from tuner.measure.method import OBJECTIVES, STANDARD, TIMEOUT, Method, parse_objectives
from tuner.paths import quoted


@click.command("kernel", hidden=True)
@KERNEL
@click.argument("size", required=False)
@DEVICES
@SET
@TYPES
@click.option(
    "--strategy",
    metavar="NAME",
    help="Search strategy; a wrong name lists all. If omitted, brute_force where the budget covers all configurations, "
    "else optuna.",
)
@click.option(
    "--budget", metavar="N|TIME", help="Number of configurations to try (100), or a time (90s, 2m, 1h); all if omitted."
)
@SEED
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=STANDARD.repeats,
    show_default=True,
    help="Timed runs per configuration.",
)
@click.option(
    "--timeout", type=float, default=TIMEOUT, show_default=True, help="Time limit per configuration, in seconds."
)
@click.option("--full", is_flag=True, help="Time slow configurations as often as fast ones.")
@click.option("--flush", is_flag=True, help="Flush the device's caches before each timed run.")
@click.option(
    "--objective",
    default=STANDARD.objectives[0],
    show_default=True,
    metavar="NAME[,NAME]",
    help=f"What to minimise: {', '.join(OBJECTIVES)}. edp is energy times time. Several trade off: time,registers.",
)
@click.option(
    "--sustained",
    is_flag=True,
    help="Then run the best, and the vendor's library, back to back for seconds; store time, clock and power.",
)
@click.option("--fresh", is_flag=True, help="Ignore earlier trials and measure again.")
@storage_option("Database in which several machines share one study.")
@RESULTS
@JSON
def command(
    kernel: str,
    size: str | None,
    as_json: bool,
    repeats: int,
    flush: bool,
    objective: str,
    full: bool,
    **request: Any,
) -> int:
    """Find the fastest configuration of KERNEL at SIZE, verify it and store it.

    SIZE may be left out where the file gives every size. Every configuration is verified before it is timed. An
    interrupted search continues when the same command is run again.

    Example: tune sgemm/07_tiled_1xn 1024 --device opencl --budget 2m
    """
    from tuner.cli.app import VERBS
    from tuner.space import catalog

    try:
        catalog.find(kernel)
    except RequestError:
        if near := difflib.get_close_matches(kernel, VERBS, n=1):
            raise RequestError(f"{quoted(kernel)} is no verb and no kernel; did you mean `tune {near[0]}`?") from None
        raise
    if size is None and None in catalog.load(kernel).operation.sizes.values():
        verbs = ", ".join(VERBS)
        raise RequestError(f"tune {kernel}: SIZE is missing, as in `tune {kernel} 1024`; verbs are {verbs}")
    from tuner.cli import progress
    from tuner.space.texts import config_text
    from tuner.tuning.driver import tune
    from tuner.tuning.request import TuningRequest

    method = Method(repeats, flush, parse_objectives(objective), race=not full)
    with progress.shown() as listener:
        result = tune(TuningRequest(kernel, size, method=method, **request), listener)
    record = result.record
    keys = (
        "config", "time_ms", "spread", "gflops", "peak", "vs_peak", "gbytes", "memory", "vs_memory", "vs_library",
        "vs_best_library", "sustained", "verified",
    )  # fmt: skip
    best = record and {key: getattr(record, key) for key in keys}
    data = {
        "kernel": result.kernel,
        "device": result.device.name,
        "size": result.sizes,
        "types": result.types,
        "configurations": result.configurations,
        "evaluated": result.evaluated,
        "failed": {reason: number for reason, (number, _) in result.failed.items()},
        "best": best,
        **({"front": [{"config": p.config, **p.values} for p in result.front]} if result.front else {}),
        "stored": result.stored,
    }
    for reason, (number, trial) in result.failed.items():
        which = config_text(trial.config) + ("" if number == 1 else ", for one")
        output.say(f"{number} failed: {reason}, {which}: {output.first_lines(trial.outcome.log)}")
    lines = []
    if record is None:
        output.say(f"{result.kernel}: none of {result.evaluated} configurations is valid")
    else:
        lines.append(output.best(record, catalog.load(kernel)))
        if result.front:
            lines.append(output.front(result.front))
        if not result.stored:
            lines.append("the store keeps the faster configuration that it has")
    output.answer(as_json, data, "\n".join(lines))
    return 1 if record is None else 0
