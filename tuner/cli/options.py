"""Define the arguments and options that several verbs share."""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner import paths
from tuner.classes import dataclass
from tuner.cli import numbers, output
from tuner.errors import RequestError
from tuner.languages import KINDS
from tuner.measure.method import OBJECTIVES, TIMEOUT
from tuner.quoting import shown
from tuner.space import snapshot

if TYPE_CHECKING:
    from tuner.exchange.exports.target import Problem
    from tuner.tuning.ledger.trial import Trial

Option = Callable[[Callable[..., Any]], Callable[..., Any]]  # a decorator that adds it to a verb's function


def _settings(_ctx: click.Context, _param: click.Parameter, texts: Iterable[str]) -> dict[str, float]:
    """The numbers of `--set`, by name. Raises RequestError for a text that is not NAME=NUMBER."""
    settings: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            settings[name] = float(value)
        except ValueError:
            settings[name] = math.nan
        if not math.isfinite(settings[name]):
            raise RequestError(f"--set {shown(text)}: write NAME=NUMBER, such as alpha=2")
    return settings


def _types(_ctx: click.Context, _param: click.Parameter, texts: Iterable[str]) -> dict[str, str]:
    """The types of `--type`, by name. Raises RequestError for a text that is not NAME=DTYPE, or a name given twice."""
    types: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise RequestError(f"--type {shown(text)}: write NAME=DTYPE, such as real=float16")
        if name in types:
            raise RequestError(f"--type {shown(text)}: {shown(name)} is given twice; keep one")
        types[name] = value
    return types


def _output_path(_ctx: click.Context, _param: click.Parameter, path: str | None) -> Path | None:
    """`--output` as a path. Raises RequestError for "", which Path would take as the current folder, and for "-"."""
    if path in ("", "-"):
        raise RequestError(f"--output {path!r}: names no file, and cannot be standard output; write a path")
    return None if path is None else Path(path)


def kernels() -> list[str]:
    """The names of all kernels, for shell completion."""
    from tuner.catalog import kernel_lists

    return [entry.name for entry in kernel_lists.every()[0]]


