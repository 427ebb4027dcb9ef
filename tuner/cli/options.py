"""The options that several verbs share, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from tuner import paths
from tuner.cli import output
from tuner.devices import KINDS
from tuner.errors import RequestError


class Terminated(BaseException):
    """SIGTERM, on its way up."""


INTERRUPTS = (KeyboardInterrupt, Terminated)
KERNEL = click.argument("kernel")
SIZE = click.argument("size")


def _settings(_ctx: click.Context, _param: click.Parameter, texts: Iterable[str]) -> dict[str, float]:
    settings: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            settings[name] = float(value)
        except ValueError:
            settings[name] = math.nan
        if not math.isfinite(settings[name]):
            raise RequestError(f"--set {text}: write NAME=NUMBER, such as alpha=2")
    return settings


def _output(_ctx: click.Context, _param: click.Parameter, path: str | None) -> Path | None:
    """A path that names something. Raises RequestError for others: a Path of "" would be this folder."""
    if path in ("", "-"):
        raise RequestError(f"--output {path!r}: names no file, and standard output is for the report; write a path")
    return None if path is None else Path(path)


JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
_KINDS = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
DEVICE = click.option("--device", metavar="NAME", help=f"{_KINDS}, or one with :N; see `tune devices`.")
KNOWN_DEVICE = click.option(
    "--device", metavar="NAME", help=f"{_KINDS}, or one with :N; or part of the name of one in the store."
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


def output_option(metavar: str, help_: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """`--output`, as the argument `path`."""
    return click.option("--output", "path", callback=_output, metavar=metavar, help=help_)


def warn(notes: Iterable[str]) -> None:
    """Warnings on standard error."""
    for note in notes:
        output.say(f"warning: {note}")
