"""The command line: `tune KERNEL SIZE`, `tune best`, `tune run`, and what errors become. Arguments and printing only.

Exit status: 0 done; 1 ran, but nothing valid was found or verification failed; 2 the request was wrong, with one
message on standard error; 130 or 143 interrupted.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import exchanging, inspection, output, replaying, reproducing
from tuner.cli.options import (
    DEVICE,
    DEVICES,
    INTERRUPTS,
    JSON,
    KERNEL,
    KNOWN_DEVICE,
    RESULTS,
    SET,
    SIZE,
    Terminated,
    cli,
)
from tuner.errors import RequestError, TunerError

if TYPE_CHECKING:
    from tuner.store.store import Found

# Importing these gives the group its verbs.
__all__ = ["cli", "exchanging", "inspection", "main", "replaying", "reproducing"]


@cli.command("kernel", hidden=True)
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
def tune(
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
        verbs = ", ".join(name for name, command in cli.commands.items() if not command.hidden)
        catalog.find(kernel)
        raise RequestError(f"tune {kernel}: SIZE is missing, as in `tune {kernel} 1024`; verbs are {verbs}")
    from tuner.cli.progress import TuningProgress
    from tuner.measure.method import Method, parse_objectives
    from tuner.tuning.driver import Request
    from tuner.tuning.driver import tune as run

    method = Method(repeats, cold=flush, objectives=parse_objectives(objective), race=not full)
    progress = TuningProgress()
    try:
        result = run(Request(kernel, size, method=method, **rest), progress)
    except INTERRUPTS:
        progress.interrupted()
        raise
    finally:
        progress.close()
    record = result.record
    best = record and {k: getattr(record, k) for k in ("config", "time_ms", "spread", "gflops", "gbytes", "vs_library")}
    if as_json:
        output.document({
            "kernel": result.kernel,
            "device": result.device["name"],
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


@cli.command()
@KERNEL
@SIZE
@KNOWN_DEVICE
@RESULTS
@JSON
def best(kernel: str, size: str, device: str | None, results: Path | None, as_json: bool) -> int:
    """What the look-up gives for KERNEL at SIZE: a stored best, or the default.

    Example: tune best sgemm/07_tiled_1xn 4096
    """
    from tuner import devices, launcher
    from tuner.exchange import target as targets
    from tuner.space import catalog, operation
    from tuner.space.model import Scope, size_text

    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    if device is None or device.partition(":")[0] in devices.KINDS:
        opened = devices.open(devices.for_space(space, device))
        scope = Scope(sizes, space.operation.options, opened.language, opened.limits)
        name, found = opened.name, launcher.find(space, scope, opened, results)
    else:  # one that the store knows
        target = targets.one(targets.Problem.parse(space, size, {}, results), device)
        name, found = target.device.device, target.found
    _notes(found)
    if as_json:
        record = asdict(found.record) if found.record else None
        asked = {"kernel": space.name, "device": name, "size": sizes}
        answer = {"match": found.match, "variant": found.variant, "stale": found.stale, "config": found.config}
        output.document({**asked, **answer, "record": record})
        return 0
    how = f"{found.match}{', of a variant' if found.variant else ''}{', stale' if found.stale else ''}"
    click.echo(output.plain(f"{space.name} at {size} on {name}: {how}"))
    if found.record is None:
        click.echo(f"never tuned; the default: {output.configuration(found.config)}")
        return 0
    if found.match != "exact":
        click.echo(f"measured on {output.plain(found.record.device)} at {size_text(found.record.sizes)}:")
    output.record(found.record)
    return 0


@cli.command()
@KERNEL
@SIZE
@DEVICE
@SET
@RESULTS
@JSON
def run(kernel: str, size: str, as_json: bool, **rest: Any) -> int:
    """Launch the stored best of KERNEL at SIZE on random data; verify it and time it. One that hangs is stopped after
    ten minutes.

    Example: tune run sgemm/07_tiled_1xn 4096 --set alpha=2
    """
    from tuner.tuning import rerun

    done = rerun.run(kernel, size, **rest)
    _notes(done.found)
    if as_json:
        shown = {k: v for k, v in asdict(done).items() if k != "found"}
        output.document({"config": done.found.config, "match": done.found.match, "stale": done.found.stale, **shown})
    elif done.verified:
        click.echo(
            f"{done.kernel} at {size} on {done.device}: {output.configuration(done.found.config)} ({done.found.match})"
        )
        click.echo(f"{output.timing(done)}; verified, largest error {done.error:.2g}")
    if not done.verified:
        output.say(f"{done.kernel}: {output.first_lines(done.reason or '')}")
    return 0 if done.verified else 1


def _notes(found: Found) -> None:
    for note in found.notes:
        output.say(f"warning: {note}")


def main() -> None:
    """Entry point of `tune`."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Exit as leaving:
        status = leaving.exit_code
    except click.NoSuchOption as error:
        number = error.option_name.lstrip("-")[:1].isdigit()
        hint = (
            ": a size is a whole number from 1 on"
            if number
            else f"; see `{error.ctx.command_path} --help`"
            if error.ctx
            else ""
        )
        output.say(f"error: no such option {error.option_name}{hint}")
        status = 2
    except click.ClickException as error:
        where = f"; see `{error.ctx.command_path} --help`" if isinstance(error, click.UsageError) and error.ctx else ""
        output.say(f"error: {' '.join(error.format_message().split()).rstrip('.')}{where}")
        status = 2
    except RequestError as error:
        output.say(f"error: {error}")
        status = 2
    except TunerError as error:
        output.say(f"error: {error}")
        status = 1
    except (KeyboardInterrupt, click.Abort):
        status = 130
    except Terminated:
        status = 143
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python would try again at exit
        output.say("error: standard output: no space left on it; free some, or send it elsewhere")
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def _terminated(_signal: int, _frame: object) -> None:
    raise Terminated
