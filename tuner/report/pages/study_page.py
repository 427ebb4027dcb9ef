"""The page of one study, which `tune report KERNEL SIZE` writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.report.findings import BUILD, Findings
from tuner.report.pages import charts as charting
from tuner.report.pages import page, study_tables, vega
from tuner.report.pages.page import Grid, Section
from tuner.report.words import number, spread, times
from tuner.space.texts import config_text
from tuner.store import verdicts
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.report.contenders import Contender


def title(findings: Findings) -> str:
    """Kernel, problem and device."""
    subject = findings.subject
    return f"{subject.kernel} at {subject.problem_text} on {subject.recording.device or 'a device without a name'}"


def html(findings: Findings) -> str:
    """The HTML page. Raises RequestError if vl-convert is not installed."""
    return page.render(title(findings), result(findings), list(_sections(findings)), f"Made by tuner {VERSION}.")


def picture(findings: Findings, suffix: str) -> bytes:
    """The charts only, as an .svg or .png file. Raises RequestError if vl-convert is not installed."""
    return vega.picture(charting.charts(findings), title(findings), suffix)


def result(findings: Findings) -> list[str]:
    """The result in a few lines."""
    best, *others = findings.contenders
    doubt = ", unverified" * findings.subject.recording.is_unverified
    figures = [f"{best.time_ms:.4g} ms{spread(best.spread)}", *_rates(findings)]
    record = findings.subject.finals
    remark = verdicts.by_least(record) if record is not None else ""
    against = [_against(best, other, remark) for other in others]
    if findings.subject.best == findings.subject.default:
        against.insert(0, "No gain: the default configuration is the best.")
    config = config_text(findings.subject.config(findings.subject.best))
    return [f"Best{doubt}: {', '.join(figures)}.", *against, f"`{config}`"]


def _rates(findings: Findings) -> list[str]:
    """The rates of the best.

    With a roofline, the rate that it bounds has its share of the ceiling; without one, each rate has the share of its
    own ceiling.
    """
    known, roof = findings.contenders[0].rates, findings.roofline
    if known is None:
        return []
    if roof is None:
        arithmetic, memory = _share(known.vs_peak, known.peak), _share(known.vs_memory, known.memory)
    else:
        share = _share(roof.share(known), roof.bound)
        arithmetic, memory = ("", share) if roof.is_memory_bound else (share, "")
    rates = (known.gflops, "GFLOP/s", arithmetic), (known.gbytes, "GB/s", memory)
    return [f"{number(rate)} {unit}{share}" for rate, unit, share in rates if rate]


def _share(share: float | None, ceiling: str | None) -> str:
    return f" ({share:.1%} of the {ceiling} ceiling)" if share and ceiling else ""


def _against(best: Contender, other: Contender, remark: str) -> str:
    """How the best compares with the default, whose `remark` follows its time, or with the library."""
    ratio, verdict = other.time_ms / best.time_ms, best.verdict(other)
    end = f"{other.time_ms:.4g} ms{spread(other.spread)}"
    if other.name != "default":
        return f"{ratio:.1%} of {other.name}, {end}{f': {verdict}' if verdict else ''}."
    if verdict:
        return f"The default configuration, {end}: {verdict}."
    return f"{times(ratio)[:-2]} times as fast as the default configuration, {end}{remark}."


def _sections(findings: Findings) -> Iterator[Section]:
    charts = {chart.name: chart for chart in charting.charts(findings)}
    tables = {
        "contest": [study_tables.contest(findings), study_tables.configurations(findings)],
        "convergence": [] if findings.random_search else [study_tables.improvements(findings)],
        "importance": [study_tables.importance(findings)],
        "neighbours": [study_tables.neighbours(findings)],
    }
    absent = charting.absent(findings)
    for name in charting.NAMES:
        if name == "convergence":  # below the pictures of the result
            if findings.notes:
                yield Section("remarks", "Remarks", "\n\n".join(findings.notes))
            if findings.ties:
                yield study_tables.ties(findings)
        # Two charts are side by side, except the last one.
        if name in charts:
            yield Section.of(charts[name], *tables.get(name, []), half=name != "slices")
        elif name in absent:
            title, why = absent[name]
            shown = [study_tables.neighbours(findings)] if name == "neighbours" and findings.neighbours else []
            yield Section(name, title, why, tables=shown, half=name != "slices")
    leaders = study_tables.leaders(findings)
    yield Section(
        "leaders",
        f"The best {len(findings.leaders)}",
        study_tables.order(findings)
        + f"Grey values are those of the best. {study_tables.basis(findings)}"
        + " Occupancy is an upper bound, set by the build." * (BUILD["occupancy"] in leaders.header),
        tables=[leaders],
    )
    if findings.failures:
        yield Section(
            "failures",
            "Failures",
            f"{sum(f.count for f in findings.failures):,} configurations failed. None of them is stored.",
            tables=[study_tables.failures(findings)],
        )
    if findings.removals is not None and findings.removals.rows:
        yield Section(
            "restrictions", "Restrictions", study_tables.removed(findings), tables=[study_tables.restrictions(findings)]
        )
    yield Section("environment", "Environment", tables=[Grid(("property", "value"), findings.environment)])
    if findings.command:
        yield Section("again", "Run it again", _again(findings), text=findings.command)


def _again(findings: Findings) -> str:
    """The explanation of the command below it."""
    trials = findings.subject.trials
    if trials.origin == "recording" and not trials.commands:
        return "The recording does not say which command made it; this one measures the same space."
    origin = (
        "This is the last command that ran this study, with its device."
        if trials.commands
        else "The study does not say which command ran it; this one is equivalent."
    )
    return f"{origin} If the study exists, it continues from its trials; with --fresh it measures everything again."
