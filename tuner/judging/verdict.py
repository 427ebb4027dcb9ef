"""The verdict on a candidate, and the reasons for which one is refused."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass

if TYPE_CHECKING:
    from tuner.store.verdicts import Comparison

ACCEPTED, REFUSED = "accepted", "refused"

# The reasons of a refusal, which programs may read.
REASONS = {
    "compile": "the compiler rejects the text; the message is its log",
    "compile_timeout": "the compiler does not finish",
    "compile_crash": "the compiler crashes",
    "signature": "the kernel is missing, or takes other parameters than the space's",
    "resources": "one block needs more than the device has",
    "launch": "the kernel does not load or launch, or it faults",
    "crash": "the kernel ends its process, or damages it",
    "timeout": "a launch does not finish",
    "wrong": "an output is wrong at a size that the candidate may know",
    "wrong_hidden_size": "an output is wrong at a size that the candidate was not told, or with other options",
    "wrong_timed_run": "right at first, an output is wrong in a run that was timed",
    "wrong_repeated_run": "right when it was timed, an output is wrong in one of the runs that follow",
    "unwritten": "elements of an output still hold what was there before the run, all wrong ones among them",
    "unfinished": "the outputs become right only after the launch is said to have ended",
    "ignores_inputs": "the outputs are within the tolerance, but hardly depend on the inputs",
    "less_precise": "the outputs are within the tolerance, but far less precise than those of the space's own kernel",
    "writes_input": "the kernel writes to an array that it may only read",
    "writes_outside": "the kernel writes before or after an array, or behind its rows",
    "left_processes": "the kernel starts a process",
    "runs_while_stopped": "the kernel's process runs while it should be stopped",
    "sanitizer": "compute-sanitizer finds an error",
    "impossible_time": "no device can be so fast: the work is not done within the time",
}


@dataclass(frozen=True)
class Reason:
    """Why a candidate is refused: a code of REASONS, and what was found. `size` is where it was found, if anywhere."""

    code: str
    message: str
    size: dict[str, int] | None = None


class Refusal(Exception):
    """Ends the judgement of one candidate."""

    def __init__(self, code: str, message: str, size: dict[str, int] | None = None) -> None:
        super().__init__(message)
        self.reason = Reason(code, message, size)


@dataclass(frozen=True)
class Errors:
    """How an output differs from its answer, over all runs so far.

    `worst` is the largest error, at the element `where` of the output `output`, where `bound` is allowed. `wrong` of
    `elements` are off by more. `relative` is the root mean square of the errors over that of the answers, `baseline`
    the same of the space's own kernel.
    """

    worst: float
    bound: float
    output: str
    where: str
    wrong: int
    elements: int
    relative: float
    baseline: float | None = None


@dataclass(frozen=True)
class JudgedTimes:
    """Times at one size, in ms, each run being on inputs that the process had never had.

    `interval` holds the median `time_ms` with a probability of 99 % (fewer than eight rounds: less, see the page
    Measuring). `speedup` is `baseline_ms` over `time_ms`: the low end of its interval, the median, the high end.
    `decision` is `faster`, `slower`, `as fast` or `undecided`. `floor_ms` is the shortest time that the device's memory
    and arithmetic allow, if it is known.
    """

    size: dict[str, int]
    rounds: int
    time_ms: float
    interval: tuple[float, float]
    baseline_ms: float
    speedup: tuple[float, float, float]
    decision: Comparison
    library: str | None = None
    library_ms: float | None = None
    floor_ms: float | None = None


@dataclass(frozen=True)
class CandidateVerdict:
    """What is known of one candidate.

    `verdict` is `accepted` or `refused`; then `reasons` says why. `right` is None if nothing was compared, `safe` what
    was found by `guards` and `sanitizer`. `bits_repeat` says whether equal inputs gave equal bits, None if that was not
    tried. `isolation` names what the candidate's process had of its own; with `trusted_code_only`, that is too little
    for code with intent. `runs` counts the compared runs.
    """

    candidate: str
    sha256: str
    verdict: str
    reasons: list[Reason] = field(default_factory=list)
    compiles: bool = False
    launches: bool = False
    right: bool | None = None
    safe: dict[str, str] = field(default_factory=dict)
    bits_repeat: bool | None = None
    errors: Errors | None = None
    times: list[JudgedTimes] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    runs: int = 0
    isolation: list[str] = field(default_factory=list)
    trusted_code_only: bool = False

    @property
    def is_accepted(self) -> bool:
        return self.verdict == ACCEPTED

    @property
    def codes(self) -> list[str]:
        """The codes of its reasons."""
        return [reason.code for reason in self.reasons]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> CandidateVerdict:
        """The verdict that `to_json` wrote, after a round trip through JSON."""
        times = [
            JudgedTimes(**{**each, "interval": tuple(each["interval"]), "speedup": tuple(each["speedup"])})
            for each in data["times"]
        ]
        errors = Errors(**data["errors"]) if data["errors"] else None
        reasons = [Reason(**each) for each in data["reasons"]]
        return CandidateVerdict(**{**data, "times": times, "errors": errors, "reasons": reasons})
