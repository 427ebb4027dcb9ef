"""`tune report KERNEL SIZE`: the study of one kernel as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli import output
from tuner.cli.options import check_file, write_figure
from tuner.cli.screen import progress
from tuner.errors import RequestError
from tuner.quoting import shown

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
    """Write the page and print its first lines, or print its data. Without vl-convert there are the lines alone, unless
    `file` names a page."""
    from tuner.report.pages import vega

    suffix = vega.suffix_of(file) if file is not None else ".html"
    if file is not None:
        vega.check()
    if recording is not None:
        others: dict[str, object] = {
            "KERNEL": kernel, "--device": device, "--storage": storage, "--measure": measure, "--set": options,
            "--type": types,
        }  # fmt: skip
        if given := [name for name, value in others.items() if value]:
            raise RequestError(
                f"--recording {shown(recording)}: is all that is reported on; leave out {' and '.join(given)}"
            )
        from tuner.report import subject

        found = subject.of_recording(recording, results)
        stem = recording.name.split(".")[0]
    else:
        from tuner.catalog import catalog
        from tuner.exchange.exports.target import Problem

        problem = Problem.parse(catalog.load(kernel or ""), size, options, types, results)
        from tuner.report import subject  # imports Optuna, for which a wrong request does not wait

        found = subject.of_problem(problem, device, storage)
        stem = problem.file_name
    if file is None and not as_json:
        if vega.is_installed():
            file = Path(f"{stem}.html")
        else:
            output.warn([f"{vega.MISSING}; so no page was written"])
    if file is not None:
        check_file("--output", file)
    from tuner.report.findings import Findings
    from tuner.report.pages import study_page

    if measure:
        found = _measured(found, storage)
    with progress.displayed() as listener:
        listener.begun("computing what the trials tell", prefix="")
        findings = Findings.of(found)
        if file is not None:
            listener.begun(f"drawing {file.name}", prefix="")
            is_page = suffix == ".html"
            write_figure(file, study_page.html(findings).encode() if is_page else study_page.picture(findings, suffix))
    lines = [f"{found.kernel} at {found.problem_text} on {found.recording.device}", *study_page.lead(findings)]
    output.answer(
        as_json, {"file": file and str(file), **findings.to_json()}, "\n".join([*lines, *([str(file)] if file else [])])
    )


def _measured(found: Subject, storage: str | None) -> Subject:
    """The same with the neighbours of the best that had no time."""
    from tuner.report import measuring

    with progress.displayed() as listener:
        return measuring.neighbours(found, storage, listener)
