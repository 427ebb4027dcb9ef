"""Runs of candidates on inputs that their processes have never had: verified, timed in rounds, and repeated."""

from __future__ import annotations

import functools
import math
import random
import secrets
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.judging import memory
from tuner.judging.comparison import ComparedRuns
from tuner.judging.verdict import JudgedTimes, Refusal
from tuner.measure import turns
from tuner.measure.method import COMPARED_RUNS, COMPARED_SECONDS
from tuner.store import verdicts

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.judging.contender import CandidateProcess
    from tuner.judging.entrant import Entrant
    from tuner.judging.problem import DrawnSet, JudgedProblem
    from tuner.store.verdicts import Comparison

WARM_UP = 2  # rounds that are verified and do not count
LINGERS, LINGER_SECONDS = 4, 0.05  # after a wrong run, to see whether threads go on
EMPTY_RUNS = 40
DECISIVE_ROUNDS = 8  # fewer give no interval of 99 %
LEAST_MS = 1e-4  # of a run: less cannot be told from the cost of a question to a process
_CHANCE = random.SystemRandom()


@dataclass(frozen=True)
class TimedLook:
    """The times of a candidate and of the space's own kernel in the rounds of one pair of processes, in ms."""

    own: Sequence[float]
    baseline: Sequence[float]

    def __add__(self, later: TimedLook) -> TimedLook:
        return TimedLook([*self.own, *later.own], [*self.baseline, *later.baseline])

    def net(self, cost: float) -> tuple[list[float], list[float]]:
        """Both without the `cost` of a launch that does nothing."""
        own, baseline = ([max(LEAST_MS, each - cost) for each in series] for series in (self.own, self.baseline))
        return own, baseline


def run(
    entrant: Entrant, number: int, problem: JudgedProblem, drawn: DrawnSet, code: str, is_timed: bool = False
) -> tuple[float, str]:
    """Run an entrant once on a set of inputs, at new addresses, and compare what it wrote.

    Returns the time in ms and a digest of its outputs. Raises Refusal, for a wrong output with `code`.
    """
    contender = entrant.contender
    assert contender is not None
    places, compared = memory.places(drawn.nbytes, _CHANCE), entrant.compared.setdefault(number, ComparedRuns())
    poisons = {}

    def fill(shared: memory.SharedMemory) -> None:
        poisons.update(problem.fill(shared, places, drawn))

    try:
        time_ms = contender.run(places, fill, drawn.leading, problem.scope.options, is_timed)
        entrant.launches = True
        digest = problem.judge(contender.memory, places, drawn, poisons, compared, code)
        contender.check_stopped()
        return time_ms, digest
    except Refusal as refusal:
        if refusal.reason.code in (code, "unwritten") and contender.on_processor:
            for _ in range(LINGERS):
                contender.wait(LINGER_SECONDS)
                if problem.is_right(contender.memory, places, drawn, poisons):
                    message = f"its outputs became right only after the launch had ended: {refusal}"
                    raise Refusal("unfinished", message, problem.size) from None
        if refusal.reason.size is None:
            raise Refusal(refusal.reason.code, str(refusal), problem.size) from None
        raise


def timed(
    device: Device,
    entrants: Sequence[Entrant],
    number: int,
    problem: JudgedProblem,
    sets: Iterator[DrawnSet],
    rounds: int,
) -> dict[str, list[float]]:
    """Times in ms by name, of those that are right in each round.

    Each round has a new set of inputs, on which all run in random order. Who is wrong is refused.
    """
    times: dict[str, list[float]] = {entrant.name: [] for entrant in entrants}
    for count in range(WARM_UP + rounds):
        drawn = next(sets)
        running = [entrant for entrant in entrants if entrant.is_in]
        _CHANCE.shuffle(running)
        for entrant in running:
            try:
                with turns.taken(device.place):
                    time_ms, _ = run(entrant, number, problem, drawn, "wrong_timed_run", is_timed=True)
            except Refusal as refusal:
                entrant.refuse(refusal.reason)
                continue
            if count >= WARM_UP:
                times[entrant.name].append(time_ms)
    return times


def least_ms(empty: CandidateProcess, problem: JudgedProblem, drawn: DrawnSet) -> float:
    """The shortest time in ms of launches that do nothing: what a question to a process takes at least."""
    shortest = math.inf
    for _ in range(EMPTY_RUNS):
        places = memory.places(drawn.nbytes, _CHANCE)
        shortest = min(shortest, empty.run(places, functools.partial(problem.fill, places=places, drawn=drawn)))
    return shortest


def decided(look: TimedLook, cost: float) -> Comparison:
    """What the rounds of one pair of processes say."""
    own, baseline = look.net(cost)
    if len(own) < DECISIVE_ROUNDS:
        return "undecided"
    return verdicts.compared(verdicts.ratio(baseline, own), median(baseline))


def result(
    problem: JudgedProblem,
    looks: Sequence[TimedLook],
    cost: float,
    library: tuple[str, float] | None,
    floor: float | None,
) -> JudgedTimes:
    """The times of a candidate beside those of the space's own kernel in the same rounds, of which each is `cost`
    less. All `looks` must say the same for a decision."""
    series = [look.net(cost) for look in looks]
    own, baseline = ([each for pair in series for each in pair[place]] for place in (0, 1))
    found, ratio = verdicts.interval(own), verdicts.ratio(own, baseline)
    decisions = {decided(look, cost) for look in looks}
    name, library_ms = library or (None, None)
    return JudgedTimes(
        size=problem.size,
        rounds=len(own),
        time_ms=found.middle,
        interval=(found.low, found.high),
        baseline_ms=median(baseline),
        speedup=(ratio.low, ratio.middle, ratio.high),
        decision=decisions.pop() if len(decisions) == 1 else "undecided",
        library=name,
        library_ms=library_ms,
        floor_ms=floor,
    )


def repeated(entrant: Entrant, number: int, problem: JudgedProblem, sets: Sequence[DrawnSet], most: int | None) -> None:
    """Run an entrant `most` times more, or for some seconds if that is None, and compare each run and its bits. Raises
    Refusal.

    The same sets alternate now: its process may have seen them, which a time no longer depends on.
    """
    digests: dict[int, str] = {}
    entrant.bits_repeat = True
    deadline = time.monotonic() + COMPARED_SECONDS
    for _ in range(COMPARED_RUNS if most is None else most):
        drawn = secrets.choice(sets)
        _, digest = run(entrant, number, problem, drawn, "wrong_repeated_run")
        entrant.bits_repeat &= digests.setdefault(drawn.seed, digest) == digest
        if most is None and time.monotonic() > deadline:
            break
