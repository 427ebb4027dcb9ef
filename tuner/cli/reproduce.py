"""`tune reproduce`: published tables measured here, printed, and kept as Markdown, JSON and a picture."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import DEVICE, INTERRUPTS, JSON, RESULTS, check_writable
from tuner.errors import RequestError

if TYPE_CHECKING:
    from tuner.cli.progress import TuningProgress
    from tuner.experiments.results import Reproduction


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="The experiments that ship.")
@DEVICE
@click.option(
    "--budget",
    metavar="N|TIME",
    default="100",
    show_default=True,
    help="For each search, where the store has no record of the size: configurations, or a time such as 2m.",
)
@click.option("--no-tune", is_flag=True, help="Take what the store has, and search for nothing.")
@click.option("--small", is_flag=True, help="At small sizes, for a quick look; OpenCL on a processor always is.")
@click.option(
    "--timeout", type=click.FloatRange(1, 86_400), help="Seconds a configuration; 60 if omitted, and 1800 on the host."
)
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    default="reproduced",
    show_default=True,
    help="Where NAME.md, NAME.json and NAME.png are written.",
)
@RESULTS
@JSON
def command(name: str | None, listing: bool, as_json: bool, folder: Path, no_tune: bool, **rest: Any) -> int:
    """Measure a published table on the device at hand: with its own constants, and tuned.

    NAME is one of --list, a unique part of one, or the path of a YAML file. Files are written after each stage.

    Example: tune reproduce gemm-from-scratch --device cuda
    """
    from tuner.experiments import reading

    if name is None or listing:
        return _list(as_json)
    experiment = reading.find(name)
    from tuner.experiments import plot, running, tables
    from tuner.experiments.stage import ReproductionRequest

    check_writable("--output", folder)
    if not plot.available():
        output.say(plot.MISSING)
    files = f"{folder / experiment.name}.md, .json{', .png' if plot.available() else ''}"
    done: Reproduction | None = None
    try:
        for done in running.run(experiment, ReproductionRequest(tune=not no_tune, **rest), _Terminal()):
            _write(done, folder)
    except INTERRUPTS:
        output.say(f"interrupted; what was measured is kept: {files}" if done else "interrupted: nothing was measured")
        raise
    output.say(files)
    assert done is not None
    if as_json:
        output.document(tables.document(done))
    else:
        _show(done)
    failed = any(measured.failed for one in done.rows for measured in (one.constants, one.tuned))
    if not any(one.is_measured for one in done.rows):
        output.say(f"{experiment.name}: none of {len(done.rows)} rows could be measured")
        return 1
    return 1 if failed else 0


class _Terminal:
    """Who is told what is measured."""

    def say(self, text: str) -> None:
        output.say(text)

    def listener(self) -> contextlib.closing[TuningProgress]:
        from tuner.cli.progress import TuningProgress

        return contextlib.closing(TuningProgress())


def _show(done: Reproduction) -> None:
    """The tables on standard output, as wide as they are where that is no terminal."""
    from rich.console import Console
    from rich.table import Table

    from tuner.experiments import tables

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=250)
    console.print(paths.plain(tables.head(done)), soft_wrap=True)
    for number, rows in enumerate(done.tables):
        header, cells = tables.columns(rows)
        table = Table(title=paths.plain(tables.title(done, number)), title_justify="left", title_style="bold")
        for position, name in enumerate(header):
            table.add_column(name, justify="right" if position else "left", overflow="fold")
        for row in cells:
            table.add_row(*(paths.plain(cell) for cell in row))
        console.print(table)
        for line in tables.lines(done, number):
            console.print(paths.plain(line), soft_wrap=True)
    console.print(paths.plain(tables.legend(done)), soft_wrap=True)


def _list(as_json: bool) -> int:
    from tuner.experiments import reading

    found = [reading.find(name) for name in reading.names()]
    if as_json:
        keys = ("name", "title", "author", "where", "device")
        output.document([{key: getattr(one, key) for key in keys} for one in found])
    else:
        rows = [[one.name, one.title, one.device, sum(len(table.rows) for table in one.tables)] for one in found]
        output.table(["name", "title", "published on", "rows"], rows)
    return 0


def _write(done: Reproduction, folder: Path) -> None:
    """The files, as far as the experiment has come."""
    from tuner.experiments import plot, tables

    name = done.experiment.name
    files = {"md": tables.markdown(done).encode(), "json": json.dumps(tables.document(done), indent=1).encode()}
    if plot.available():
        files["png"] = plot.png(done)
    try:
        for suffix, data in files.items():
            paths.replace(folder / f"{name}.{suffix}", data)
    except OSError as error:
        raise RequestError(f"{folder / name}: cannot be written: {error.strerror}") from None
