"""Results of measurements, frozen: an Outcome of one configuration, the Finals of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from tuner.devices.figures import NO_FIGURES, Figures
from tuner.errors import TrialError
from tuner.measure.timing.clock import spread

FINALS = "finals"  # the reason of a failure in the final round; its log begins with the reason there
# Reasons of failures that show a result to be wrong. A run whose time is impossible has not done its work when it ends,
# or the file counts too many bytes; nobody can tell which, so nobody should be given it silently.
WRONG = frozenset(
    {"wrong result", "not a number", "wrong in a later run", "unfinished", "writes outside", "writes to an input",
     "scratch not zero", "impossible time"}
)  # fmt: skip
STAGES = BUILD, VERIFY, MEASURE = "build", "verify", "measure"  # of a trial


FoundWrong = Callable[[int, str], None]  # hears the position of a configuration, and why it failed


def rejection(failure: str) -> str | None:
    """What verification found wrong, in a failure that is written `reason: log`; None for failures of other kinds."""
    reason, _, log = failure.partition(": ")
    return log.strip().partition("\n")[0] if reason in WRONG else None


class FailedConfigs(dict[int, str]):
    """Why some of `count` configurations failed, as `reason: log` by their positions; later ones are the library's.
    `found_wrong` hears of each configuration whose result is wrong, as soon as that is known."""

    def __init__(self, count: int, found_wrong: FoundWrong = lambda *_: None) -> None:
        super().__init__()
        self.count, self._found_wrong = count, found_wrong

    def add(self, position: int, error: TrialError, when: str = "") -> None:
        """Keep why one failed, and `when`."""
        self[position] = f"{error.reason}: {when}{error}"
        if position < self.count and rejection(self[position]) is not None:
            self._found_wrong(position, self[position])


@dataclass(frozen=True)
class Outcome:
    """The measurement of one configuration: its times in ms, its largest error and the bound for it, the number of
    `wrong` elements that the tolerance allows; or why it failed.

    `energy_mj` is the energy of one run, where the method wants it. `failure` is a short reason and `log` explains it.
    `figures` and `occupancy` describe the build, where there is one. `doubtful`: it lost a race on a processor, and
    its times differ so much that other programs may have made all of them longer. `seconds` tells how long each of the
    STAGES kept the device's worker, as far as the trial came; building includes the wait for a compile worker.
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
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def reason(self) -> str | None:
        """Why it failed, in the final round too."""
        return self.log.partition(":")[0] if self.failure == FINALS else self.failure

    @property
    def rejection(self) -> str | None:
        """What verification found wrong, if that is why it failed."""
        return rejection(self.log if self.failure == FINALS else f"{self.failure}: {self.log}")

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        values = {**data, "times": tuple(data["times"]), "figures": Figures.from_json(data["figures"])}
        return Outcome(**values)


@dataclass(frozen=True)
class Sustained:
    """A run among many: its mean time in ms, the median clock in MHz and the mean power in W meanwhile, None where the
    board does not tell."""

    time_ms: float
    clock_mhz: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class Final:
    """The second measurement of one candidate: a time in ms per round, or why it failed.

    `library` names the vendor's routine, where the candidate is one. `energy_mj` is the energy of one run, where the
    method wants it. `sustained` is a run among many back to back, where that was asked for.
    """

    times: tuple[float, ...] = ()
    library: str | None = None
    failure: str | None = None
    energy_mj: float | None = None
    sustained: Sustained | None = None

    @property
    def time_ms(self) -> float:
        """The median."""
        return median(self.times)

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return spread(self.times)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Final:
        sustained = Sustained(**data["sustained"]) if data["sustained"] else None
        return Final(**{**data, "times": tuple(data["times"]), "sustained": sustained})


@dataclass(frozen=True)
class Finals:
    """A Final for each candidate, in order, and where there are any, one for the vendor's `library`, as it chooses to
    run, and one for the `best_library`, the fastest of the ways in which it can.

    `clock_mhz` is the median clock in MHz during the rounds, `throttled` what held it down. `launch_ms` is the time of
    a kernel that does nothing, where a candidate is short. The results were right on `input_sets` sets of inputs.
    `skipped_mutants` names the wrong outputs that the check need not reject, because they equal the right one, or are
    allowed.
    """

    candidates: list[Final] = field(default_factory=list)
    library: Final | None = None
    best_library: Final | None = None
    clock_mhz: float | None = None
    throttled: list[str] = field(default_factory=list)
    launch_ms: float | None = None
    input_sets: int = 1
    skipped_mutants: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def joined(parts: Sequence[Finals]) -> Finals:
        """The Finals of all candidates of `parts`, in order. Parts that have no time left count for nothing else."""
        timed = [part for part in parts if any(final.times for final in part.candidates)]
        clocks = [part.clock_mhz for part in timed if part.clock_mhz is not None]
        return Finals(
            candidates=[final for part in parts for final in part.candidates],
            library=next((part.library for part in timed if part.library), None),
            best_library=next((part.best_library for part in timed if part.best_library), None),
            clock_mhz=median(clocks) if clocks else None,
            throttled=sorted({reason for part in timed for reason in part.throttled}),
            launch_ms=min((part.launch_ms for part in timed if part.launch_ms is not None), default=None),
            input_sets=min((part.input_sets for part in timed), default=1),
            skipped_mutants=list(dict.fromkeys(mutant for part in timed for mutant in part.skipped_mutants)),
        )

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Finals:
        candidates = [Final.from_json(candidate) for candidate in data["candidates"]]
        anchors = {name: Final.from_json(data[name]) if data[name] else None for name in ("library", "best_library")}
        return Finals(**{**data, "candidates": candidates, **anchors})
