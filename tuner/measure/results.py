"""Results of measurements, as frozen values: an Outcome for one configuration, Finals for several."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from statistics import median
from typing import Any

from tuner.classes import dataclass
from tuner.devices.builds.figures import NO_FIGURES, Figures
from tuner.devices.environment import NOT_STORED
from tuner.errors import EnvironmentTrouble, TrialError
from tuner.measure.timing.clock import spread
from tuner.quoting import first_line
from tuner.space.values import bit_classes
from tuner.space.values.bit_classes import Bits

FINALS = "finals"  # the `failure` of an Outcome that failed in the final round; its log begins with the actual reason
# Failure reasons that mean a wrong result. An impossible time is one of them: either the run had not finished its work
# when the clock stopped, or the space file declares too many bytes. These cannot be told apart, so no look-up may
# return such a configuration.
WRONG = frozenset(
    {"wrong result", "not a number", "wrong in a later run", "unfinished", "writes outside", "writes to an input",
     "scratch not zero", "impossible time"}
)  # fmt: skip
NO_ROOM = "out of memory"  # a reason of failures
STAGES = BUILD, VERIFY, MEASURE = "build", "verify", "measure"  # the stages of a trial


FoundWrong = Callable[[int, str], None]  # called with the position of a configuration and why it is wrong


def rejection(failure: str) -> str | None:
    """The first line of the log if `failure`, written `reason: log`, means a wrong result; otherwise None."""
    reason, _, log = failure.partition(": ")
    return first_line(log) if reason in WRONG else None


def lacked_room(failure: str | None) -> bool:
    """Whether `failure`, written `reason: log`, is a lack of memory, which a configuration alone may not meet."""
    return failure is not None and failure.partition(":")[0] == NO_ROOM


def check_is_own(error: TrialError) -> None:
    """Raise EnvironmentTrouble if an error of a driver says nothing of the kernel."""
    if error.reason in NOT_STORED:
        raise EnvironmentTrouble(str(error), error.reason)


class FailedConfigs(dict[int, str]):
    """Why configurations failed, as `reason: log` by position.

    Positions from `count` on belong to the vendor library. `found_wrong` is called at once for each configuration whose
    result is wrong.
    """

    def __init__(self, count: int, found_wrong: FoundWrong = lambda *_: None) -> None:
        super().__init__()
        self.count, self._found_wrong = count, found_wrong

    def add(self, position: int, error: TrialError, when: str = "") -> None:
        """Record why the configuration at `position` failed; `when` is put before the error's text. Raises
        EnvironmentTrouble if it did not fail by itself."""
        check_is_own(error)
        self[position] = f"{error.reason}: {when}{error}"
        if position < self.count and rejection(self[position]) is not None:
            self._found_wrong(position, self[position])


@dataclass(frozen=True)
class Outcome:
    """The measurement of one configuration: its times in ms and its verdict, or why it failed.

    `error` is the largest error and `bound` the tolerance for it. `wrong` counts the wrong elements that the tolerance
    allows. `energy_mj` is the energy of one run, if the method measures it. `failure` is a short reason; `log` explains
    it. `figures` and `occupancy` describe the build, if there is one. `doubtful`: the configuration lost a race on a
    processor, but its times vary so much that other programs may have slowed it down. `observed` has the results of
    observers. `bits` are those of the outputs that were right. `seconds` is how long each of the STAGES occupied the
    device's worker; building includes the wait for a compile worker. `clock_mhz` is the GPU's clock after the timed
    runs, if the method does not race and the board reports it.
    """

    times: tuple[float, ...] = ()
    error: float = 0.0
    bound: float = 0.0
    wrong: int = 0
    energy_mj: float | None = None
    failure: str | None = None
    log: str = ""
    figures: Figures = NO_FIGURES
    occupancy: float | None = None
    doubtful: bool = False
    observed: Mapping[str, Any] = field(default_factory=dict)
    bits: Bits = field(default_factory=dict, compare=False)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    clock_mhz: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def reason(self) -> str | None:
        """Why the configuration failed, also if it failed in the final round."""
        return self.log.partition(":")[0] if self.failure == FINALS else self.failure

    @property
    def rejection(self) -> str | None:
        """What verification found wrong; None if the configuration did not fail verification."""
        return rejection(self.log if self.failure == FINALS else f"{self.failure}: {self.log}")

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        values = {**data, "times": tuple(data["times"]), "figures": Figures.from_json(data["figures"])}
        return Outcome(**values)


@dataclass(frozen=True)
class Sustained:
    """A configuration run back to back: mean time in ms, median clock in MHz and mean power in W.

    Clock and power are None if the board does not report them.
    """

    time_ms: float
    clock_mhz: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class Final:
    """The result of one candidate in the final round: a time in ms for each round, or why it failed.

    `library` names the vendor library's routine if the candidate is one. `energies` are energies of one run in mJ, one
    for each round, if the method measures energy. `sustained` is set if the candidate also ran back to back. `bits` are
    those of its right outputs. If rounds ran in several processes, `processes` has the number of those in each one.
    """

    times: tuple[float, ...] = ()
    library: str | None = None
    failure: str | None = None
    energies: tuple[float, ...] = ()
    sustained: Sustained | None = None
    bits: Bits = field(default_factory=dict, compare=False)
    processes: tuple[int, ...] = ()

    def and_later(self, later: Final) -> Final:
        """This Final with the times of more rounds, in another process. It has failed if either has."""
        failure = self.failure or later.failure
        return replace(
            self,
            times=() if failure else self.times + later.times,
            failure=failure,
            bits=bit_classes.joined([self.bits, later.bits]),
            processes=() if failure else tuple(map(len, (*self.by_process, *later.by_process))),
        )

    @property
    def by_process(self) -> list[tuple[float, ...]]:
        """The times of each process."""
        ends = [*itertools.accumulate(self.processes or [len(self.times)])]
        return [self.times[begin:end] for begin, end in itertools.pairwise([0, *ends])]

    @property
    def time_ms(self) -> float:
        """The median time in ms."""
        return median(self.times)

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return spread(self.times)

    @property
    def energy_mj(self) -> float | None:
        """The median energy in mJ; None if unknown."""
        return median(self.energies) if self.energies else None

    @property
    def energy_spread(self) -> float | None:
        """Interquartile range over median of the energies; None if unknown."""
        return spread(self.energies) if self.energies else None

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Final:
        sustained = Sustained(**data["sustained"]) if data["sustained"] else None
        tuples = {name: tuple(data[name]) for name in ("times", "energies", "processes")}
        return Final(**{**data, **tuples, "sustained": sustained})


@dataclass(frozen=True)
class Repeated:
    """How many runs of a configuration were compared one after the other, all right unless it has a `failure`, and the
    bits of their outputs."""

    runs: int
    failure: str | None = None
    bits: Bits = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Verified:
    """The verification of a configuration without timing: why it failed, None if it is right, and its outputs' bits."""

    failure: str | None = None
    bits: Bits = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Finals:
    """The results of the final round: a Final for each candidate, in order, and the vendor library's.

    `library` is the vendor library's default algorithm; `best_library` the fastest of its algorithms. `clock_mhz` is
    the median clock in MHz during the rounds, `throttled` the reasons why the board lowered it. `launch_ms` is the
    launch overhead, measured if a candidate is short. Results were right on `input_sets` input sets. `skipped_mutants`
    names the mutants that need not be rejected, because they equal the answer or are allowed, and those that were not
    tried; `accepted_mutants` those of precision that the tolerance accepts, None if unknown.
    """

    candidates: list[Final] = field(default_factory=list)
    library: Final | None = None
    best_library: Final | None = None
    clock_mhz: float | None = None
    throttled: list[str] = field(default_factory=list)
    launch_ms: float | None = None
    input_sets: int = 1
    skipped_mutants: list[str] = field(default_factory=list)
    accepted_mutants: list[str] | None = None

    @property
    def rounds(self) -> int:
        """The number of rounds that every right candidate ran in; 0 if there is none."""
        return min((len(final.times) for final in self.candidates if final.failure is None), default=0)

    @property
    def shortest_ms(self) -> float:
        """The shortest time in ms; infinite if everything failed."""
        finals = (*self.candidates, self.library, self.best_library)
        return min((final.time_ms for final in finals if final and final.times and not final.failure), default=math.inf)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def and_later(self, later: Finals, places: Sequence[int]) -> Finals:
        """These Finals with those of more rounds in another process, of the candidates at `places`."""
        candidates = [*self.candidates]
        for place, final in zip(places, later.candidates, strict=True):
            candidates[place] = candidates[place].and_later(final)
        libraries = {
            name: one.and_later(two)
            if (one := getattr(self, name)) and (two := getattr(later, name)) and one.library == two.library
            else one
            for name in ("library", "best_library")
        }
        return replace(Finals.joined([self, later]), candidates=candidates, **libraries)

    @staticmethod
    def joined(parts: Sequence[Finals]) -> Finals:
        """The Finals of all candidates of `parts`, in order.

        Parts in which no candidate has a time contribute their candidates alone.
        """
        timed = [part for part in parts if any(final.times for final in part.candidates)]
        clocks = [part.clock_mhz for part in timed if part.clock_mhz is not None]
        accepted = [part.accepted_mutants for part in timed if part.accepted_mutants is not None]
        return Finals(
            candidates=[final for part in parts for final in part.candidates],
            library=next((part.library for part in timed if part.library), None),
            best_library=next((part.best_library for part in timed if part.best_library), None),
            clock_mhz=median(clocks) if clocks else None,
            throttled=sorted({reason for part in timed for reason in part.throttled}),
            launch_ms=min((part.launch_ms for part in timed if part.launch_ms is not None), default=None),
            input_sets=min((part.input_sets for part in timed), default=1),
            skipped_mutants=list(dict.fromkeys(mutant for part in timed for mutant in part.skipped_mutants)),
            accepted_mutants=list(dict.fromkeys(mutant for part in accepted for mutant in part)) if accepted else None,
        )

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Finals:
        candidates = [Final.from_json(candidate) for candidate in data["candidates"]]
        anchors = {name: Final.from_json(data[name]) if data[name] else None for name in ("library", "best_library")}
        return Finals(**{**data, "candidates": candidates, **anchors})
