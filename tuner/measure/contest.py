"""The contest of the final round: verified configurations and the vendor library are measured in turns."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from tuner.devices.builds.figures import NO_FIGURES
from tuner.errors import TrialError
from tuner.measure.contestants import Contestant, Instruments, Turns
from tuner.measure.method import Method, objective_values
from tuner.measure.results import FailedConfigs, Final, Finals
from tuner.measure.sustained import LEAST_SUSTAINED_MS
from tuner.measure.timing.clock import interleave

if TYPE_CHECKING:
    from tuner.devices.base import Library
    from tuner.devices.forking import Kept

ENERGY_ROUNDS, FEWEST_ENERGY_ROUNDS = 4, 2
MOST_TURNS = 30  # of all contestants in the energy rounds, unless there are FEWEST_ENERGY_ROUNDS


class Contest:
    """The contestants of a final round by position: the candidates, then the vendor library's algorithms.

    A contestant that fails is in `failures`, and takes no further part.
    """

    def __init__(
        self,
        instruments: Instruments,
        method: Method,
        candidates: Mapping[int, Kept],
        libraries: Sequence[Library],
        failures: FailedConfigs,
    ) -> None:
        """The first of `libraries` is the default algorithm. `failures` has the candidates that did not get here."""
        self._with, self._method, self._libraries, self._failures = instruments, method, libraries, failures
        self._end = failures.count  # the position of the first library
        self._contestants = {**candidates, **dict(enumerate(map(self._kept, libraries), self._end))}

    def _kept(self, library: Library) -> Kept:
        return self._with.device.isolation.keep(functools.partial(Contestant, self._with, library))

    def finals(self, seconds: float, sustained: float | None, most_rounds: int) -> Finals:
        """Measure all contestants in rounds of about `seconds` in all, and verify the candidates once more.

        If `sustained` is given, the best candidate and the library then run back to back in periods of that many
        seconds.
        """
        positions = [*self._contestants]
        rounds = interleave(
            self._with.device,
            Turns(self._with.workbench.rotation),
            [*self._contestants.values()],
            seconds,
            lambda i, error: self._failures.add(positions[i], error),
            most_rounds,
        )
        times = dict(zip(positions, rounds.times, strict=True))
        energies = self._energies(times)
        for position in [position for position in self._remaining if position < self._end]:
            try:
                self._contestants[position].ask("verify", median(times[position]))
            except TrialError as error:
                self._failures.add(position, error)
        bits = {position: self._contestants[position].ask("bits") for position in self._remaining}
        names = [None] * self._end + [library.name for library in self._libraries]
        finals = {
            position: Final(
                times.get(position, ()),
                name,
                self._failures.get(position),
                energies.get(position, ()),
                bits=bits.get(position, {}),
            )
            for position, name in enumerate(names)
        }
        anchors = self._anchors(finals)
        if sustained is not None:
            self._sustain(finals, [*anchors.values()], sustained)
        return Finals(
            candidates=[finals[position] for position in range(self._end)],
            library=finals.get(anchors.get("library", -1)),
            best_library=finals.get(anchors.get("best_library", -1)),
            clock_mhz=median(rounds.clocks) if rounds.clocks else None,
            throttled=sorted(rounds.throttled),
        )

    @property
    def _remaining(self) -> list[int]:
        return [position for position in self._contestants if position not in self._failures]

    def _anchors(self, finals: Mapping[int, Final]) -> dict[str, int]:
        """The positions of the library's default and of the fastest of its other algorithms, by field of Finals."""
        libraries = [position for position in self._remaining if position >= self._end]
        anchors = {"library": self._end} if self._end in libraries else {}
        if others := [position for position in libraries if position > self._end]:
            anchors["best_library"] = min(others, key=lambda position: finals[position].time_ms)
        return anchors

    def _energies(self, times: Mapping[int, Sequence[float]]) -> dict[int, tuple[float, ...]]:
        """The energies of each contestant in mJ, from rounds in which they take turns."""
        energies: dict[int, tuple[float, ...]] = {}
        if not self._method.wants_energy:
            return energies
        rounds = max(FEWEST_ENERGY_ROUNDS, min(ENERGY_ROUNDS, MOST_TURNS // max(1, len(self._contestants))))
        for _ in range(rounds):
            for position in self._remaining:
                try:
                    found = self._contestants[position].ask("energies", median(times[position]))
                    energies[position] = (*energies.get(position, ()), *found)
                except TrialError as error:
                    self._failures.add(position, error)
        return energies

    def _sustain(self, finals: dict[int, Final], anchors: Sequence[int], seconds: float) -> None:
        """Run the best candidate and the libraries at `anchors` back to back, and put their times into `finals`.

        Each runs in periods of `seconds`. If an output of the candidate becomes wrong, the candidate fails and the next
        best takes its place.
        """
        others = [(self._libraries[position - self._end], finals[position].time_ms) for position in anchors]
        while right := [position for position in self._remaining if position < self._end]:
            best = min(right, key=lambda position: self._objective_value(finals[position]))
            if finals[best].time_ms < LEAST_SUSTAINED_MS:
                return
            try:
                measured = self._contestants[best].ask("sustain", finals[best].time_ms, others, seconds)
            except TrialError as error:
                self._failures.add(best, error, "back to back: ")
                finals[best] = replace(finals[best], failure=self._failures[best])
                continue
            for position, sustained in zip([best, *anchors], measured, strict=True):
                finals[position] = replace(finals[position], sustained=sustained)
            return

    def _objective_value(self, final: Final) -> float:
        """The value of the method's first objective, which decides which configuration is best."""
        return objective_values(self._method.objectives[:1], final.time_ms, final.energy_mj, NO_FIGURES)[0]
