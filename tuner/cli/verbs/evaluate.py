"""`tune evaluate`: one verdict for each of several kernels that somebody else wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import COMPLETE_KERNEL, DEVICES, JSON, SET, TYPES, Whole, with_kept_files
from tuner.measure.method import MOST_COMPARED_RUNS, TIMEOUT

if TYPE_CHECKING:
    from tuner.judging.verdict import CandidateVerdict, JudgedTimes


@click.command()
@click.argument("candidates", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--against",
    metavar="KERNEL",
    required=True,
    shell_complete=COMPLETE_KERNEL,
    help="The space that says what is computed.",
)
@click.option(
    "--sizes", "sizes", multiple=True, metavar="SIZE", help="A size, as of `tune KERNEL SIZE`; several times."
)
@click.option("--tune", type=Whole(1, 10_000), metavar="N", help="Try N configurations of each, and judge the fastest.")
@click.option(
    "--hidden", type=Whole(0, 100), metavar="N", default=3, show_default=True, help="Sizes that are not told."
)
@click.option(
    "--rounds", type=Whole(5, 1000), metavar="N", default=11, show_default=True, help="Timed runs at each size."
)
@click.option(
    "--verify",
    type=Whole(1, MOST_COMPARED_RUNS),
    metavar="N",
    help="Runs that are compared after those; by default 228, or as many as fit in 2 s.",
)
@click.option("--timeout", type=float, metavar="SECONDS", default=TIMEOUT, show_default=True, help="For a launch.")
@click.option(
    "--seed",
    type=Whole(0, 2**32 - 1),
    metavar="N",
    help="Of hidden sizes and inputs, drawn by default; keep it secret.",
)
@click.option("--sanitize", is_flag=True, help="Also launch each under compute-sanitizer, on CUDA.")
@DEVICES
@SET
@TYPES
@JSON
@with_kept_files
def command(candidates: tuple[Path, ...], as_json: bool, tune: int | None, **options: Any) -> int:
    """CandidateJudge CANDIDATES, files with the text of a kernel, against a space.

    Each gets one verdict: accepted, or refused with the reasons. Exit status 1 means that one is refused.

    Example: tune evaluate mine.c --against sgemm/01_host_blocked --sizes 256 --json
    """
    from tuner.judging import evaluation

    request = evaluation.Request(candidates, tune=tune or 0, **options)
    judged = evaluation.evaluated(request, output.say)
    output.answer(as_json, judged.to_json(), "\n".join(map(_text, judged.verdicts)))
    return 0 if judged.are_accepted else 1


def _text(verdict: CandidateVerdict) -> str:
    from tuner.space.texts import config_text, size_text

    lines = [f"{verdict.verdict}: {verdict.candidate}"]
    if verdict.config:
        lines[0] += f" with {config_text(verdict.config)}"
    for reason in verdict.reasons:
        at = f" at {size_text(reason.size)}" if reason.size else ""
        lines.append(f"  {reason.code}{at}: {output.first_lines(reason.message)}")
    lines += [f"  {_timing(times)}" for times in verdict.times]
    if verdict.errors is not None and verdict.right:
        errors = verdict.errors
        lines.append(f"  largest error {errors.worst:.2g} of {errors.bound:.2g} allowed, in {errors.where}")
    if verdict.bits_repeat is not None:
        lines.append(f"  bits {'repeat' if verdict.bits_repeat else 'vary'}; {verdict.runs} runs compared")
    if verdict.trusted_code_only:
        lines.append("  trusted code only: this machine does not let its process be kept apart")
    return "\n".join(lines)


def _timing(times: JudgedTimes) -> str:
    from tuner.space.texts import size_text

    low, middle, high = times.speedup
    library = f"; {times.library} takes {times.library_ms:.4g} ms" if times.library_ms is not None else ""
    return (
        f"{size_text(times.size)}: {times.time_ms:.4g} ms ({times.interval[0]:.4g} to {times.interval[1]:.4g}), "
        f"{times.decision}: {middle:.3g} times as fast as the space's own kernel ({low:.3g} to {high:.3g}){library}"
    )