def _completed(
    words: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """A shell completion function for a comma-separated option: completes the last value from `words`."""

    def complete(_ctx: click.Context, _param: click.Parameter, text: str) -> list[str]:
        before, comma, last = text.rpartition(",")
        return [f"{before}{comma}{word}" for word in words() if word.startswith(last)]

    return complete


def strategies() -> Iterable[str]:
    """The names of all strategies, for shell completion."""
    from tuner.search.strategies import STRATEGIES

    return STRATEGIES


def _storage(_ctx: click.Context, _param: click.Parameter, url: str | None) -> str | None:
    """`--storage`, unchanged; its password is hidden from the list of processes."""
    if url:
        from tuner.tuning.ledger import address

        address.conceal(url)
    return url


_KINDS = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"

COMPLETE_KERNEL = _completed(kernels)
COMPLETE_DEVICE = _completed(lambda: KINDS)
COMPLETE_STRATEGY = _completed(strategies)
COMPLETE_OBJECTIVE = _completed(lambda: OBJECTIVES)

KERNEL = click.argument("kernel", shell_complete=COMPLETE_KERNEL)
SIZE = click.argument("size", required=False)
SIZES = click.argument("sizes", nargs=-1, metavar="[SIZE]...")
SIZE_LISTS = click.option(
    "--sizes",
    "size_lists",
    multiple=True,
    metavar="FILE|GRID",
    help="A file with one size a line, optionally followed by a weight; or a grid: 256:8192*2 or "
    "M=1:128*2,N=4096,K=4096. May be given several times.",
)
TIMEOUT_OPTION = click.option(
    "--timeout",
    type=numbers.TIMEOUT,
    metavar="SECONDS",
    default=TIMEOUT,
    show_default=True,
    help="Time limit per configuration, in seconds.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON document.")
DEVICE = click.option(
    "--device",
    metavar="NAME",
    shell_complete=COMPLETE_DEVICE,
    help=f"Device of this machine: {_KINDS}; cuda:1 is the second GPU.",
)
TARGET_DEVICE = click.option(
    "--device",
    metavar="NAME",
    shell_complete=COMPLETE_DEVICE,
    help=f"Device of this machine ({_KINDS}), or part of the name of one in the store.",
)
DEVICES = click.option(
    "--device",
    "--devices",
    metavar="NAMES",
    shell_complete=_completed(lambda: [*KINDS, "all"]),
    help="A device (cuda:1), several (cuda:0,cuda:3), or `all` GPUs.",
)
CLUSTER = click.option(
    "--cluster",
    metavar="URL",
    help="Scheduler of Dask or Ray (dask://host:8786, ray://host:10001): the devices of its workers share the search.",
)
RESULTS = click.option(
    "--results", type=click.Path(path_type=Path), metavar="DIR", help="Your store, preferred to the shipped one."
)
SET = click.option(
    "--set", "options", multiple=True, callback=_settings, metavar="NAME=NUMBER", help="Kernel option, such as alpha=2."
)
TYPES = click.option(
    "--type", "types", multiple=True, callback=_types, metavar="NAME=DTYPE", help="Kernel type, such as real=float16."
)


SEED = click.option(
    "--seed",
    type=numbers.Whole(0, 2**32 - 1),
    metavar="N",
    default=0,
    show_default=True,
    help="Random seed of the strategy.",
)
VERBOSE = click.option(
    "-v", "--verbose", is_flag=True, help="Log on standard error what is built, verified and measured, with times."
)


def output_option(metavar: str, help_: str, argument: str = "output") -> Option:
    """The option `-o` or `--output`, passed as this argument."""
    return click.option("-o", "--output", argument, callback=_output_path, metavar=metavar, help=help_)


def storage_option(help_: str) -> Option:
    """The option `--storage`. Its password is hidden from the list of processes."""
    return click.option("--storage", callback=_storage, metavar="URL", help=help_)


def check_folder(option: str, folder: Path) -> None:
    """Create `folder`. Raises RequestError if it is not writable: now, rather than after hours of measuring."""
    with paths.writing(f"{option} {folder}", "name another folder"):
        paths.check_writable(folder)


def check_file(option: str, file: Path) -> None:
    """Raise RequestError if `file` cannot be written: now, rather than after hours of measuring.

    Its folder must exist, since a missing one may be mistyped.
    """
    with paths.writing(f"{option} {file}", "name another place"):
        if not os.path.isdir(file.parent):
            folder = shown(file.parent)
            raise RequestError(f"{option} {shown(file)}: there is no folder {folder}; make it, or name another")
        with contextlib.suppress(FileNotFoundError):
            file.lstat()
        if file.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        paths.check_writable(file.parent)


def write_figure(file: Path, data: bytes) -> None:
    """Write a page or picture. Raises RequestError if that is not possible."""
    with paths.writing(f"--output {file}", "name another place"):
        paths.replace(file, data)


@dataclass(frozen=True)
class ProblemArguments:
    """KERNEL, SIZE, --device, --set, --type and --results, which describe a problem, as written on the command line."""

    kernel: str
    size: str | None
    device: str | None
    options: dict[str, float]
    types: dict[str, str]
    results: Path | None

    def problem(self) -> Problem:
        """The checked problem, without the device. Raises RequestError if an argument is wrong."""
        from tuner.catalog import catalog
        from tuner.exchange.exports.target import Problem

        return Problem.parse(catalog.load(self.kernel), self.size, self.options, self.types, self.results)

    def latest_trials(self, storage: str | None) -> tuple[str, dict[str, Any], list[Trial]]:
        """The trials of the latest study of the problem, in the order in which they finished, with a title, and the
        conditions under which they were measured, for --json. Raises RequestError if there is none."""
        problem = self.problem()
        from tuner.exchange.exports.trials import latest_study  # imports Optuna; a wrong request fails before that

        study = latest_study(problem, self.device, storage)
        unlike_most = "".join(f", {text}" for text in (study.peculiar, str(study.conditions)) if text)
        title = f"{problem.space.name} at {problem.text} on {study.device}{unlike_most}"
        about = {"kernel": problem.space.name, "device": study.device, "size": problem.sizes, "types": problem.types}
        about |= {"options": problem.options, "conditions": dict(study.conditions.values)}
        return title, about, study.trials


def with_kept_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a verb's function: it reads each file of a space once, and says at its end which have changed since."""

    @functools.wraps(command)
    def call(*arguments: Any, **named: Any) -> Any:
        with snapshot.kept(output.say):
            return command(*arguments, **named)

    return call


def of_problem(*own: Option, device: Option = TARGET_DEVICE) -> Option:
    """Decorate a verb's function to take the arguments of a problem, `own` options, and --json.

    It receives the former as its first argument, a ProblemArguments.
    """

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**arguments: Any) -> Any:
            problem = ProblemArguments(**{field.name: arguments.pop(field.name) for field in fields(ProblemArguments)})
            return command(problem, **arguments)

        options: tuple[Option, ...] = (KERNEL, SIZE, device, SET, TYPES, *own, RESULTS, JSON)
        found: Callable[..., Any] = call
        for option in reversed(options):
            found = option(found)
        return found

    return decorated
