"""`tune report KERNEL SIZE`: the study of one kernel as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli import output
from tuner.cli.options import check_writable, write_figure
from tuner.errors import RequestError

if TYPE_CHECKING:
    from tuner.report.subject import Subject


def write(
    kernel: str | None,
    recording: Path | None,
    device: str | None,
    file: Path | None,
    results: Path | None,
    as_json: bool,
    *,
    size: str | None,
    options: dict[str, float],
    types: dict[str, str],
    storage: str | None,
    measure: bool,
) -> None:
    """Write the page, or print its data."""
    from tuner.report import study_page, subject, vega
    from tuner.report.findings import Findings
    from tuner.space.texts import short_size

    if recording is not None:
        if kernel is not None or storage is not None or measure:
            raise RequestError(f"--recording {recording}: is all that is reported on; leave out KERNEL and the rest")
        found = subject.of_recording(recording, results)
        stem = recording.name.split(".")[0]
    else:
        from tuner.exchange.target import Problem
        from tuner.space import catalog

        problem = Problem.parse(catalog.load(kernel or ""), size, options, types, results)
        found = subject.of_problem(problem, device, storage)
        stem = "-".join([problem.space.name.rpartition("/")[2], short_size(problem.sizes), *problem.types.values()])
    if not as_json or file is not None:
        file = file or Path(f"{stem}.html")
        vega.check()
        vega.suffix_of(file)
        check_writable("--output", file.parent, file.name)
    if measure:
        found = _measured(found, storage)
    findings = Findings.of(found)
    if file is not None:
        suffix = vega.suffix_of(file)
        if suffix == ".html":
            write_figure(file, study_page.html(findings).encode())
        else:
            write_figure(file, study_page.picture(findings, suffix))
    lines = [f"{found.kernel} at {found.problem_text} on {found.recording.device}", *study_page.lead(findings)]
    output.answer(as_json, {"file": file and str(file), **findings.to_json()}, "\n".join([*lines, str(file)]))


def _measured(found: Subject, storage: str | None) -> Subject:
    """The same with the neighbours of the best that had no time."""
    from tuner.cli import progress
    from tuner.report import measuring

    with progress.shown() as listener:
        return measuring.neighbours(found, storage, listener)
