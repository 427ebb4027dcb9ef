"""Statistics of a search and of its space, computed from the trials of a Subject; all times are in ms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.errors import ExpressionError
from tuner.report import noise
from tuner.tuning.finals.entrants import FINALISTS

if TYPE_CHECKING:
    from tuner.report.subject import Subject
    from tuner.space.config import Value
    from tuner.tuning.recordings.recording import Row

BINS = 40  # at most this many bins in a Distribution
MOST_POINTS = 2000  # at most this many points in a Convergence
WITHIN = 0.05  # a Distribution counts the configurations that are slower than the fastest by at most this share
LEADERS = 20  # at most this many configurations are listed as the fastest


@dataclass(frozen=True)
class Convergence:
    """The trials of the search in the order of measurement, numbered from 1. Failed trials have numbers, too.

    points: (number, time) of the successful trials, evenly thinned out to at most MOST_POINTS.
    improvements: (number, time, row) of each trial that was faster than all before it.
    trials: the number of trials.
    winner: the number of the best configuration; None if it is not a trial of the search.
    """

    points: list[tuple[int, float]]
    improvements: list[tuple[int, float, Row]]
    trials: int
    winner: int | None


def convergence(subject: Subject) -> Convergence:
    """The convergence of the search."""
    points: list[tuple[int, float]] = []
    improvements: list[tuple[int, float, Row]] = []
    entries = {row: entry for row, entry in subject.recording.entries.items() if row not in subject.besides}
    for number, (row, entry) in enumerate(entries.items(), 1):
        if entry.time_ms is not None:
            points.append((number, entry.time_ms))
            if not improvements or entry.time_ms < improvements[-1][1]:
                improvements.append((number, entry.time_ms, row))
    step = max(1, math.ceil(len(points) / MOST_POINTS))
    winner = list(entries).index(subject.best) + 1 if subject.best in entries else None
    return Convergence(points[::step], improvements, len(entries), winner)


def random_search(subject: Subject) -> list[tuple[int, float]]:
    """The convergence of a random search over these trials: (number of trials, median of the best time so far).

    In at least half of all orders of the trials, one of the first `number` has this time or less. Failed trials count.
    """
    ranked = sorted(subject.times.values())
    total = len(subject.recording.entries)
    numbers = sorted({min(total, round(10 ** (e / 12))) for e in range(12 * len(str(total)) + 1)})
    curve: list[tuple[int, float]] = []
    for number in numbers:
        missed, rank = 1.0, 0  # the probability that none of the `rank` fastest is among `number` trials
        while missed > 0.5 and rank < len(ranked):
            missed *= max(0, total - rank - number) / (total - rank)
            rank += 1
        if missed <= 0.5:
            curve.append((number, ranked[rank - 1]))
    return curve


@dataclass(frozen=True)
class Distribution:
    """A histogram of the times. `bins` are (from, to, count), of equal width on a logarithmic scale."""

    bins: list[tuple[float, float, int]]
    within: int  # number of configurations within WITHIN of the fastest
    total: int  # number of configurations


def distribution(subject: Subject) -> Distribution:
    """The distribution of the times of the successful trials."""
    times = sorted(subject.times.values())
    low, high = math.log(times[0]), math.log(times[-1])
    count = min(BINS, max(1, len(times) // 2)) if high > low else 1
    width = (high - low) / count or 1e-3
    numbers = [0] * count
    for time_ms in times:
        numbers[min(count - 1, int((math.log(time_ms) - low) / width))] += 1
    edges = [math.exp(low + width * i) for i in range(count + 1)]
    within = sum(time_ms <= times[0] * (1 + WITHIN) for time_ms in times)
    return Distribution(list(zip(edges, edges[1:], numbers, strict=False)), within, len(times))


@dataclass(frozen=True)
class Neighbour:
    """The best configuration with another `value` of the parameter `name`.

    time_ms: None if there is no time; `reason` then says why.
    spread: the relative spread of the time; None if unknown.
    verdict: why the time is indistinguishable from the best's; empty if it is not.
    after_finals: whether it was measured after the finals, for a report or a list, so that the finals lacked it.
    """

    name: str
    value: Value
    row: Row
    time_ms: float | None
    reason: str = ""
    spread: float | None = None
    verdict: str = ""
    after_finals: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether it was not measured although no restriction is known to exclude it, so a report may measure it."""
        return self.time_ms is None and self.reason == NOT_MEASURED


NOT_MEASURED = "not measured"


