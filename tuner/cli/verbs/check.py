"""`tune check`: fail if a kernel has become slower than it was, wrong, or unable to run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner import paths
from tuner.cli import numbers, output
from tuner.cli.options import COMPLETE_KERNEL, DEVICE, JSON, RESULTS, check_file
from tuner.errors import OptionError, RequestError

if TYPE_CHECKING:
    from tuner.tuning.checking.checks import Check

JOB_SUMMARY = "GITHUB_STEP_SUMMARY"  # names the file to which a job of GitHub adds its summary


@click.command()
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=COMPLETE_KERNEL)
@click.option(
    "--against",
    metavar="REV|DIR",
    default="HEAD",
    show_default=True,
    help="A Git revision, or a folder of other records. A folder of that name comes first.",
)
@click.option(
    "--fail-above",
    "allowed",
    type=numbers.RATIO,
    metavar="RATIO",
    default=1.05,
    show_default=True,
    help="Fail if the time is certainly more than this many times the earlier one.",
)
@click.option(
    "--seconds",
    type=numbers.Real(1, 3600, "number of seconds"),
    metavar="S",
    default=60.0,
    show_default=True,
    help="The most seconds of runs for each record, while noise hides which is faster. On a processor, twelve "
    "processes of short runs take less; the least, four processes of five rounds, may take more.",
)
@DEVICE
@RESULTS
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Also write a JUnit file.")
@click.option(
    "--summary",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"Add a summary in Markdown to FILE; without this option, to the file that {JOB_SUMMARY} names.",
)
@JSON
def command(
    kernels: tuple[str, ...],
    against: str,
    allowed: float,
    seconds: float,
    device: str | None,
    results: Path | None,
    junit: Path | None,
    summary: Path | None,
    as_json: bool,
) -> int:
    """Compare the best of each record with the same kernel as it was, in runs that take turns.

    The best is verified and timed by the source as it is now, beside its best by the source of a Git revision, or
    beside the record of another store, and the vendor library. KERNEL is a name, a part of one, the path of a space
    file, a family such as `sgemm`, or a pattern such as 'sgemm/1*'. Without KERNEL, all kernels of your store are
    checked.

    Exit status: 1 if a kernel is certainly slower than --fail-above allows, gives wrong results, or does not run; 2 for
    a wrong request.

    Example: tune check sgemm/03_naive --against HEAD~1
    """
    from tuner.report import check_files
    from tuner.tuning.checking.checking import Checking, CheckRequest

    if not against:
        raise OptionError("'': empty; name a revision such as HEAD~1, or a folder of records", "against")
    if summary is None and (named := os.environ.get(JOB_SUMMARY)):
        summary = Path(named)
    for option, file in (("--junit", junit), ("--summary", summary)):
        if file is not None:
            check_file(option, file)
    request = CheckRequest(kernels, against, device, results, allowed, seconds)
    checks: list[Check] = []
    with Checking(request, output.say) as checking:
        records = "record" if checking.count == 1 else "records"
        output.say(f"checking {checking.count} {records} against {checking.label}")
        for check in checking.checks():
            checks.append(check)
            if not as_json:
                output.answer(False, None, _line(check, check_files.result(check)))
        label = checking.label
    if junit is not None:
        _write("--junit", junit, check_files.junit(checks, label), "w")
    if summary is not None:
        _write("--summary", summary, check_files.summary(checks, label, allowed), "a")
    data = {"against": label, "allowed": allowed, "checks": [check.to_json() for check in checks]}
    output.answer(as_json, data, check_files.totals(checks, allowed))
    if all(check.status == "not checked" for check in checks):
        raise RequestError("nothing was checked; correct what is said above, or remove these records from the store")
    return 1 if any(check.has_failed for check in checks) else 0


def _line(check: Check, result: str) -> str:
    at = f" at {check.problem}" if check.problem else ""
    more = f", {result}" if check.ratio is not None else f": {result}" if result else ""
    failed = "FAILED: " if check.has_failed else ""
    return f"{failed}{check.kernel}{at}: {check.status}{output.first_lines(more) if more else ''}"


def _write(option: str, file: Path, text: str, mode: str) -> None:
    with (
        paths.writing(f"{option} {file}", "name another place"),
        file.open(mode, encoding="utf-8", errors="replace") as opened,
    ):
        opened.write(text)
