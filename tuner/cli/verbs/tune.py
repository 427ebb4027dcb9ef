"""`tune KERNEL SIZE...`: search for the fastest configuration."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import numbers, output
from tuner.cli.options import (
    CLUSTER,
    COMPLETE_OBJECTIVE,
    COMPLETE_STRATEGY,
    DEVICES,
    JSON,
    KERNEL,
    RESULTS,
    SEED,
    SET,
    SIZE_LISTS,
    SIZES,
    TIMEOUT_OPTION,
    TYPES,
    VERBOSE,
    storage_option,
    with_kept_files,
)
from tuner.cli.screen.result import document, lines
from tuner.cli.verb_names import VERBS
from tuner.errors import EnvironmentTrouble, RequestError, SpaceError
from tuner.measure.method import (
    COMPARED_RUNS,
    COMPARED_SECONDS,
    MOST_COMPARED_RUNS,
    MOST_REPEATS,
    OBJECTIVES,
    STANDARD,
    Method,
    parse_objectives,
)
from tuner.quoting import quoted

if TYPE_CHECKING:
    from tuner.space.model import Space


@click.command("kernel", hidden=True)
@KERNEL
@SIZES
@SIZE_LISTS
@DEVICES
@SET
@TYPES
@click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=COMPLETE_STRATEGY,
    help="Search strategy; a wrong name lists all. If omitted, brute_force if the budget covers all configurations, "
    "else optuna.",
)
@click.option(
    "--budget",
    metavar="N|TIME",
    help="Number of configurations to try (100), time for the search without the finals (90s, 2m, 1h), or both "
    "(100,2m); all configurations if omitted.",
)
@SEED
@click.option(
    "--repeats",
    type=numbers.Whole(1, MOST_REPEATS),
    metavar="N",
    default=STANDARD.repeats,
    show_default=True,
    help="Timed runs per configuration.",
)
@TIMEOUT_OPTION
@click.option("--full", is_flag=True, help="Repeat slow configurations as often as fast ones.")
@click.option(
    "--as",
    "as_",
    metavar="NAME",
    help="How your program launches the kernel: isolated, behind a busy device (the default); in a CUDA graph; stream, "
    "back to back; eager, with the host's own cost; cold, with caches that other kernels have filled.",
)
@click.option(
    "--flush", is_flag=True, help="Another name of --as cold: flush the device's caches before each timed run."
)
@click.option(
    "--objective",
    default=STANDARD.objectives[0],
    show_default=True,
    metavar="NAME[,NAME]",
    shell_complete=COMPLETE_OBJECTIVE,
    help=f"Objective to minimise: {', '.join(OBJECTIVES)}. edp is energy times time. For a trade-off, name several: "
    "time,registers.",
)
@click.option(
    "--sustained",
    is_flag=True,
    help="At the end, run the best and the vendor's library back to back for seconds; store time, clock and power.",
)
@click.option(
    "--verify",
    type=numbers.Whole(COMPARED_RUNS, MOST_COMPARED_RUNS),
    metavar="N",
    help=f"Compare N runs of the best at the end, however long that takes; if omitted, {COMPARED_RUNS}, within "
    f"{COMPARED_SECONDS:g} s.",
)
@click.option(
    "--same-bits-as",
    metavar="default|record|CONFIG",
    help="Only configurations whose outputs have the same bits as the default's, the stored record's, or those of a "
    "configuration such as 'block_size_x=32 tile_size_x=4'.",
)
@click.option("--no-log", is_flag=True, help="Keep no log of what the search measures for other searches.")
@click.option("--fresh", is_flag=True, help="Ignore earlier trials and measure again.")
@CLUSTER
@storage_option("Database in which several machines share one study.")
@RESULTS
@VERBOSE
@JSON
@with_kept_files
def command(
    kernel: str,
    sizes: tuple[str, ...],
    size_lists: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    repeats: int,
    as_: str | None,
    flush: bool,
    objective: str,
    full: bool,
    no_log: bool,
    **request: Any,
) -> int:
    """Find the fastest configuration of KERNEL at SIZE, verify it and store it.

    SIZE may be omitted if the file gives every size. With several sizes, each has the whole budget. A family, such as
    sgemm, is tuned kernel by kernel; kernels that are far behind drop out. Every configuration is verified before it is
    timed. An interrupted search continues when the same command is run again.

    Example: tune sgemm/07_tiled_1xn 1024 --device opencl --budget 2m
    """
    from tuner import devices
    from tuner.catalog import catalog
    from tuner.space import deployments

    spaces = _spaces(kernel)
    if request["cluster"] is None:
        devices.count_ahead(spaces[0], request["device"])
    request["log"] = not no_log
    method = Method(repeats, deployments.parse(as_, flush), parse_objectives(objective), race=not full)
    if len(spaces) > 1 or size_lists or len(sizes) > 1 or ":" in "".join(sizes):
        from tuner.cli import several

        return several.tune(kernel, sizes, size_lists, as_json, verbose, method=method, **request)
    size = sizes[0] if sizes else None
    sizes_of_kernel = catalog.load(kernel).operation.sizes if size is None else {}
    if missing := [name for name, default in sizes_of_kernel.items() if default is None]:
        example = "x".join(["1024"] * len(missing))
        names = " x ".join(missing) + " or one number for all of them" * (len(missing) > 1)
        raise RequestError(f"tune {kernel}: SIZE is missing, {names}, as in `tune {kernel} {example}`")
    from tuner.cli.screen import logs, progress

    with progress.displayed(request["results"]) as listener, logs.printed(verbose, listener.noted):
        listener.begun("loading the tuner")
        from tuner.tuning.driver import tune
        from tuner.tuning.request import TuningRequest

        result = tune(TuningRequest(kernel, size, method=method, **request), listener)
    output.answer(as_json, document(result), "\n".join(lines(result)))
    return 1 if result.record is None else 0


def _spaces(kernel: str) -> Sequence[Space]:
    """The spaces of a kernel or a family. Raises RequestError, which names a verb or a family that is spelled alike."""
    from tuner.catalog import kernel_lists
    from tuner.families import family

    try:
        return family.find(kernel).spaces
    except (EnvironmentTrouble, SpaceError):  # of a file that was found
        raise
    except RequestError as error:
        families = {entry.name.rpartition("/")[0] for entry in (*kernel_lists.shipped(), *kernel_lists.own()[0])}
        near = next(iter(difflib.get_close_matches(kernel, [*VERBS, *families], n=1)), None)
        if near in VERBS:
            raise RequestError(
                f"{quoted(kernel)} is neither a verb nor a kernel; did you mean `tune {near}`?"
            ) from None
        if near and near != kernel:
            raise RequestError(f"{error}; or did you mean the family {near}?") from None
        raise
