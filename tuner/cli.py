"""The command line: arguments and printing only.

Exit status: 0 done; 1 ran, but nothing valid was found or verification failed; 2 the request was wrong, with one
message on standard error; 130 or 143 interrupted.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuner import __version__, output
from tuner.errors import RequestError, TunerError

if TYPE_CHECKING:
    from tuner.store import Found

F = TypeVar("F", bound=Callable[..., Any])
KERNEL = click.argument("kernel")
SIZE = click.argument("size")


class Terminated(BaseException):
    """SIGTERM, on its way up."""


class Verbs(click.Group):
    """A first word that is no verb is a kernel: `tune KERNEL SIZE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h", "--version"):
            args = ["kernel", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            rows = [(n, c.get_short_help_str(80)) for n, c in sorted(self.commands.items()) if not c.hidden]
            formatter.write_dl(rows)


def _settings(_ctx: click.Context, _param: click.Parameter, given: Iterable[str]) -> dict[str, float]:
    made: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        try:
            made[name] = float(value)
        except ValueError:
            made[name] = math.nan
        if not math.isfinite(made[name]):
            raise RequestError(f"--set {text}: write NAME=NUMBER, such as alpha=2")
    return made


JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
DEVICE = click.option("--device", metavar="NAME", help="cuda, opencl or host, or one with :N; see `tune devices`.")
RESULTS = click.option(
    "--results", type=click.Path(path_type=Path), metavar="DIR", help="Store to use over the shipped one."
)
SET = click.option(
    "--set", "options", multiple=True, callback=_settings, metavar="NAME=VALUE", help="An option, as alpha=2."
)


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, subcommand_metavar="KERNEL SIZE | VERB"
)
@click.version_option(__version__, prog_name="tune")
def cli() -> None:
    """Find, prove and remember the fastest configuration of KERNEL at SIZE on the device at hand.

    KERNEL is a name from `tune list`, a unique part of one, or a path to a YAML file. SIZE is 4096,
    4096x2048x1024, M=100,N=37,K=53 or 1000,batch=100. See `tune kernel --help` for the options.

    Example: tune sgemm/07_tiled_1xn 1024 --device opencl
    """


@cli.command("kernel", hidden=True)
@KERNEL
@click.argument("size", required=False)
@DEVICE
@SET
@click.option("--strategy", metavar="NAME", help="brute_force (the default) or random (the default with --budget).")
@click.option("--budget", metavar="N|TIME", help="Configurations to try, or a time: 100, 90s, 2m.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of the strategy.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=7, show_default=True, help="Timed runs of each.")
@click.option(
    "--timeout", type=click.FloatRange(1, 86_400), default=60.0, show_default=True, help="Seconds a configuration."
)
@click.option("--full", is_flag=True, help="All repeats for every configuration, however slow it is.")
@click.option("--fresh", is_flag=True, help="Measure again what has been measured.")
@RESULTS
@JSON
def tune(kernel: str, size: str | None, as_json: bool, **rest: Any) -> int:
    """Tune KERNEL at SIZE. Interrupted, the same command goes on where it stopped.

    Example: tune sgemm/07_tiled_1xn 1024 --device opencl --budget 2m
    """
    from tuner import catalog

    if size is None:
        verbs = ", ".join(name for name, command in cli.commands.items() if not command.hidden)
        catalog.find(kernel)
        raise RequestError(f"tune {kernel}: SIZE is missing, as in `tune {kernel} 1024`; verbs are {verbs}")
    from tuner.console import TuningProgress
    from tuner.driver import Request
    from tuner.driver import tune as run

    progress = TuningProgress()
    try:
        result = run(Request(kernel, size, **rest), progress)
    except (KeyboardInterrupt, Terminated):
        progress.close()
        where = f" after {progress.done} of {progress.total} configurations" if progress.total else ""
        output.say(f"interrupted{where}; what was measured is kept: the same command goes on from there")
        raise
    finally:
        progress.close()
    record = result.record
    best = record and {k: getattr(record, k) for k in ("config", "time_ms", "spread", "gflops", "vs_library")}
    if as_json:
        output.document({
            "kernel": result.kernel,
            "device": result.device["name"],
            "size": result.sizes,
            "configurations": result.configurations,
            "evaluated": result.evaluated,
            "failed": result.failed,
            "best": best,
            "stored": result.stored,
        })  # fmt: skip
    for reason, number in sorted(result.failed.items()):
        output.say(f"{number} failed: {reason}; one of them: {output.first_lines(result.examples.get(reason, ''))}")
    if record is None:
        output.say(f"{result.kernel}: none of {result.evaluated} configurations is valid")
        return 1
    if not as_json:
        output.record(record)
        if not result.stored:
            click.echo("the store keeps the faster configuration that it has")
    return 0


@cli.command("list")
@JSON
def list_(as_json: bool) -> int:
    """The kernels that ship. Example: tune list --json"""
    from tuner import catalog

    rows = []
    for name in catalog.names():
        space = catalog.load(name)
        rows.append({
            "kernel": name,
            "title": space.title,
            "languages": list(space.languages),
            "parameters": len(space.parameters),
        })  # fmt: skip
    if as_json:
        output.document(rows)
    else:
        output.table(["kernel", "title", "languages", "parameters"], [list(row.values()) for row in rows])
    return 0


@cli.command()
@KERNEL
@click.argument("size", required=False, default="1024")
@DEVICE
@JSON
def show(kernel: str, size: str, device: str | None, as_json: bool) -> int:
    """The space of KERNEL at SIZE (1024 if omitted).

    Without --device, limits are those of a common GPU: 1024 threads and 48 KiB of shared memory a block.

    Example: tune show sgemm/06_tiled 4096
    """
    from tuner import catalog, devices, operation
    from tuner.search.enumeration import count
    from tuner.space import Limits, Scope

    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    if device is None:
        language, limits = space.languages[0], Limits()
    else:
        opened = devices.open(devices.for_space(space, device))
        language, limits = opened.language, opened.limits
    scope = Scope(sizes, space.operation.options, language, limits)
    shown = {
        "kernel": space.name,
        "title": space.title,
        "languages": list(space.languages),
        "size": sizes,
        "configurations": count(space, scope),
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [{"that": r.that.text, "because": r.because} for r in space.restrictions],
        "default": dict(space.default),
        "source": str(space.source),
        "source_note": space.source_note,
    }
    if as_json:
        output.document(shown)
        return 0
    click.echo(f"{space.name}: {space.title}\n{shown['configurations']} configurations are valid at {size}")
    output.table(
        ["parameter", "values", "default"],
        [[n, " ".join(map(str, v)), space.default.get(n, "")] for n, v in space.parameters.items()],
    )
    for restriction in space.restrictions:
        click.echo(f"restriction {restriction}")
    click.echo(f"source {output.plain(space.source)}")
    return 0


@cli.command()
@KERNEL
@SIZE
@DEVICE
@RESULTS
@JSON
def best(kernel: str, size: str, device: str | None, results: Path | None, as_json: bool) -> int:
    """What the look-up gives for KERNEL at SIZE: a stored best, or the default.

    Example: tune best sgemm/07_tiled_1xn 4096
    """
    from tuner import catalog, devices, launcher, operation
    from tuner.space import Scope, size_text

    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    opened = devices.open(devices.for_space(space, device))
    scope = Scope(sizes, space.operation.options, opened.language, opened.limits)
    found = launcher.find(space, scope, opened, results)
    _notes(found)
    if as_json:
        record = asdict(found.record) if found.record else None
        asked = {"kernel": space.name, "device": opened.name, "size": sizes}
        output.document({**asked, "match": found.match, "stale": found.stale, "config": found.config, "record": record})
        return 0
    click.echo(f"{space.name} at {size} on {opened.name}: {found.match}{', stale' if found.stale else ''}")
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
    """Launch the stored best of KERNEL at SIZE on random data; verify it and time it.

    Example: tune run sgemm/07_tiled_1xn 4096 --set alpha=2
    """
    from tuner import rerun

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


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@JSON
def validate(file: Path, as_json: bool) -> int:
    """Check a space file. Example: tune validate my_kernel.yaml"""
    from tuner import spacefile

    space = spacefile.read(file)
    summary = {"file": str(file), "valid": True, "kernel": space.name, "parameters": len(space.parameters)}
    if as_json:
        output.document(summary)
    else:
        click.echo(f"{output.plain(file)}: valid, {len(space.parameters)} parameters")
    return 0


@cli.command()
@click.option("--json", is_flag=True, hidden=True, help="It is JSON anyway.")
def schema(json: bool) -> int:
    """The JSON Schema of a space file, for editors. Example: tune schema > space.schema.json"""
    from tuner import schema as published

    output.document(published.json_schema())
    return 0


@cli.command()
@JSON
def devices(as_json: bool) -> int:
    """The devices of this machine. Example: tune devices --json"""
    from tuner import devices as all_devices

    found = []
    for name in all_devices.available():
        opened = all_devices.open(name)
        found.append(opened.describe())
        opened.close()
    if as_json:
        output.document(found)
    else:
        output.table(
            ["device", "name", "architecture", "toolchain"],
            [[d[k] for k in ("device", "name", "architecture", "toolchain")] for d in found],
        )
        if not found:
            output.say(
                "no devices: install gcc for host, a driver and pyopencl for opencl, a driver and pycuda for cuda"
            )
    return 0


@cli.command()
@click.option("--device", metavar="NAME", help="Records of devices whose name contains this.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Put it between FILE's markers.",
)
@RESULTS
@JSON
def report(device: str | None, write: Path | None, results: Path | None, as_json: bool) -> int:
    """A Markdown table of what the store holds. Example: tune report --device H200 --write README.md"""
    from tuner import report as reports

    rows = reports.rows(device or "", results)
    if as_json:
        output.document([asdict(row) for row in rows])
    elif write is None:
        click.echo(output.plain(reports.markdown(rows)))
    else:
        reports.put_into(write, reports.markdown(rows))
    return 0


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
        output.say(f"error: {error.format_message().rstrip('.')}{where}")
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
    sys.exit(status if isinstance(status, int) else 0)


def _terminated(_signal: int, _frame: object) -> None:
    raise Terminated