def faster_neighbours(subject: Subject, neighbours: Sequence[Neighbour]) -> list[Neighbour]:
    """The neighbours that are faster than the best by more than the noise, and that only new finals would include."""
    fastest = set(sorted(subject.times, key=subject.times.__getitem__)[:FINALISTS])
    best = noise.of_best(subject)
    return [
        n
        for n in neighbours
        if n.after_finals and n.row in fastest and not n.verdict and (n.time_ms or math.inf) < best.low
    ]


def neighbours(subject: Subject) -> list[Neighbour]:
    """All configurations that differ from the best in one parameter, in the order of parameters and values."""
    found: list[Neighbour] = []
    for position, (name, values) in enumerate(subject.parameters.items()):
        for value in values:
            if value != subject.best[position]:
                row = (*subject.best[:position], value, *subject.best[position + 1 :])
                found.append(_neighbour(subject, name, value, row))
    return found


def _neighbour(subject: Subject, name: str, value: Value, row: Row) -> Neighbour:
    if (timing := subject.timings.get(row)) is not None:
        verdict = noise.verdict(subject, row)
        late = subject.is_after_finals(row)
        return Neighbour(name, value, row, timing.time_ms, spread=timing.spread, verdict=verdict, after_finals=late)
    return Neighbour(name, value, row, None, why_no_time(subject, row))


def why_no_time(subject: Subject, row: Row) -> str:
    """Why a configuration has no time: its failure, the violated restriction, or NOT_MEASURED."""
    entry = subject.entry(row)
    if entry is not None:
        return f"failed: {entry.failure}"
    instance = subject.instance(row)
    if instance is None:
        return NOT_MEASURED
    try:
        broken = instance.broken
    except ExpressionError as error:
        return f"not valid: {error}"
    return f"not valid: {broken}" if broken else NOT_MEASURED


@dataclass(frozen=True)
class Slice:
    """The fastest time for each pair of values of two parameters, over all values of the others.

    cells: (first value, second value, fastest time, number of measured configurations).
    """

    names: tuple[str, str]
    cells: list[tuple[Value, Value, float, int]]


def slices(subject: Subject, order: Sequence[str], most: int = 66) -> list[Slice]:
    """At most `most` slices: of the pairs of varying parameters, those that come first in `order` first."""
    varying = [name for name in order if len({row[_position(subject, name)] for row in subject.times}) > 1]
    pairs = sorted(itertools.combinations(range(len(varying)), 2), key=lambda pair: (sum(pair), pair))[:most]
    return [_slice(subject, varying[a], varying[b]) for a, b in pairs]


def _slice(subject: Subject, first: str, second: str) -> Slice:
    first_position, second_position = _position(subject, first), _position(subject, second)
    best: dict[tuple[Value, Value], float] = {}
    counts: dict[tuple[Value, Value], int] = {}
    for row, time_ms in subject.times.items():
        key = row[first_position], row[second_position]
        best[key] = min(time_ms, best.get(key, math.inf))
        counts[key] = counts.get(key, 0) + 1
    ranks = [{value: i for i, value in enumerate(subject.parameters[name])} for name in (first, second)]
    keys = sorted(best, key=lambda key: (ranks[0][key[0]], ranks[1][key[1]]))
    return Slice((first, second), [(*key, best[key], counts[key]) for key in keys])


def _position(subject: Subject, name: str) -> int:
    return list(subject.parameters).index(name)


def leaders(subject: Subject) -> list[Row]:
    """The best configuration, then the others of the finals in their order, then the fastest others in ascending order
    of time; at most LEADERS in all."""
    ranked = sorted(subject.times, key=lambda row: (row != subject.best, subject.times[row]))
    finalists = [row for row in subject.finalists if row in subject.times]
    return list(dict.fromkeys([*finalists, *ranked]))[:LEADERS]


@dataclass(frozen=True)
class Failure:
    """The failures with one reason: their number, one configuration, and the first lines of its log."""

    reason: str
    count: int
    example: Row
    log: str


def failures(subject: Subject) -> list[Failure]:
    """The failures by reason, the most frequent reason first."""
    rows: dict[str, list[Row]] = {}
    for row, entry in subject.recording.entries.items():
        if entry.time_ms is None:
            rows.setdefault(str(entry.extra.get("reason", entry.failure)), []).append(row)
    logs: Mapping[Row, str] = subject.trials.logs
    found = []
    for reason, group in sorted(rows.items(), key=lambda item: -len(item[1])):
        example = next((row for row in group if row in logs), group[0])
        found.append(Failure(reason, len(group), example, "\n".join(logs.get(example, "").strip().splitlines()[:6])))
    return found
