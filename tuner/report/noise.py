"""Measurement noise: the spread of the trials' times, and which trials are indistinguishable from the best."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from tuner.store.verdicts import Timing, of_median

if TYPE_CHECKING:
    from tuner.report.subject import Subject
    from tuner.tuning.recordings.recording import Row

SAME_CODE = "the same code"  # a reason why two times are indistinguishable, besides those in `verdicts`
WIDE = 0.1  # reports warn of a typical spread above this share of the median time


def of_best(subject: Subject) -> Timing:
    """The best's time in its trial, with an interval that covers both the trial and the finals: a time between the two
    is indistinguishable from it."""
    trial, finals = subject.timings[subject.best], subject.finals
    return trial if finals is None else trial.and_also(of_median(finals.time_ms, finals.spread))


def verdict(subject: Subject, row: Row) -> str:
    """Why a trial is indistinguishable from the best: SAME_CODE, or a verdict on their spreads; empty if it is not."""
    if row == subject.best:
        return ""
    return SAME_CODE if subject.is_same_code(subject.best, row) else of_best(subject).verdict(subject.timings[row])


def of_default(subject: Subject) -> Timing | None:
    """The default's time in its trial, with an interval that covers both the trial and the finals; None without a
    trial."""
    trial = subject.timings.get(subject.default) if subject.default is not None else None
    finals = subject.finals
    if trial is None or finals is None or finals.default_ms is None or finals.default_spread is None:
        return trial
    return trial.and_also(of_median(finals.default_ms, finals.default_spread))


def typical_spread(subject: Subject) -> float | None:
    """The median of the trials' relative spreads; None if no trial has one."""
    spreads = [timing.spread for timing in subject.timings.values() if timing.spread is not None]
    return median(spreads) if spreads else None
