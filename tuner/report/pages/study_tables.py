"""The tables of the page of one study, and the sentences above them."""

from __future__ import annotations

from typing import Any

from tuner.report.contenders import FINALS
from tuner.report.findings import BUILD, Findings
from tuner.report.pages.page import Cell, Grid, Section
from tuner.report.store_tables import GIVEN
from tuner.report.words import number, percent, times
from tuner.space.texts import config_text

AFTER = "measured after the finals"


def contest(findings: Findings) -> Grid:
    """The times and rates of the best, the default and the library."""
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


def configurations(findings: Findings) -> Grid:
    """The configurations of the contenders, side by side."""
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


def improvements(findings: Findings) -> Grid:
    """The trials that were the best so far."""
    subject = findings.subject
    rows = [
        [str(trial), number(time_ms), Cell(config_text(subject.config(row)), code=True)]
        for trial, time_ms, row in findings.convergence.improvements
    ]
    return Grid(("trial", "ms", "configuration"), rows, folded=f"The {len(rows)} trials that were the best so far")


def importance(findings: Findings) -> Grid:
    """The share of the variance that each parameter explains."""
    return Grid(
        ("parameter", "share"), [[name, percent(share)] for name, share in findings.shares.items()], folded="As a table"
    )


def basis(findings: Findings) -> str:
    """The source of the times in a table of trials, and the time to which its ratios are relative."""
    subject = findings.subject
    best_ms = subject.times[subject.best]
    return f"Times are those of the {subject.source}; ratios are relative to the best's {best_ms:.4g} ms there."


def neighbours(findings: Findings) -> Grid:
    """The configurations that differ from the best in one parameter."""
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


def order(findings: Findings) -> str:
    """What the order of the leaders is, if not that of their times alone."""
    if findings.subject.finalists:
        return "Those of the finals come first, in the order of the finals; the others follow in that of their times. "
    return "The first won the finals. " * (findings.subject.finals is not None)


def ties(findings: Findings) -> Section:
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


def leaders(findings: Findings) -> Grid:
    """The best configurations, with their times, figures of their builds, and values."""
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


def failures(findings: Findings) -> Grid:
    """The reasons of failures, each with a configuration and a message."""
    subject = findings.subject
    rows = [
        [f.reason, f"{f.count:,}", Cell(config_text(subject.config(f.example)), code=True), Cell(f.log, code=True)]
        for f in findings.failures
    ]
    return Grid(*_without_empty(("reason", "configurations", "one of them", "message"), rows))


def removed(findings: Findings) -> str:
    """What the table of restrictions says, and how exactly."""
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


def restrictions(findings: Findings) -> Grid:
    """The share of all combinations that each restriction removes."""
    assert findings.removals is not None
    rows = [
        [Cell(r.restriction.that.text, code=True), f"{r.share:.1%}", f"{r.alone:.1%}", r.restriction.because]
        for r in findings.removals.rows
    ]
    return Grid(*_without_empty(("restriction", "removes", "removes alone", "because"), rows))
