"""`tune run`: the stored best launched, verified and timed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from tuner.cli import output
from tuner.cli.options import DEVICE, JSON, KERNEL, RESULTS, SET, SIZE, warn


@click.command()
@KERNEL
@SIZE
@DEVICE
@SET
@RESULTS
@JSON
def command(kernel: str, size: str, as_json: bool, **rest: Any) -> int:
    """Launch the stored best of KERNEL at SIZE on random data; verify it and time it. One that hangs is stopped after
    ten minutes.

    Example: tune run sgemm/07_tiled_1xn 4096 --set alpha=2
    """
    from tuner.tuning import rerun

    done = rerun.run(kernel, size, **rest)
    warn(done.found.notes)
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
