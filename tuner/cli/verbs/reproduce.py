"""`tune reproduce`: measure published tables on this machine; print them, and write Markdown, JSON and a plot."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner import paths
from tuner.cli import numbers, output
from tuner.cli.interrupts import INTERRUPTS
from tuner.cli.options import DEVICE, JSON, RESULTS, check_folder, with_kept_files
from tuner.measure.method import LOOPS_TIMEOUT, TIMEOUT
from tuner.quoting import plain

if TYPE_CHECKING:
    from tuner.cli.screen.progress import TuningProgress
    from tuner.experiments.results import Reproduction


@click.command()
@click.argument("name", required=False)
@click.option("--list", "as_list", is_flag=True, help="List the experiments that ship with tuner.")
@DEVICE
@click.option(
    "--budget",
    metavar="N|TIME",
    default="100",
    show_default=True,
    help="Budget of each search, if the store has no record of the size: configurations (100) or a time (2m).",
)
@click.option("--no-tune", is_flag=True, help="Do not search; use only tuned configurations from the store.")
@click.option("--small", is_flag=True, help="Measure at small sizes; OpenCL on a CPU always does.")
@click.option(
    "--timeout",
    type=numbers.TIMEOUT,
    metavar="SECONDS",
    help=f"Time limit per configuration, in seconds; {TIMEOUT:g} if omitted, {LOOPS_TIMEOUT:g} on the host.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default="reproduced",
    show_default=True,
    help="Folder to write NAME.md, NAME.json and NAME.png into.",
)
@RESULTS
@JSON
@with_kept_files
def command(name: str | None, as_list: bool, as_json: bool, folder: Path, no_tune: bool, **request: Any) -> int:
    """Reproduce a published table on this machine, as published and tuned.

    Every row is measured with its published constants, and with the best known configuration of its kernel. NAME is
    one of --list, a unique part of one, or the path of a YAML file. The tables are written after each kernel, so an
    interrupted run keeps its results.

    Example: tune reproduce gemm-from-scratch --device cuda
    """
    from tuner.experiments import reading

    if name is None or as_list:
        _list(as_json)
        return 0
    experiment = reading.find(name)
    from tuner.experiments import plot, running, tables
    from tuner.experiments.stage import ReproductionRequest

    check_folder("--output", folder)
    if not plot.available():
        output.say(plot.MISSING)
    files = f"{folder / experiment.name}.md, .json{', .png' if plot.available() else ''}"
    reproduction: Reproduction | None = None
    try:
        for reproduction in running.run(experiment, ReproductionRequest(tune=not no_tune, **request), _Terminal()):
            _write(reproduction, folder)
    except INTERRUPTS:
        if reproduction:
            _draw(reproduction, folder)
        message = f"results so far are kept: {files}" if reproduction else "nothing was measured"
        output.say(f"interrupted; {message}")
        raise
    assert reproduction is not None
    _draw(reproduction, folder)
    output.say(files)
    if as_json:
        output.document(tables.document(reproduction))
    else:
        _show(reproduction)
    rows = reproduction.rows
    if not any(row.is_measured for row in rows):
        output.say(f"{experiment.name}: none of {len(rows)} rows could be measured")
        return 1
    return 1 if any(row.constants.failed or row.tuned.failed for row in rows) else 0


class _Terminal:
    """The `Audience` of a run: messages and search progress on standard error."""

    def say(self, text: str) -> None:
        output.say(text)

    def listener(self) -> contextlib.closing[TuningProgress]:
        from tuner.cli.screen.progress import TuningProgress

        return contextlib.closing(TuningProgress())


def _show(reproduction: Reproduction) -> None:
    """Print the tables on standard output, at full width if it is not a terminal."""
    from rich.console import Console
    from rich.table import Table

    from tuner.experiments import tables

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=250)
    console.print(plain(tables.head(reproduction)), soft_wrap=True)
    for number, rows in enumerate(reproduction.tables):
        header, cells = tables.columns(rows)
        table = Table(title=plain(tables.title(reproduction, number)), title_justify="left", title_style="bold")
        for position, name in enumerate(header):
            table.add_column(name, justify="right" if position else "left", overflow="fold")
        for row in cells:
            table.add_row(*map(plain, row))
        console.print(table)
        for line in tables.notes(reproduction, number):
            console.print(plain(line), soft_wrap=True)
    console.print(plain(tables.legend(reproduction)), soft_wrap=True)


def _list(as_json: bool) -> None:
    from tuner.experiments import reading

    experiments = [reading.find(name) for name in reading.names()]
    keys = ("name", "title", "author", "where", "device")
    data = [{key: getattr(experiment, key) for key in keys} for experiment in experiments]
    rows = [[e.name, e.title, e.device, sum(len(table.rows) for table in e.tables)] for e in experiments]
    output.answer(as_json, data, output.table(["name", "title", "published on", "rows"], rows))


def _write(reproduction: Reproduction, folder: Path) -> None:
    """Write the tables with the results so far. Raises RequestError if they cannot be written."""
    from tuner.experiments import tables

    document = json.dumps(tables.document(reproduction), indent=1)
    _replace(reproduction, folder, "md", tables.markdown(reproduction).encode())
    _replace(reproduction, folder, "json", document.encode())


def _draw(reproduction: Reproduction, folder: Path) -> None:
    """Write the picture, once a run: drawing takes longer than a small kernel. Raises as `_write` does."""
    from tuner.experiments import plot

    if plot.available():
        _replace(reproduction, folder, "png", plot.png(reproduction))


def _replace(reproduction: Reproduction, folder: Path, suffix: str, data: bytes) -> None:
    file = folder / f"{reproduction.experiment.name}.{suffix}"
    with paths.writing(file, "name another folder with --output"):
        paths.replace(file, data)
