"""The contenders of a study: the best configuration, the default, and the vendor library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.store import rates, verdicts
from tuner.store.rates import Rates
from tuner.tuning.finals.entrants import SLOW

if TYPE_CHECKING:
    from tuner.report.subject import Subject
    from tuner.space.config import Config
    from tuner.store.verdicts import Timing

FINALS, SEARCH = "finals", "search"


@dataclass(frozen=True)
class Contender:
    """A configuration or library with a time.

    origin: the source of the time: FINALS, SEARCH or, in an explanation, interleaved measurement.
    config: the configuration; None for a library.
    spread: the relative spread of the time; None if unknown.
    ties: whether it is indistinguishable from the best; None if the record does not say.
    """

    name: str
    time_ms: float
    origin: str
    config: Config | None = None
    spread: float | None = None
    rates: Rates | None = None
    ties: bool | None = None

    def verdict(self, other: Contender) -> str:
        """Why `other` is indistinguishable from this best one, by its `ties`, else by the two spreads; empty if it is
        not."""
        if other.ties is not None:
            return verdicts.tie_or_noisy(self.time_ms, other.time_ms) if other.ties else ""
        return verdicts.of_medians(self.time_ms, self.spread, other.time_ms, other.spread)


def contenders(subject: Subject) -> list[Contender]:
    """The best; then, if known, the default, the vendor library's default algorithm, and its best algorithm. The finals
    measured all of them in the same rounds."""
    finals = subject.finals
    best, timings = subject.config(subject.best), subject.timings
    if finals is not None:
        found = [Contender("best", finals.time_ms, FINALS, best, finals.spread)]
    else:
        found = [_of_search("best", timings[subject.best], best)]
    default = subject.default
    if default is not None and default != subject.best:
        config, same = subject.config(default), subject.is_same_code(subject.best, default)
        if finals is not None and finals.default_ms:
            # Old records lack the default's spread even if it took part in the finals, as defaults up to SLOW did.
            in_finals = finals.default_spread is not None or finals.default_ms <= SLOW * finals.time_ms
            origin = FINALS if in_finals else SEARCH
            ties: bool | None = same or bool(verdicts.of_default(finals))
            found.append(Contender("default", finals.default_ms, origin, config, finals.default_spread, ties=ties))
        elif default in timings:
            ties = same or (bool(timings[subject.best].verdict(timings[default])) if finals is None else None)
            found.append(_of_search("default", timings[default], config, ties))
    if finals is not None and finals.library and finals.library_ms:
        found.append(Contender(finals.library, finals.library_ms, FINALS))
    if finals is not None and finals.best_library and finals.best_library_ms:
        found.append(Contender(finals.best_library, finals.best_library_ms, FINALS))
    return [with_rates(subject, contender) for contender in found]


def _of_search(name: str, timing: Timing, config: Config, ties: bool | None = None) -> Contender:
    return Contender(name, timing.time_ms, SEARCH, config, timing.spread, ties=ties)


def with_rates(subject: Subject, contender: Contender) -> Contender:
    """`contender` with its rates, if the kernel is known."""
    if subject.space is None or subject.scope is None:
        return contender
    known = rates.of(subject.space, subject.scope, contender.time_ms, subject.ceilings)
    return Contender(**{**vars(contender), "rates": known})
