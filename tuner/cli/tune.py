"""`tune KERNEL SIZE`: the search for the fastest configuration."""

from __future__ import annotations

from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import DEVICES, JSON, KERNEL, RESULTS, SET
from tuner.errors import RequestError


@click.command("kernel", hidden=True)
@KERNEL
@click.argument("size", required=False)
@DEVICES
@SET
@click.option(
    "--strategy",
    metavar="NAME",
    help="brute_force, optuna (the default where --budget is less than all), random, optuna:NAME, kt:NAME.",
)
@click.option("--budget", metavar="N|TIME", help="Configurations to try, or a time: 100, 90s, 2m.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of the strategy.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=7, show_default=True, help="Timed runs of each.")
@click.option(
    "--timeout", type=click.FloatRange(1, 86_400), default=60.0, show_default=True, help="Seconds a configuration."
)
@click.option("--full", is_flag=True, help="All repeats for every configuration, however slow it is.")
@click.option("--flush", is_flag=True, help="Empty the caches before each timed run.")
@click.option(
    "--objective",
    default="time",
    show_default=True,
    metavar="NAME[,NAME]",
    help="What to make least: time, energy, edp (their product); or traded off: time,registers or shared_memory too.",
)
@click.option("--fresh", is_flag=True, help="Measure again what has been measured.")
@click.option("--storage", metavar="URL", help="A database that several machines share, to work on one study together.")
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
    **rest: Any,
) -> int:
    """Tune KERNEL at SIZE. Interrupted, the same command goes on where it stopped.

    Example: tune sgemm/07_tiled_1xn 1024 --device opencl --budget 2m
    """
    from tuner.space import catalog

    if size is None:
        from tuner.cli.app import VERBS

        catalog.find(kernel)
        verbs = ", ".join(VERBS)
        raise RequestError(f"tune {kernel}: SIZE is missing, as in `tune {kernel} 1024`; verbs are {verbs}")
    from tuner.cli import progress
    from tuner.measure.method import Method, parse_objectives
    from tuner.tuning.driver import TuningRequest
    from tuner.tuning.driver import tune as run

    method = Method(repeats, cold=flush, objectives=parse_objectives(objective), race=not full)
    with progress.shown() as listener:
        result = run(TuningRequest(kernel, size, method=method, **rest), listener)
    record = result.record
    best = record and {k: getattr(record, k) for k in ("config", "time_ms", "spread", "gflops", "gbytes", "vs_library")}
    if as_json:
        output.document({
            "kernel": result.kernel,
            "device": result.device.name,
            "size": result.sizes,
            "configurations": result.configurations,
            "evaluated": result.evaluated,
            "failed": result.failed,
            "best": best,
            **({"front": [{"config": p.config, **p.values} for p in result.front]} if result.front else {}),
            "stored": result.stored,
        })  # fmt: skip
    for reason, number in sorted(result.failed.items()):
        output.say(f"{number} failed: {reason}; one of them: {output.first_lines(result.examples.get(reason, ''))}")
    if record is None:
        output.say(f"{result.kernel}: none of {result.evaluated} configurations is valid")
        return 1
    if not as_json:
        output.record(record)
        if result.front:
            output.front(result.front)
        if not result.stored:
            click.echo("the store keeps the faster configuration that it has")
    return 0
