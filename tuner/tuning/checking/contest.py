"""A contest of two configurations: rounds until noise no longer decides.

A difference must show in each of two processes. On a processor, it must be larger than the differences between several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from tuner.measure.results import Final, Finals
from tuner.measure.timing.clock import FINAL_SECONDS, MAX_ROUNDS
from tuner.store import verdicts
from tuner.store.verdicts import FEWEST_PROCESSES, MOST_PROCESSES, Comparison, Interval

Look = Callable[[float, int, bool], Finals]  # seconds, most rounds, with the library: both configurations in turn
MOST_SECONDS = 60.0  # for all rounds of a contest
SHARE, TIMES = 0.25, 2  # on a processor, of FINAL_SECONDS and times MAX_ROUNDS: the rounds of one process


@dataclass(frozen=True)
class Score:
    """How a contest ended. `ratio` is the time over that of the other; times are medians in ms.

    `is_loss`: the ratio is certainly above the allowed one. `failed` are the failures of the two, if one has failed;
    then there is no ratio.
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


class _Failed(Exception):
    """One of the two has failed: why, for each."""


def held(
    look: Look,
    restart: Callable[[], None],
    allowed: float,
    most_seconds: float = MOST_SECONDS,
    on_processor: bool = False,
) -> Score:
    """Hold a contest: `look` runs rounds until the verdict is certain, or for `most_seconds`. `restart` ends the
    process, so that arrays and code lie elsewhere in memory in the next one.

    `allowed` is the ratio above which it is lost.
    """
    contest = _Contest(look, restart, allowed, most_seconds)
    try:
        return contest.between_processes() if on_processor else contest.by_rounds()
    except _Failed as failed:
        one, other = failed.args
        return Score(failed=(one, other))


class _Contest:
    """What has been measured of two configurations, by process. `ratio` is that of the one over the other."""

    def __init__(self, look: Look, restart: Callable[[], None], allowed: float, most_seconds: float) -> None:
        self._look, self._restart, self._allowed, self._left = look, restart, allowed, most_seconds
        self._series = [_Series()]
        self._library: Final | None = None

    def by_rounds(self) -> Score:
        """Rounds in one process, twice as many as before each time. A difference must be found again in another one."""
        seconds, rounds = FINAL_SECONDS, MAX_ROUNDS
        while True:
            self._measure(seconds, rounds)
            own = self._series[-1]
            verdict = verdicts.compared(own.ratio, median(own.others))
            is_certain = verdict != "undecided" and self._is_settled(own.ratio)
            if is_certain and verdict in verdicts.DIFFERENT and len(self._series) == 1:
                self._begin()
            elif is_certain or 2 * seconds > self._left:
                return self._found_twice()
            else:
                seconds, rounds = 2 * seconds, 2 * rounds

    def between_processes(self) -> Score:
        """Rounds in several processes, of which each counts once: on a processor, ratios differ between processes by
        more than the rounds of one of them tell."""
        seconds = min(SHARE * FINAL_SECONDS, self._left / FEWEST_PROCESSES)
        while True:
            self._measure(seconds, TIMES * MAX_ROUNDS)
            count = len(self._series)
            if count >= FEWEST_PROCESSES:
                ratio = verdicts.between_processes([each.ratio.middle for each in self._series])
                verdict = verdicts.compared(ratio, self._other_ms)
                is_certain = verdict != "undecided" and self._is_settled(ratio)
                if is_certain or count == MOST_PROCESSES or seconds > self._left:
                    return self._score(verdict, ratio, verdict == "slower" and ratio.low > self._allowed)
            self._begin()

    def _measure(self, seconds: float, rounds: int) -> None:
        finals = self._look(seconds, rounds, self._library is None and not self._series[0].times)
        one, other = finals.candidates
        if one.failure or other.failure:
            raise _Failed(one.failure, other.failure)
        self._library = self._library or finals.library
        self._series[-1].times += one.times
        self._series[-1].others += other.times
        taken = (
            sum(ms for final in finals.candidates for ms in final.times) / 1e3
        )  # more, as there are at least 5 rounds
        self._left -= max(seconds, taken)

    def _begin(self) -> None:
        """Begin another process."""
        self._restart()
        self._series.append(_Series())

    def _is_settled(self, ratio: Interval) -> bool:
        """Whether the interval is on one side of the allowed ratio."""
        return ratio.low > self._allowed or ratio.high <= self._allowed

    def _found_twice(self) -> Score:
        ratio = verdicts.ratio(self._all("others"), self._all("times"))
        each = {verdicts.compared(one.ratio, self._other_ms) for one in self._series if one.times}
        verdict = verdicts.compared(ratio, self._other_ms)
        if verdict in verdicts.DIFFERENT and (len(self._series) < 2 or each != {verdict}):
            verdict = "undecided"  # not found again
        is_loss = verdict == "slower" and all(one.ratio.low > self._allowed for one in self._series)
        return self._score(verdict, ratio, is_loss)

    def _score(self, verdict: Comparison, ratio: Interval, is_loss: bool) -> Score:
        times, library = self._all("times"), self._library
        return Score(
            verdict, ratio, median(times), self._other_ms, len(times), is_loss,
            library.library if library else None, library.time_ms if library and library.times else None,
        )  # fmt: skip

    def _all(self, name: str) -> list[float]:
        return [ms for each in self._series for ms in getattr(each, name)]

    @property
    def _other_ms(self) -> float:
        return median(self._all("others"))


def apart(one: Final, other: Final, allowed: float) -> Score:
    """The score of two configurations that were measured one after the other, whose interval is wider."""
    if one.failure or other.failure:
        return Score(failed=(one.failure, other.failure))
    own, earlier = verdicts.interval(one.times), verdicts.interval(other.times)
    ratio = Interval(own.low / earlier.high, own.middle / earlier.middle, own.high / earlier.low)
    verdict, rounds = verdicts.compared(ratio, other.time_ms), min(len(one.times), len(other.times))
    return Score(verdict, ratio, one.time_ms, other.time_ms, rounds, verdict == "slower" and ratio.low > allowed)
