"""`tune report KERNEL SIZE`: write the study of one kernel as a page of charts and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli import output
from tuner.cli.options import check_file, write_figure
from tuner.cli.screen import progress
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space.texts import config_text

if TYPE_CHECKING:
    from tuner.report.findings import Findings
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
    """Write the page, and print its first lines, or with `as_json` its data.

    Without `file`, the page is named after the kernel and size; it is not written with `as_json`, or if vl-convert is
    not installed. Raises RequestError if options contradict each other or the page cannot be written.
    """
    from tuner.report.pages import vega

    if file is not None:
        vega.suffix_of(file)  # raises for a wrong name, before anything is read
        vega.check()
    if recording is not None:
        excluded = {
            "KERNEL": kernel, "--device": device, "--storage": storage, "--measure": measure, "--set": options,
            "--type": types,
        }  # fmt: skip
        study, stem = _recorded(recording, results, [name for name, value in excluded.items() if value])
    else:
        from tuner.catalog import catalog
        from tuner.exchange.exports.target import Problem

        problem = Problem.parse(catalog.load(kernel or ""), size, options, types, results)
        from tuner.report import subject  # here: it imports Optuna, and a wrong request fails before that

        study = subject.of_problem(problem, device, storage)
        stem = problem.file_name
    if file is None and not as_json:
        if vega.is_installed():
            file = Path(f"{stem}.html")
        else:
            output.warn([f"{vega.MISSING}; no page was written"])
    if file is not None:
        check_file("--output", file)
    if measure:
        study = _measured(study, storage)
    findings = _analysed(study, file)
    lines = [*_lines(study, findings), *([str(file)] if file else [])]
    output.answer(as_json, {"file": file and str(file), **findings.to_json()}, "\n".join(lines))


def _analysed(study: Subject, file: Path | None) -> Findings:
    """The findings about a study, which are drawn into `file`, if there is one."""
    from tuner.report.findings import Findings
    from tuner.report.pages import study_page, vega

    with progress.displayed() as listener:
        listener.begun("analysing the trials", prefix="")
        findings = Findings.of(study)
        if file is not None:
            listener.begun(f"drawing {file.name}", prefix="")
            suffix = vega.suffix_of(file)
            is_page = suffix == ".html"
            write_figure(file, study_page.html(findings).encode() if is_page else study_page.picture(findings, suffix))
    return findings


def _recorded(recording: Path, results: Path | None, others: list[str]) -> tuple[Subject, str]:
    """The study of a recording, and the stem of its page's name. Raises RequestError if `others` were given, too."""
    if others:
        raise RequestError(
            f"--recording {shown(recording)}: is the only source of the report; leave out {' and '.join(others)}"
        )
    from tuner.report import subject

    return subject.of_recording(recording, results), recording.name.split(".")[0]


def _lines(study: Subject, findings: Findings) -> list[str]:
    """The first lines of the page, and a table of the configurations that are tied."""
    from tuner.report.pages import study_page

    title = f"{study.kernel} at {study.problem_text} on {study.recording.device}"
    lines = [title, *study_page.result(findings), *findings.notes]
    if findings.ties:
        finalists = [(row, study.finalists[row]) for row in findings.ties]
        rows = [[f"{f.time_ms:.4g}", f"{f.spread:.1%}", config_text(study.config(row))] for row, f in finalists]
        lines.append(output.table(("ms", "spread", "tied, by their times in the finals"), rows))
    return lines


def _measured(study: Subject, storage: str | None) -> Subject:
    """The study, with times of those neighbours of the best that had none, measured now."""
    from tuner.report import measuring

    with progress.displayed() as listener:
        return measuring.neighbours(study, storage, listener)
