"""`tune cover`: the fewest configurations that serve many sizes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import DEVICES, JSON, KERNEL, RESULTS, SEED, SET, SIZES_HELP, TYPES, VERBOSE, storage_option
from tuner.errors import RequestError
from tuner.measure.method import TIMEOUT
from tuner.quoting import quoted

if TYPE_CHECKING:
    from tuner.space.size_lists import WeightedSize
    from tuner.tuning.several.cover import Cover, Times


@click.command()
@KERNEL
@click.argument("sizes", nargs=-1, metavar="[SIZE]...")
@click.option("--sizes", "size_lists", multiple=True, metavar="FILE|GRID", help=SIZES_HELP)
@click.option(
    "--within",
    type=click.FloatRange(1.0, 10.0, min_open=True),
    default=1.03,
    show_default=True,
    help="Times the best known that a size may take.",
)
@click.option(
    "--times", is_flag=True, help="Only measure what is known at every size, beside the library: for the look-up."
)
@click.option(
    "--part", metavar="N/OF", help="Only the N-th of OF parts of the sizes: 1/4. Several commands share them."
)
@click.option("--budget", default="30m", show_default=True, metavar="TIME", help="Time for all of it: 90s, 2m, 1h.")
@DEVICES
@SET
@TYPES
@SEED
@click.option("--timeout", type=float, default=TIMEOUT, show_default=True, help="Time limit per configuration, in s.")
@storage_option("Database in which several machines share the studies.")
@RESULTS
@VERBOSE
@JSON
def command(
    kernel: str,
    sizes: tuple[str, ...],
    size_lists: tuple[str, ...],
    within: float,
    times: bool,
    part: str | None,
    budget: str,
    device: str | None,
    results: Path | None,
    verbose: bool,
    as_json: bool,
    **request: Any,
) -> int:
    """Find the fewest configurations of KERNEL, or of a family, that serve many sizes.

    It tunes at some of the sizes, measures every winner at every size, and chooses so that each size is within the
    limit of the best known there. Each size gets a record. An interrupted cover continues when the same command is run
    again.

    With --times it neither searches nor records: it takes the fewest configurations that serve all sizes of the records
    and tables that there are, measures them at these sizes, which may be hundreds, and writes the times into tables.

    Example: tune cover sgemm --sizes 512:4096*2 --sizes M=1:128*4,N=4096,K=4096 --budget 10m
    """
    from tuner.cli import several
    from tuner.cli.screen import logs, progress
    from tuner.search.budget import Budget
    from tuner.space import chosen_types
    from tuner.tuning.exploration import Quiet
    from tuner.tuning.request import TuningRequest
    from tuner.tuning.several.cover import CoverRequest, cover, measure_times
    from tuner.tuning.several.problems import members

    if math.isnan(within):  # which no range excludes
        raise RequestError("--within nan: write a number above 1, 10 at most, such as 1.03")
    seconds = Budget.parse_time(budget)
    spaces, device, notes = members(kernel, device)
    op = spaces[0].operation
    problems = _part(several.sizes_of(sizes, size_lists, op, chosen_types.parse(request["types"], op)), part)
    template = TuningRequest(kernel, None, device=device, results=results, **request)
    several.begin(template, spaces, problems, notes)
    asked = CoverRequest(template, spaces, problems, within, seconds)
    with progress.displayed(results) as listener, logs.printed(verbose, listener.noted):
        if times:
            told = measure_times(asked, Quiet(listener.noted))
        else:
            found = cover(asked, Quiet(listener.noted))
    if times:
        output.answer(as_json, vars(told), _told(told, len(problems)))
        return 0 if told.measured == told.pairs else 1
    output.answer(as_json, _document(found), _text(found, within))
    return 0 if found.is_complete else 1


def _part(sizes: list[WeightedSize], part: str | None) -> list[WeightedSize]:
    """The sizes of a part such as `2/8`. Raises RequestError."""
    if part is None:
        return sizes
    number, _, count = part.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise RequestError(f"--part {quoted(part)}: write which of how many parts, such as 2/8")
    if not (chosen := sizes[int(number) - 1 :: int(count)]):
        raise RequestError(f"--part {quoted(part)}: there are {len(sizes)} sizes; write fewer parts")
    return chosen


def _told(told: Times, sizes: int) -> str:
    """What came of measuring times alone."""
    return (
        f"measured {told.measured} of {told.pairs} pairs of a size and one of {told.winners} winners at {told.sizes} "
        f"of {sizes} sizes, and the library at {told.with_library}"
    )


def _document(found: Cover) -> dict[str, Any]:
    numbers = {pair: number for number, pair in enumerate(found.chosen, 1)}
    return {
        "chosen": [
            {"kernel": pair[0], "config": builds[0].config, "builds": len(builds)}
            for pair, builds in found.chosen.items()
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
            for served in found.served
        ],
        "unserved": [size.sizes for size in found.unserved],
        "invalid": [size.sizes for size in found.invalid],
        "tuned": found.tuned,
        "winners": found.winners,
        "pairs": found.pairs,
        "measured": found.measured,
    }


def _text(found: Cover, within: float) -> str:
    """The builds, how each size is served, and what there was no time for."""
    from tuner.space.texts import config_text, short_size

    numbers = {pair: number for number, pair in enumerate(found.chosen, 1)}
    total = len(found.served) + len(found.unserved) + len(found.invalid)
    worst = max((served.regret for served in found.served), default=0.0)
    near = sum(served.regret <= within - 1 for served in found.served)
    serving = "1 configuration serves" if len(numbers) == 1 else f"{len(numbers)} configurations serve"
    lines = [
        f"{serving} {near} of {total} sizes within {within - 1:.1%}; at worst {worst:+.1%}",
        *(
            f"{numbers[pair]}: {pair[0]} {config_text(builds[0].config)}"
            + (f" ({len(builds)} builds)" if len(builds) > 1 else "")
            for pair, builds in found.chosen.items()
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
        for s in found.served
    ]
    if rows:
        lines.append(output.table(["size", "by", "ms", "best known", "regret", "of"], rows))
    lines.append(
        f"tuned at {found.tuned} of {total} sizes; measured {found.measured} of {found.pairs} pairs of a size and one "
        f"of {found.winners} winners"
    )
    unrecorded = [short_size(served.size.sizes) for served in found.served if served.result is None]
    for what, names in (
        ("no record, for the time was over", unrecorded),
        ("not served", [short_size(size.sizes) for size in found.unserved]),
    ):
        if names:
            lines.append(f"{what}: {', '.join(names)}; a longer --budget goes on from here")
    if found.invalid:
        names = [short_size(size.sizes) for size in found.invalid]
        lines.append(f"no configuration is valid: {', '.join(names)}; `tune validate` shows the restrictions")
    return "\n".join(lines)
