"""How sure the times of trials are: how far they spread, and which cannot be told from that of the best."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from tuner.store.verdicts import Timing, of_median

if TYPE_CHECKING:
    from tuner.exchange.recording import Row
    from tuner.report.subject import Subject

SAME_CODE = "the same code"  # why two times cannot be told apart, besides those of `verdicts`
WIDE = 0.1  # of a median time: a spread of which a reader is told


def of_best(subject: Subject) -> Timing:
    """The best as its trial timed it, as wide as trial and finals together: nothing that lies between the two can be
    told from it."""
    found, finals = subject.timings[subject.best], subject.finals
    return found if finals is None else found.and_also(of_median(finals.time_ms, finals.spread))


def verdict(subject: Subject, row: Row) -> str:
    """Why a trial's time cannot be told from that of the best: SAME_CODE, or what their spreads say; else empty."""
    if row == subject.best:
        return ""
    return SAME_CODE if subject.is_same_code(subject.best, row) else of_best(subject).verdict(subject.timings[row])


def of_default(subject: Subject) -> Timing | None:
    """The default as its trial timed it, as wide as trial and finals together; None where it has no trial."""
    found = subject.timings.get(subject.default) if subject.default is not None else None
    finals = subject.finals
    if found is None or finals is None or finals.default_ms is None or finals.default_spread is None:
        return found
    return found.and_also(of_median(finals.default_ms, finals.default_spread))


def typical_spread(subject: Subject) -> float | None:
    """The median of the trials' spreads; None where no single times are known."""
    spreads = [found.spread for found in subject.timings.values() if found.spread is not None]
    return median(spreads) if spreads else None
