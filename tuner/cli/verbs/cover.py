"""`tune cover`: find the fewest configurations that serve many sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import numbers, output
from tuner.cli.options import (
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
from tuner.errors import RequestError
from tuner.measure.method import Method
from tuner.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.space.model import Space
    from tuner.space.size_lists import WeightedSize
    from tuner.tuning.several.cover import Cover, Times


@click.command()
@KERNEL
@SIZES
@SIZE_LISTS
@click.option(
    "--within",
    type=numbers.Real(1, 10, example="1.03", is_above=True),
    default=1.03,
    show_default=True,
    help="Largest time at any size, as a multiple of the best known time there.",
)
@click.option(
    "--times",
    is_flag=True,
    help="Do not search; measure known configurations, and the vendor's library, at every size, for predictions.",
)
@click.option(
    "--as",
    "as_",
    metavar="NAME",
    help="With --times: how programs launch the kernels, as in `tune --as`. Each way has tables of its own.",
)
@click.option(
    "--part",
    metavar="N/OF",
    help="Only part N of OF parts of the sizes, such as 1/4: for several commands at once.",
)
@click.option("--budget", default="30m", show_default=True, metavar="TIME", help="Time for the whole run: 90s, 2m, 1h.")
@DEVICES
@SET
@TYPES
@SEED
@TIMEOUT_OPTION
@storage_option("Database in which several machines share the studies.")
@RESULTS
@VERBOSE
@JSON
@with_kept_files
def command(
    kernel: str,
    sizes: tuple[str, ...],
    size_lists: tuple[str, ...],
    within: float,
    times: bool,
    as_: str | None,
    part: str | None,
    budget: str,
    device: str | None,
    results: Path | None,
    verbose: bool,
    as_json: bool,
    **request: Any,
) -> int:
    """Find the fewest configurations of KERNEL, or of a family, that serve many sizes.

    It tunes at some of the sizes, measures every winner at every size, and chooses configurations so that each size is
    within the limit (--within) of its best known time. Each size gets a record. An interrupted cover continues when the
    same command is run again.

    With --times it neither searches nor stores records. It chooses the fewest configurations that serve all sizes of
    the stored records and time tables, measures them at the given sizes, which may be hundreds, and writes the times
    into the time tables.

    Example: tune cover sgemm --sizes 512:4096*2 --sizes M=1:128*4,N=4096,K=4096 --budget 10m
    """
    from tuner.cli import several
    from tuner.cli.screen import logs, progress
    from tuner.search.budget import Budget
    from tuner.space import chosen_types, deployments
    from tuner.tuning.progress import Quiet
    from tuner.tuning.request import TuningRequest
    from tuner.tuning.several.cover import CoverRequest, cover, measure_times
    from tuner.tuning.several.problems import members

    if as_ is not None and not times:
        raise RequestError(f"--as {quoted(as_)}: only with --times; `tune KERNEL SIZE --as NAME` tunes for it")
    method = Method(deployment=deployments.parse(as_))
    seconds = Budget.parse_time(budget)
    found, device, notes = members(kernel, device)
    spaces = _of_any_size(found, notes)
    op = spaces[0].operation
    problems = _part(several.sizes_of(sizes, size_lists, op, chosen_types.parse(request["types"], op)), part)
    template = TuningRequest(kernel, None, device=device, results=results, method=method, **request)
    several.begin(template, spaces, problems, notes)
    cover_request = CoverRequest(template, spaces, problems, within, seconds)
    with progress.displayed(results) as listener, logs.printed(verbose, listener.noted):
        if times:
            timed = measure_times(cover_request, Quiet(listener.noted))
        else:
            result = cover(cover_request, Quiet(listener.noted))
    if times:
        output.answer(as_json, vars(timed), _times_text(timed, len(problems)))
        return 0 if timed.measured == timed.pairs else 1
    output.answer(as_json, _document(result), _text(result, within))
    return 0 if result.is_complete else 1


def _of_any_size(spaces: Sequence[Space], notes: list[str]) -> list[Space]:
    """The spaces that may serve other sizes; each other one is noted. Raises RequestError if there is none."""
    of_library = [space.name for space in spaces if space.is_of_library]
    hint = "the numbers of its algorithms are of one size; `tune KERNEL --sizes FILE` tunes it at each"
    notes += [f"{name} is left out: {hint}" for name in of_library]
    if len(of_library) == len(spaces):
        raise RequestError(f"{of_library[0]}: serves no other size: {hint}")
    return [space for space in spaces if not space.is_of_library]


def _part(sizes: list[WeightedSize], part: str | None) -> list[WeightedSize]:
    """The sizes of a part such as `2/8`. Raises RequestError."""
    if part is None:
        return sizes
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise RequestError(f"--part {quoted(part)}: write N/OF, such as 2/8 for the second of 8 parts")
    if not (chosen := sizes[int(number) - 1 :: int(count)]):
        raise RequestError(f"--part {quoted(part)}: there are {len(sizes)} sizes; write fewer parts")
    return chosen


def _times_text(timed: Times, sizes: int) -> str:
    """The line that a run with --times prints."""
    return (
        f"{timed.winners} winners, {timed.sizes} of {sizes} sizes: measured {timed.measured} of {timed.pairs} "
        f"(winner, size) pairs, and the library at {timed.with_library} sizes"
        + ("; a longer --budget measures more" if timed.measured < timed.pairs else "")
    )


def _document(result: Cover) -> dict[str, Any]:
    """A cover as JSON data."""
    numbers = {pair: number for number, pair in enumerate(result.chosen, 1)}
    return {
        "chosen": [
            {"kernel": pair[0], "config": builds[0].config, "builds": len(builds)}
            for pair, builds in result.chosen.items()
        ],
        "sizes": [
            {
                "size": served.size.sizes,
                "chosen": numbers[served.build.pair],
                "kernel": served.build.pair[0],
                "time_ms": served.time_ms,
                "best_ms": served.best_ms,
                "best": {"kernel": served.best.pair[0], "config": served.best.config},
                "regret": served.regret,
                "recorded": served.result is not None and served.result.record is not None,
                "stored": served.result is not None and served.result.stored,
            }
            for served in result.served
        ],
        "unserved": [size.sizes for size in result.unserved],
        "invalid": [size.sizes for size in result.invalid],
        "tuned": result.tuned,
        "winners": result.winners,
        "pairs": result.pairs,
        "measured": result.measured,
    }


def _text(result: Cover, within: float) -> str:
    """The chosen configurations, the table of sizes, and the sizes that lack a record or a valid configuration."""
    from tuner.space.texts import config_text, short_size

    numbers = {pair: number for number, pair in enumerate(result.chosen, 1)}
    total = len(result.served) + len(result.unserved) + len(result.invalid)
    worst = max((served.regret for served in result.served), default=0.0)
    near = sum(served.regret <= within - 1 for served in result.served)
    serving = "1 configuration serves" if len(numbers) == 1 else f"{len(numbers)} configurations serve"
    lines = [
        f"{serving} {near} of {total} sizes within {within - 1:.1%}; at worst {worst:+.1%}",
        *(
            f"{numbers[pair]}: {pair[0]} {config_text(builds[0].config)}"
            + (f" ({len(builds)} builds)" if len(builds) > 1 else "")
            for pair, builds in result.chosen.items()
        ),
    ]
    rows = [
        [
            short_size(s.size.sizes),
            numbers[s.build.pair],
            f"{s.time_ms:.4g}",
            f"{s.best_ms:.4g}",
            f"{s.regret:+.1%}",
            s.best.pair[0],
        ]
        for s in result.served
    ]
    if rows:
        lines.append(output.table(["size", "served by", "ms", "best known ms", "regret", "best kernel"], rows))
    lines.append(
        f"tuned at {result.tuned} of {total} sizes: {result.winners} winners; measured {result.measured} of "
        f"{result.pairs} (winner, size) pairs"
    )
    unrecorded = [short_size(served.size.sizes) for served in result.served if served.result is None]
    for lack, names in (
        ("no record, out of time", unrecorded),
        ("not served", [short_size(size.sizes) for size in result.unserved]),
    ):
        if names:
            lines.append(f"{lack}: {', '.join(names)}; run again with a longer --budget to continue")
    if result.invalid:
        names = [short_size(size.sizes) for size in result.invalid]
        lines.append(f"no valid configuration: {', '.join(names)}; `tune validate` shows why")
    return "\n".join(lines)
