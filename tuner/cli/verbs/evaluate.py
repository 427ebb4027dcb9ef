"""`tune evaluate`: one verdict for each of several kernels that somebody else wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import numbers, output
from tuner.cli.options import COMPLETE_KERNEL, DEVICES, JSON, SET, TYPES, check_file, with_kept_files
from tuner.errors import RequestError
from tuner.measure.method import MOST_COMPARED_RUNS, TIMEOUT

if TYPE_CHECKING:
    from tuner.judging.verdict import CandidateVerdict, JudgedTimes


@click.command()
@click.argument("candidates", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--against",
    metavar="KERNEL",
    shell_complete=COMPLETE_KERNEL,
    help="The space that says what is computed.",
)
@click.option(
    "--sizes", "sizes", multiple=True, metavar="SIZE", help="A size, as of `tune KERNEL SIZE`; several times."
)
@click.option(
    "--tune", type=numbers.Whole(1, 10_000), metavar="N", help="Try N configurations of each, and judge the fastest."
)
@click.option(
    "--hidden", type=numbers.Whole(0, 100), metavar="N", default=3, show_default=True, help="Sizes that are not told."
)
@click.option(
    "--rounds", type=numbers.Whole(5, 1000), metavar="N", default=11, show_default=True, help="Timed runs at each size."
)
@click.option(
    "--verify",
    type=numbers.Whole(1, MOST_COMPARED_RUNS),
    metavar="N",
    help="Runs that are compared after those; by default 228, or as many as fit in 2 s.",
)
@click.option(
    "--timeout", type=numbers.TIMEOUT, metavar="SECONDS", default=TIMEOUT, show_default=True, help="For a launch."
)
@click.option(
    "--seed",
    type=numbers.Whole(0, 2**32 - 1),
    metavar="N",
    help="Of hidden sizes and inputs, drawn by default; keep it secret.",
)
@click.option("--sanitize", is_flag=True, help="Also launch each under compute-sanitizer, on CUDA.")
@click.option("--receipt", type=click.Path(path_type=Path), metavar="FILE", help="Write what the verdicts rest on.")
@click.option(
    "--verify-receipt",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Judge again what a receipt names, with its seed; tell what differs.",
)
@DEVICES
@SET
@TYPES
@JSON
@with_kept_files
def command(
    candidates: tuple[Path, ...],
    as_json: bool,
    against: str | None,
    tune: int | None,
    receipt: Path | None,
    verify_receipt: Path | None,
    **options: Any,
) -> int:
    """Judge CANDIDATES, files with the text of a kernel, against a space.

    Each gets one verdict: accepted, or refused with the reasons. Exit status 1 means that one is refused, or that a
    receipt's verdicts were not found again.

    Example: tune evaluate mine.c --against sgemm/01_host_blocked --sizes 256 --json
    """
    from tuner.judging import evaluation
    from tuner.judging import receipt as receipts

    if receipt is not None:
        check_file("--receipt", receipt)
    if verify_receipt is not None:
        if candidates or against is not None:
            raise RequestError("--verify-receipt: the receipt names candidates and space; leave them out")
        judged, differing = receipts.repeated(receipts.read(verify_receipt), options["device"], output.say)
        text = "\n".join(differing) or "the same verdicts again"
        output.answer(as_json, {"differences": differing, "now": judged.receipt}, text)
    else:
        if not candidates or against is None:
            what = "CANDIDATES: name a file with the text of a kernel" if against else "--against: name a space"
            raise RequestError(f"{what}; see `tune evaluate --help`")
        judged = evaluation.evaluated(evaluation.Request(candidates, against, tune=tune or 0, **options), output.say)
        differing = []
        output.answer(as_json, judged.receipt, "\n".join(map(_text, judged.verdicts)))
    if receipt is not None:
        receipts.write(receipt, judged)
    return int(bool(differing)) if verify_receipt is not None else int(not judged.are_accepted)


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
