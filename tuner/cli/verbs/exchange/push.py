"""`tune push`: add verified records to a shared store."""

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import COMPLETE_KERNEL, JSON, RESULTS
from tuner.errors import RequestError
from tuner.quoting import shown


@click.command()
@click.argument("folder")
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=COMPLETE_KERNEL)
@RESULTS
@JSON
def command(folder: str, kernels: tuple[str, ...], results: Path | None, as_json: bool) -> None:
    """Add verified records of your store, and the logs of searches, to the shared store FOLDER.

    A shared store is a folder of files with checksums that any web server can offer, and that `tune pull` reads. Of two
    records of the same problem, it keeps the better one. Without KERNEL, all kernels of your store are pushed.

    Example: tune push /srv/www/tuned sgemm
    """
    from tuner.exchange.sharing import pushed

    if "://" in folder:
        raise RequestError(f"{shown(folder)}: is an address; name a folder, and copy it to where the server offers it")
    done = pushed.push(Path(folder), kernels, results)
    output.warn(done.problems)
    data = {**vars(done), "folder": str(done.folder)}
    left_out = "".join(f"; left out: {count} {reason}" for reason, count in done.left_out.items())
    output.answer(
        as_json,
        data,
        f"{output.counted(done.records, 'record')} and {output.counted(done.logs, 'log')} of "
        f"{output.counted(done.devices, 'device')} are new or better{left_out}\n"
        f"{done.folder}: {output.counted(done.files, 'file')}, {done.bytes:,} bytes",
    )
