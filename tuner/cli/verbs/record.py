"""`tune record`: measure a whole space and write a recording, on which strategies can be compared."""

from pathlib import Path
from typing import Any

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import DEVICES, JSON, KERNEL, RESULTS, SET, SIZE, TYPES, VERBOSE, check_file, with_kept_files


@click.command()
@KERNEL
@SIZE
@DEVICES
@SET
@TYPES
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to write, .json or .json.gz; named after the kernel, its problem and the device if omitted.",
)
@RESULTS
@VERBOSE
@JSON
@with_kept_files
def command(kernel: str, size: str | None, path: Path | None, verbose: bool, as_json: bool, **request: Any) -> None:
    """Measure every valid configuration of KERNEL at SIZE, and write a recording.

    Every configuration is timed with all repeats. The recording is a Kernel Tuner cache file, which `tune replay`
    reads. A T4 metadata file beside it says where it comes from.

    Example: tune record sgemm/07_tiled_1xn 4096 --output 07_tiled_1xn.json.gz
    """
    from tuner.catalog import catalog
    from tuner.cli.screen import logs, progress
    from tuner.measure.method import Method

    space = catalog.load(kernel)
    if path is not None:
        check_file("--output", path)
    with progress.displayed(request["results"]) as listener, logs.printed(verbose, listener.noted):
        listener.begun("loading the tuner")
        from tuner.exchange.exports.target import Problem
        from tuner.exchange.interop import t4
        from tuner.tuning.driver import tune
        from tuner.tuning.recordings import recording as recordings
        from tuner.tuning.request import TuningRequest

        method = Method(race=False)
        result = tune(TuningRequest(kernel, size, strategy="brute_force", method=method, **request), listener)
    problem_of_run = result.sizes, result.types, request["options"], result.device.name
    recording = recordings.of_trials(space, *problem_of_run, result.trials, result.device.conditions)
    problem = Problem(space, result.sizes, result.options, result.types)
    path = path or Path(f"{problem.file_name}-{result.device.name}.json.gz".replace(" ", "_"))
    with paths.writing(path, "name another file with --output"):
        recordings.write(path, recording)
    about = t4.describe(path, recording, result.device.kind, result.device.architecture, result.device.toolchain)
    count = len(recording.entries)
    failed = {reason: number for reason, (number, _) in result.failed.items()}
    data = {"file": str(path), "metadata": str(about), "configurations": count, "failed": failed}
    data["verified"] = space.operation.reference.kind
    doubt = "; unverified" if recording.is_unverified else ""
    output.answer(as_json, data, f"{path}: {count} configurations, {sum(failed.values())} failed{doubt}")
