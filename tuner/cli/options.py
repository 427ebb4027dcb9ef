"""The group of verbs, and the options that several of them share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import click

from tuner import __version__, paths
from tuner.errors import RequestError


class Terminated(BaseException):
    """SIGTERM, on its way up."""


INTERRUPTS = (KeyboardInterrupt, Terminated)
KERNEL = click.argument("kernel")
SIZE = click.argument("size")


class Verbs(click.Group):
    """A first word that is no verb is a kernel: `tune KERNEL SIZE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = args or ["--help"]
        if args[0] not in self.commands and args[0] not in ("--help", "-h", "--version"):
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
KNOWN_DEVICE = click.option(
    "--device", metavar="NAME", help="cuda, opencl or host, or one with :N; or part of the name of one in the store."
)
DEVICES = click.option(
    "--device", "--devices", metavar="NAME", help="cuda, cuda:1, cuda:0,cuda:3, or `all` GPUs of this machine."
)
RESULTS = click.option(
    "--results", type=click.Path(path_type=Path), metavar="DIR", help="Store to use over the shipped one."
)
SET = click.option(
    "--set", "options", multiple=True, callback=_settings, metavar="NAME=VALUE", help="An option, as alpha=2."
)


def check_writable(option: str, folder: Path) -> None:
    """Raise RequestError where nothing can be written in `folder`, before hours of measuring."""
    try:
        paths.check_writable(folder)
    except OSError as error:
        raise RequestError(f"{option} {folder}: cannot be written: {error.strerror}; name another folder") from None


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
