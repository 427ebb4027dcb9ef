"""A contest of two configurations: rounds until noise no longer decides.

A difference must show in each of two processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from tuner.measure.results import Final, Finals
from tuner.measure.timing.clock import FINAL_SECONDS, MAX_ROUNDS
from tuner.store import verdicts
from tuner.store.verdicts import Comparison, Interval

Look = Callable[[float, int, bool], Finals]  # seconds, most rounds, with the library: both configurations in turn
MOST_SECONDS = 60.0  # for all rounds of a contest


@dataclass(frozen=True)
class Score:
    """How a contest ended. `ratio` is the time over that of the other; times are medians in ms.

    `is_loss`: the ratio is above the allowed one in each of two processes. `failed` are the failures of the two, if one
    has failed; then there is no ratio.
    """

    verdict: Comparison = "undecided"
    ratio: Interval | None = None
    time_ms: float | None = None
    other_ms: float | None = None
    rounds: int = 0
    is_loss: bool = False
    library: str | None = None
    library_ms: float | None = None
    failed: tuple[str | None, str | None] = (None, None)


@dataclass
class _Series:
    """The times of both in the same rounds of one process, in ms."""

    times: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> Interval:
        return verdicts.ratio(self.others, self.times)


def held(look: Look, restart: Callable[[], None], allowed: float, most_seconds: float = MOST_SECONDS) -> Score:
    """Hold a contest: `look` runs rounds, twice as many as before each time, until the verdict is certain, or for
    `most_seconds`. A difference must be found again after a `restart` of the process,
    with arrays and code elsewhere in memory.

    `allowed` is the ratio above which it is lost.
    """
    series, spent, seconds, rounds = [_Series()], 0.0, FINAL_SECONDS, MAX_ROUNDS
    library: Final | None = None
    while True:
        finals = look(seconds, rounds, spent == 0)
        one, other = finals.candidates
        if one.failure or other.failure:
            return Score(failed=(one.failure, other.failure))
        library = library or finals.library
        own = series[-1]
        own.times += one.times
        own.others += other.times
        spent += seconds
        verdict = verdicts.compared(own.ratio, median(own.others))
        if verdict in verdicts.DIFFERENT and len(series) == 1 and _is_settled(own.ratio, allowed):
            restart()
            series.append(_Series())
        elif (verdict != "undecided" and _is_settled(own.ratio, allowed)) or spent + 2 * seconds > most_seconds:
            return _score(series, allowed, library)
        else:
            seconds, rounds = 2 * seconds, 2 * rounds


def apart(one: Final, other: Final, allowed: float) -> Score:
    """The score of two configurations that were measured one after the other, whose interval is wider."""
    if one.failure or other.failure:
        return Score(failed=(one.failure, other.failure))
    own, earlier = verdicts.interval(one.times), verdicts.interval(other.times)
    ratio = Interval(own.low / earlier.high, own.middle / earlier.middle, own.high / earlier.low)
    verdict, rounds = verdicts.compared(ratio, other.time_ms), min(len(one.times), len(other.times))
    return Score(verdict, ratio, one.time_ms, other.time_ms, rounds, verdict == "slower" and ratio.low > allowed)


def _is_settled(ratio: Interval, allowed: float) -> bool:
    """Whether the interval is on one side of the allowed ratio."""
    return ratio.low > allowed or ratio.high <= allowed


def _score(series: Sequence[_Series], allowed: float, library: Final | None) -> Score:
    times, others = ([ms for each in series for ms in getattr(each, name)] for name in ("times", "others"))
    ratio, time_ms, other_ms = verdicts.ratio(others, times), median(times), median(others)
    each = [verdicts.compared(one.ratio, other_ms) for one in series if one.times]
    verdict = verdicts.compared(ratio, other_ms)
    if verdict in verdicts.DIFFERENT and (len(each) < 2 or set(each) != {verdict}):
        verdict = "undecided"  # not found again
    is_loss = verdict == "slower" and all(one.ratio.low > allowed for one in series)
    return Score(
        verdict, ratio, time_ms, other_ms, len(times), is_loss,
        library.library if library else None, library.time_ms if library and library.times else None,
    )  # fmt: skip
