"""The times of candidates beside those of the space's own kernel, the library, and what the device could do at best."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.errors import SpaceError
from tuner.judging import rounds
from tuner.judging.rounds import TimedLook
from tuner.judging.verdict import Refusal
from tuner.measure import turns
from tuner.space.texts import size_text
from tuner.store.verdicts import DIFFERENT

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.judging.contender import CandidateProcess
    from tuner.judging.entrant import Entrant
    from tuner.judging.problem import DrawnSet, JudgedProblem
    from tuner.measure.benchmark import Bench

REFERENCE_SECONDS = 60.0  # for the answers of all rounds at one size, if they take long
LEAST_ROUNDS = 5
MOST_TIMES = 16  # as many rounds as asked for, while noise decides
MOST_SECONDS = 30.0  # for more rounds of one pair of processes


class CandidateTiming:
    """Times candidates at one size, in the same rounds as the space's own kernel, the `baseline`."""

    def __init__(
        self,
        device: Device,
        bench: Bench,
        problem: JudgedProblem,
        number: int,
        baseline: Entrant,
        drawing: Callable[[], Iterator[DrawnSet]],
        noted: Callable[[str], None],
    ) -> None:
        """`bench` and `number` are those of the problem, `drawing` draws sets of inputs that nobody has had."""
        self._device, self._problem, self._number, self._baseline = device, problem, number, baseline
        self._drawing, self._noted = drawing, noted
        self._bench = bench
        self._cost = 0.0 if not device.on_processor else math.inf  # ms, of a launch that does nothing

    def time(
        self, entrants: Sequence[Entrant], most_rounds: int, known: DrawnSet, empty: CandidateProcess | None
    ) -> None:
        """Time entrants, and refuse those that are wrong in a round or impossibly fast. A difference that the luck of a
        process may have made needs a second look, in new processes.

        `known` is a set of inputs at this size, `empty` a process that launches nothing; None on a GPU.
        """
        affordable = int(REFERENCE_SECONDS / max(known.inputs.seconds, 1e-6))
        count = max(LEAST_ROUNDS, min(most_rounds, affordable))
        # Fewer rounds than decide anything are asked for by whoever wants no decision.
        most = max(count, min(MOST_TIMES * count, affordable)) if count >= rounds.DECISIVE_ROUNDS else count
        if empty is not None:  # the least ever, so that no time is understated
            self._cost = min(self._cost, rounds.least_ms(empty, self._problem, known))
        looks = {entrant.name: [look] for entrant, look in self._look(entrants, count, most)}
        again = [
            entrant
            for entrant in entrants
            if entrant.is_in and rounds.decided(looks[entrant.name][0], self._cost) in DIFFERENT
        ]
        if again:
            self._baseline.start()
            for entrant in again:
                entrant.attempt(type(entrant).start)
            for entrant, look in self._look(again, count, most):
                looks[entrant.name].append(look)
        with turns.taken(self._device.place):
            library, floor = self._library(), self._floor()
        for entrant in entrants:
            if entrant.is_in:
                entrant.times.append(rounds.result(self._problem, looks[entrant.name], self._cost, library, floor))
                entrant.attempt(self._check_possible)

    def _look(self, entrants: Sequence[Entrant], count: int, most: int) -> list[tuple[Entrant, TimedLook]]:
        """The times of those that are right in all rounds of one pair of processes: `count` rounds, then more for those
        of which noise decides, as many again as there were. There are at most `most` rounds."""
        self._noted(f"timing {len(entrants)} at {size_text(self._problem.size)}")
        self._baseline.load(self._number)
        for entrant in entrants:
            entrant.attempt(functools.partial(type(entrant).load, number=self._number))
        looks = {entrant.name: TimedLook((), ()) for entrant in entrants}
        running = [entrant for entrant in entrants if entrant.is_in]
        end, done = time.monotonic() + MOST_SECONDS, 0
        while running and done < most and (not done or time.monotonic() < end):
            more = min(done or count, most - done)
            everybody = [self._baseline, *running]
            times = rounds.timed(self._device, everybody, self._number, self._problem, self._drawing(), more)
            if (reason := self._baseline.reason) is not None:
                name = self._problem.space.name
                raise SpaceError(f"{name}: its own kernel is refused in a timed run: {reason.message}")
            running = [entrant for entrant in running if entrant.is_in]
            for entrant in running:
                looks[entrant.name] += TimedLook(times[entrant.name], times[self._baseline.name])
            running = [each for each in running if rounds.decided(looks[each.name], self._cost) == "undecided"]
            done += more
        return [(entrant, looks[entrant.name]) for entrant in entrants if entrant.is_in]

    def _library(self) -> tuple[str, float] | None:
        library = self._bench.workbench.library()
        times = self._bench.library() if library is not None else ()
        return (library.name, sorted(times)[len(times) // 2]) if library is not None and times else None

    def _floor(self) -> float | None:
        """The shortest time that memory and arithmetic allow, in ms; None if neither is known."""
        op, peak = self._problem.op, self._device.peak
        floors = [self._bench.floor_ms()]
        if op.flops is not None and peak is not None and peak.fastest_gflops:
            floors.append(float(op.flops.evaluate(self._problem.nominal.names)) / peak.fastest_gflops / 1e6)
        known = [floor for floor in floors if floor is not None]
        return max(known) if known else None

    def _check_possible(self, entrant: Entrant) -> None:
        latest = entrant.times[-1]
        if latest.floor_ms is not None and latest.time_ms < latest.floor_ms:
            raise Refusal(
                "impossible_time",
                f"{latest.time_ms:.4g} ms is impossible: memory and arithmetic of {self._device.name} need "
                f"{latest.floor_ms:.4g} ms",
                latest.size,
            )
