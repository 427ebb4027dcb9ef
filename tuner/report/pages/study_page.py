"""The page of one study, which `tune report KERNEL SIZE` writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tuner.report.contenders import FINALS
from tuner.report.findings import BUILD, Findings
from tuner.report.pages import charts as charting
from tuner.report.pages import page, vega
from tuner.report.pages.page import Cell, Grid, Section
from tuner.report.store_tables import GIVEN
from tuner.report.words import number, percent, spread, times
from tuner.space.texts import config_text
from tuner.store import verdicts
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.report.contenders import Contender


AFTER = "measured after the finals"


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
        "contest": [_contest(findings), _configurations(findings)],
        "convergence": [] if findings.random_search else [_improvements(findings)],
        "importance": [_importance(findings)],
        "neighbours": [_neighbours(findings)],
    }
    absent = charting.absent(findings)
    for name in charting.NAMES:
        if name == "convergence":  # below the pictures of the result
            if findings.notes:
                yield Section("remarks", "Remarks", "\n\n".join(findings.notes))
            if findings.ties:
                yield _ties(findings)
        # Two charts are side by side, except the last one.
        if name in charts:
            yield Section.of(charts[name], *tables.get(name, []), half=name != "slices")
        elif name in absent:
            title, why = absent[name]
            shown = [_neighbours(findings)] if name == "neighbours" and findings.neighbours else []
            yield Section(name, title, why, tables=shown, half=name != "slices")
    leaders = _leaders(findings)
    yield Section(
        "leaders",
        f"The best {len(findings.leaders)}",
        _order(findings)
        + f"Grey values are those of the best. {_basis(findings)}"
        + " Occupancy is an upper bound, set by the build." * (BUILD["occupancy"] in leaders.header),
        tables=[leaders],
    )
    if findings.failures:
        yield Section(
            "failures",
            "Failures",
            f"{sum(f.count for f in findings.failures):,} configurations failed. None of them is stored.",
            tables=[_failures(findings)],
        )
    if findings.removals is not None and findings.removals.rows:
        yield Section("restrictions", "Restrictions", _removed(findings), tables=[_restrictions(findings)])
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


def _contest(findings: Findings) -> Grid:
    best = findings.contenders[0]
    rows = []
    for c in findings.contenders:
        known = c.rates
        rows.append(
            [
                c.name,
                number(c.time_ms),
                percent(c.spread),
                number(known.gflops) if known else "",
                number(known.gbytes) if known else "",
                (c is not best and best.verdict(c)) or times(c.time_ms / best.time_ms, 3),
                "finals" if c.origin == FINALS else findings.subject.source,
            ]
        )
    header = ("", "ms", "spread", "GFLOP/s", "GB/s", "times the best", "timed in")
    return Grid(*_without_empty(header, rows))


def _configurations(findings: Findings) -> Grid:
    configs = {c.name: c.config for c in findings.contenders if c.config is not None}
    best = configs["best"]
    rows = [
        [name, *(Cell(config[name], faded=config is not best and config[name] == value) for config in configs.values())]
        for name, value in best.items()
    ]
    folded = "Their configurations" if len(configs) > 1 else "Its configuration"
    return Grid(("parameter", *configs), rows, folded=folded)


def _without_empty(header: tuple[str, ...], rows: list[list[Any]]) -> tuple[list[str], list[list[Any]]]:
    """A table without its empty columns."""
    full = [any(row[i] not in ("", None) for row in rows) for i in range(len(header))]
    keep = [i for i in range(len(header)) if full[i] or not i]
    return [header[i] for i in keep], [[row[i] for i in keep] for row in rows]


def _improvements(findings: Findings) -> Grid:
    subject = findings.subject
    rows = [
        [str(trial), number(time_ms), Cell(config_text(subject.config(row)), code=True)]
        for trial, time_ms, row in findings.convergence.improvements
    ]
    return Grid(("trial", "ms", "configuration"), rows, folded=f"The {len(rows)} trials that were the best so far")


def _importance(findings: Findings) -> Grid:
    return Grid(
        ("parameter", "share"), [[name, percent(share)] for name, share in findings.shares.items()], folded="As a table"
    )


def _basis(findings: Findings) -> str:
    """The source of the times in a table of trials, and the time to which its ratios are relative."""
    subject = findings.subject
    best_ms = subject.times[subject.best]
    return f"Times are those of the {subject.source}; ratios are relative to the best's {best_ms:.4g} ms there."


def _neighbours(findings: Findings) -> Grid:
    best_ms = findings.subject.times[findings.subject.best]
    rows = [
        [
            f"{n.name} = {n.value}",
            number(n.time_ms),
            percent(n.spread),
            times(n.time_ms / best_ms if n.time_ms else None, 3),
            n.reason or ", ".join(filter(None, (n.verdict, AFTER * n.after_finals))),
        ]
        for n in findings.neighbours
    ]
    missing = sum(n.time_ms is None for n in findings.neighbours)
    return Grid(
        *_without_empty(("changed to", "ms", "spread", "times the best", "remark"), rows),
        folded=f"All {len(rows)}, of which {missing} have no time",
    )


def _order(findings: Findings) -> str:
    """What the order of the leaders is, if not that of their times alone."""
    if findings.subject.finalists:
        return "Those of the finals come first, in the order of the finals; the others follow in that of their times. "
    return "The first won the finals. " * (findings.subject.finals is not None)


def _ties(findings: Findings) -> Section:
    """The configurations that noise does not separate from the best, by their times in the finals."""
    subject = findings.subject
    best_ms = subject.finalists[subject.best].time_ms
    rows = []
    for row in findings.ties:
        finalist = subject.finalists[row]
        figures = [number(finalist.time_ms), percent(finalist.spread), times(finalist.time_ms / best_ms, 3)]
        rows.append([Cell(config_text(subject.config(row)), code=True), *figures])
    caption = "The first is the best, which a rule has chosen among them. Times are those of the finals."
    grid = Grid(("configuration", "ms", "spread", "times the best"), rows)
    return Section("ties", f"Ties: noise hides which of {len(rows)} is the fastest", caption, tables=[grid])


def _leaders(findings: Findings) -> Grid:
    subject, names = findings.subject, list(findings.subject.parameters)
    best_ms = subject.times[subject.best]
    builds = [findings.build(row) for row in findings.leaders]
    is_zero = [not any(column) for column in zip(*builds, strict=True)]  # such as no shared memory: no column
    rows = []
    for rank, row in enumerate(findings.leaders, 1):
        values = [Cell(value, faded=rank > 1 and value == own) for value, own in zip(row, subject.best, strict=True)]
        *counts, occupancy = builds[rank - 1]
        texts = [*map(number, counts), percent(occupancy)]
        figures = ["" if zero else text for zero, text in zip(is_zero, texts, strict=True)]
        time_ms = subject.times[row]
        remark = ", ".join(filter(None, (findings.verdict(row), AFTER * subject.is_after_finals(row))))
        sure = percent(subject.timings[row].spread), times(time_ms / best_ms, 3), remark
        finals_ms = subject.finalists[row].time_ms if row in subject.finalists else None
        rows.append([str(rank), number(finals_ms), number(time_ms), *sure, *figures, *values])
    source = f"ms in the {subject.source}" if subject.finalists else "ms"
    header = ("", "ms in the finals", source, "spread", "times the best", "remark", *BUILD.values(), *names)
    return Grid(*_without_empty(header, rows))


def _failures(findings: Findings) -> Grid:
    subject = findings.subject
    rows = [
        [f.reason, f"{f.count:,}", Cell(config_text(subject.config(f.example)), code=True), Cell(f.log, code=True)]
        for f in findings.failures
    ]
    return Grid(*_without_empty(("reason", "configurations", "one of them", "message"), rows))


def _removed(findings: Findings) -> str:
    removals = findings.removals
    assert removals is not None
    sample, record = f"{removals.examined:,} random ones", findings.subject.record
    if removals.known is not None:
        valid = f"{removals.known:,} ({removals.valid:.2%}) are valid here."
    elif record is not None and record.is_verified and record.strategy != GIVEN:
        share = record.configurations / removals.combinations
        valid = f"{record.configurations:,} ({share:.2%}) were valid in the search of the record."
    else:
        error = 100 * removals.margin(removals.valid)
        valid = f"{removals.valid:.1%} are valid here, estimated from {sample} to within {error:.1f} percentage points."
    if removals.examined < removals.combinations:
        error = 100 * max(removals.margin(row.share) for row in removals.rows)
        valid += (
            f" The share that each restriction removes is estimated from {sample} to within {error:.1f} percentage "
            "points."
        )
    return (
        f"Of {removals.combinations:,} combinations of values, {valid} A combination may break several restrictions; "
        "`removes alone` counts those that break only this one."
    )


def _restrictions(findings: Findings) -> Grid:
    assert findings.removals is not None
    rows = [
        [Cell(r.restriction.that.text, code=True), f"{r.share:.1%}", f"{r.alone:.1%}", r.restriction.because]
        for r in findings.removals.rows
    ]
    return Grid(*_without_empty(("restriction", "removes", "removes alone", "because"), rows))
