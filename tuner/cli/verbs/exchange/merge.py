"""`tune merge`: merge the stores of several machines."""

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import JSON, RESULTS


@click.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@RESULTS
@JSON
def command(sources: tuple[Path, ...], results: Path | None, as_json: bool) -> None:
    """Merge other stores into yours.

    SOURCES are folders or files of records, which are not changed. Of two records of the same problem on the same
    device, a verified one is kept before an unverified one, else the faster one. Ceilings in a folder, as measured by
    `tune devices --measure`, are merged too; the latest are kept. So are the logs of searches.

    Example: tune merge node1/results node2/results --results results
    """
    from tuner.store import merge
    from tuner.tuning.recordings import logs

    summary = merge.merge(sources, results)
    count, problems = logs.merge(sources, results)
    output.warn([*summary.problems, *problems])
    data = {
        "files": summary.files,
        "records": summary.records,
        "written": summary.written,
        "ceilings": summary.ceilings,
        "logs": count,
    }
    more = f"; {count} {'log has' if count == 1 else 'logs have'} more" if count else ""
    output.answer(as_json, data, f"{summary}{more}")
