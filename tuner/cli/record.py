"""`tune record`: every configuration measured, for strategies to be tried on."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import DEVICES, JSON, KERNEL, RESULTS, SET, SIZE, check_writable


@click.command()
@KERNEL
@SIZE
@DEVICES
@SET
@click.option("--output", "path", type=click.Path(path_type=Path), metavar="FILE", help="A .json or .json.gz file.")
@RESULTS
@JSON
def command(
    kernel: str,
    size: str,
    device: str | None,
    options: dict[str, float],
    path: Path | None,
    results: Path | None,
    as_json: bool,
) -> int:
    """Measure every valid configuration of KERNEL at SIZE, all repeats of each, and write a Kernel Tuner cache.

    Example: tune record sgemm/07_tiled_1xn 4096 --output 07_tiled_1xn.json.gz
    """
    from tuner.cli import progress
    from tuner.exchange import recording
    from tuner.measure.method import Method
    from tuner.space import catalog
    from tuner.tuning.driver import TuningRequest, tune

    space = catalog.load(kernel)
    if path is not None:
        check_writable("--output", path.parent)
    request = TuningRequest(kernel, size, device, options, "brute_force", method=Method(race=False), results=results)
    with progress.shown() as listener:
        result = tune(request, listener)
    recorded = recording.of_trials(space, result.sizes, result.device.name, result.trials)
    path = path or Path(f"{space.name.rpartition('/')[2]}-{size}-{result.device.name}.json.gz".replace(" ", "_"))
    recording.write(path, recorded)
    if as_json:
        output.document({"file": str(path), "configurations": len(recorded.entries), "failed": result.failed})
    else:
        click.echo(f"{path}: {len(recorded.entries)} configurations, {sum(result.failed.values())} failed")
    return 0
