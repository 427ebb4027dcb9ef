"""Who is judged: a candidate, or the space's own kernel, with what is known of it so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner.judging.comparison import ComparedRuns
from tuner.judging.isolation import USER
from tuner.judging.sanitizer import NOT_ASKED
from tuner.judging.verdict import ACCEPTED, REFUSED, CandidateVerdict, Errors, JudgedTimes, Reason, Refusal

if TYPE_CHECKING:
    from tuner.devices.built import Built
    from tuner.judging.contender import CandidateProcess
    from tuner.space.config import Config
    from tuner.space.model import Space

# Codes of reasons: of wrong outputs, and of what a kernel may not write.
WRONG = frozenset({"wrong", "wrong_hidden_size", "wrong_timed_run", "wrong_repeated_run", "unwritten", "unfinished"})
OUTSIDE = frozenset({"writes_input", "writes_outside"})


@dataclass
class Entrant:
    """A candidate, or the space's own kernel, while it is judged.

    `new_process` starts a process for it. `builds` are by the number of the problem, `compared` what its runs have
    shown at each. `reason` is set as soon as it is refused.
    """

    name: str
    sha256: str
    space: Space
    new_process: Callable[[], CandidateProcess]
    config: Config = field(default_factory=dict)
    contender: CandidateProcess | None = None
    builds: dict[int, Built] = field(default_factory=dict)
    compared: dict[int, ComparedRuns] = field(default_factory=dict)
    times: list[JudgedTimes] = field(default_factory=list)
    reason: Reason | None = None
    compiles: bool = False
    launches: bool = False
    sanitizer: str = NOT_ASKED
    bits_repeat: bool | None = None
    isolation: list[str] | None = None  # None: it has had no process

    @property
    def is_in(self) -> bool:
        """Whether it has not been refused."""
        return self.reason is None

    @property
    def runs(self) -> int:
        return sum(compared.runs for compared in self.compared.values())

    def attempt(self, step: Callable[[Entrant], None]) -> None:
        """Take a step if it is still in; refuse it if the step does."""
        if self.is_in:
            try:
                step(self)
            except Refusal as refusal:
                self.refuse(refusal.reason)
        if not self.is_in:
            self.close()

    def start(self) -> None:
        """Start its process, in place of one that it may have. Raises EnvironmentTrouble."""
        self.close()
        self.contender = self.new_process()
        self.isolation = self.contender.isolation

    def load(self, number: int) -> None:
        """Load the build for a problem. Raises Refusal."""
        assert self.contender is not None
        self.contender.load(self.builds[number])

    def close(self) -> None:
        """End its process."""
        if self.contender is not None:
            self.contender.close()
            self.contender = None

    def refuse(self, reason: Reason) -> None:
        """Refuse it, and end its process."""
        self.reason = reason
        self.close()

    def verdict(self, baseline: Entrant, on_processor: bool) -> CandidateVerdict:
        """What is said of it, beside the space's own kernel, the `baseline`, when all has been tried."""
        codes = set[str]() if self.reason is None else {self.reason.code}
        if "sanitizer" in codes:
            self.sanitizer = "found an error"
        guards = "damaged" if OUTSIDE & codes else "whole" if self.runs else "not tried"
        return CandidateVerdict(
            candidate=self.name,
            sha256=self.sha256,
            verdict=ACCEPTED if self.is_in else REFUSED,
            reasons=[] if self.reason is None else [self.reason],
            compiles=self.compiles,
            launches=self.launches,
            right=False if WRONG & codes else True if self.runs else None,
            safe={"guards": guards, "sanitizer": self.sanitizer},
            bits_repeat=self.bits_repeat,
            errors=self._errors(baseline),
            times=self.times,
            config=dict(self.config),
            runs=self.runs,
            isolation=self.isolation or [],
            trusted_code_only=on_processor and self.isolation is not None and USER not in self.isolation,
        )

    def _errors(self, baseline: Entrant) -> Errors | None:
        """The errors at the first problem where an output was wrong, else at the first of all."""
        found = sorted(self.compared.items())
        wrong = [each for each in found if each[1].worst is not None and each[1].worst.wrong]
        for number, compared in wrong or found:
            if (worst := compared.worst) is not None:
                return replace(worst, baseline=baseline.compared.get(number, ComparedRuns()).relative(worst.output))
        return None
