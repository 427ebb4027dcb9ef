"""`tune check`: for each record, the best by the present source beside that of an earlier source, and the library."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tuner import devices
from tuner.classes import dataclass
from tuner.errors import (
    DeviceError,
    EnvironmentTrouble,
    NoConfiguration,
    RequestError,
    SpaceError,
    TrialError,
    WorkerDied,
)
from tuner.measure.method import Method
from tuner.measure.process.attempts import own_failure, with_retries
from tuner.measure.process.task import Task, announce
from tuner.measure.results import NO_ROOM, Final, lacked_room, rejection
from tuner.measure.rivals import Rivals
from tuner.quoting import first_line, shown
from tuner.space import deployments
from tuner.space.instance import Instance
from tuner.space.texts import full_problem_text
from tuner.store import rejected
from tuner.store.lookup import Query
from tuner.tuning.checking import cases as gathering
from tuner.tuning.checking import contest
from tuner.tuning.checking.cases import Case
from tuner.tuning.checking.checks import Check, Status
from tuner.tuning.checking.earlier import Against, Earlier, OtherRevision, OtherStore
from tuner.tuning.checking.revision import Revision
from tuner.tuning.checking.sources import Incomparable, chosen
from tuner.tuning.crew.crews import Crews
from tuner.tuning.ledger.trial import RESUME

if TYPE_CHECKING:
    from tuner.measure.results import Finals
    from tuner.space.config import Config
    from tuner.tuning.checking.contest import Score
    from tuner.tuning.crew.crew import Crew

T = TypeVar("T")
LAST = "HEAD"  # the revision to compare with by default


@dataclass(frozen=True)
class CheckRequest:
    """What to check. No kernels: all that the user's store has. `against` is a folder of records, or a revision.
    `allowed` is the ratio above which a kernel fails, `seconds` the most for the rounds of one record."""

    kernels: tuple[str, ...] = ()
    against: str = LAST
    device: str | None = None
    results: Path | None = None
    allowed: float = 1.05
    seconds: float = contest.MOST_SECONDS


class Checking:
    """A check of several records, as a context manager: `label` says what with, `count` how many there are."""

    def __init__(self, request: CheckRequest, noted: Callable[[str], None]) -> None:
        """`noted` is called with messages for the user."""
        self._request, self._noted, self._block = request, noted, contextlib.ExitStack()

    def __enter__(self) -> Checking:
        """Find the records. Raises RequestError if there are none, or nothing to compare them with."""
        request = self._request
        with contextlib.ExitStack() as block:
            is_store = Path(request.against).is_dir()
            revision = None if is_store else block.enter_context(Revision(request.against))
            self._crews = block.enter_context(Crews(self._noted))
            self._found = gathering.found(request.kernels, request.results, request.device, self._crews.noted)
            self._check_any()
            self._against: Against = (
                OtherRevision(revision, request.results, self._found.cases)
                if revision is not None
                else OtherStore(Path(request.against))
            )
            self._block = block.pop_all()
        self.label, self.count = self._against.label, len(self._found.cases) + len(self._found.unusable)
        return self

    def __exit__(self, *error: object) -> None:
        self._block.close()

    def _check_any(self) -> None:
        found = self._found
        not_checked = f"records that are not checked: {found.left_out}" if found.left_out else ""
        if not found.cases and not found.unusable:
            what = " ".join(map(shown, self._request.kernels)) or "the store"
            on = f" on {self._request.device}" if self._request.device else " on the devices of this machine"
            raise RequestError(
                f"{what}: no record to check{on}{f'; {not_checked}' if not_checked else ''}; tune a kernel first, or "
                "name a store by --results"
            )
        if not_checked:
            self._noted(not_checked)

    def checks(self) -> Iterator[Check]:
        """Check one record after the other. Raises EnvironmentTrouble if the machine stays in trouble."""
        for name, error in self._found.unusable.items():
            status: Status = "broken" if gathering.is_broken(error) else "not checked"
            yield Check(name, "", "", status, str(error))
        for case in self._found.cases:
            began = time.monotonic()
            yield replace(self._checked(case), seconds=time.monotonic() - began)

    def _checked(self, case: Case) -> Check:
        space, record, op = case.space, case.record, case.space.operation
        options = {name: record.options.get(name, default) for name, default in op.options.items()}
        check = Check(
            space.name, record.device, full_problem_text(record.sizes, record.types, options, op.options),
            "not checked", sizes=record.sizes, types=record.types, options=options,
        )  # fmt: skip
        if not gathering.is_of_operation(record, op):
            return replace(check, reason="the kernel has no such sizes or types any more; tune it again")
        scope = op.scope(record.sizes, options, case.device.language, case.device.limits, record.types)
        try:
            config = chosen(space, scope, case.records)
        except NoConfiguration as error:
            return replace(check, status="broken", reason=str(error))
        is_recorded = config == record.config
        check = replace(check, config=config, recorded_ms=record.time_ms if is_recorded else None)
        earlier, why_not = None, ""
        try:
            earlier = self._against.earlier(case, scope)
        except Incomparable as reason:
            why_not = str(reason)
        if earlier is not None:
            check = replace(check, earlier_config=earlier.config)
            if earlier.is_unchanged(config):
                return replace(check, status="unchanged", reason="the same source and configuration")
        announce(space, self._crews.noted)
        method = Method(deployment=deployments.of_caches(record.caches) or deployments.ISOLATED)
        task = Task(space, dict(record.sizes), options, method, types=dict(record.types))
        try:
            with self._crews.on(task, [case.device.id]) as crew:
                return _Examination(crew, config, self._request, self._noted).of(check, earlier, why_not)
        except SpaceError as error:
            return replace(check, status="broken", reason=str(error))
        except EnvironmentTrouble as error:
            text = str(error).removesuffix(f"; {RESUME}")
            raise EnvironmentTrouble(f"{space.name} at {check.problem}: {text}", error.reason) from None
        except DeviceError as error:
            return replace(check, reason=str(error))


class _Examination:
    """The examination of one configuration by a crew, beside an earlier one if there is one."""

    def __init__(self, crew: Crew, config: Config, request: CheckRequest, noted: Callable[[str], None]) -> None:
        self._crew, self._config, self._request, self._noted = crew, config, request, noted
        self._space, self._scope, self._device = crew.task.space, crew.scope, crew.device

    def of(self, check: Check, earlier: Earlier | None, why_not: str) -> Check:
        """The check with what came of it. `why_not` says why there is no earlier one."""
        if (failure := self._failure(lambda: self._crew.build(self._config))) is not None:
            return self._failed(check, failure)
        if earlier is not None:
            there = earlier
            failure = self._failure(lambda: self._crew.build(there.config, there.space))
            if failure is not None:
                earlier, why_not = None, f"the earlier one does not build: {first_line(failure)}"
        verified = self._verified(check)
        if verified.has_failed:
            return verified
        if earlier is None:
            return replace(verified, reason=why_not)
        if self._is_same_code(earlier):
            return replace(verified, status="unchanged", reason="the same code")
        try:
            look = functools.partial(self._look, earlier)
            restart, request = self._crew.lead.close, self._request
            on_processor = self._crew.lead.device.on_processor
            score = contest.held(look, restart, request.allowed, request.seconds, on_processor)
        except (WorkerDied, TrialError, EnvironmentTrouble) as error:
            return self._one_by_one(check, earlier, own_failure(error))
        except SpaceError as error:  # of the earlier one: this one was verified
            return replace(verified, reason=str(error))
        if any(map(lacked_room, score.failed)):
            return self._one_by_one(check, earlier, NO_ROOM)
        return self._scored(check, score)

    def _scored(self, check: Check, score: Score, reason: str = "") -> Check:
        own, other = score.failed
        if own is not None:
            return self._failed(check, own + ("; the earlier one fails, too" if other is not None else ""))
        if other is not None:
            return replace(check, status="not compared", reason=f"the earlier one fails: {first_line(other)}")
        return replace(
            check,
            status=score.verdict,
            reason=reason,
            ratio=score.ratio,
            time_ms=score.time_ms,
            earlier_ms=score.other_ms,
            rounds=score.rounds,
            is_loss=score.is_loss,
            library=score.library,
            vs_library=score.library_ms / score.time_ms if score.library_ms and score.time_ms else None,
        )

    def _look(self, earlier: Earlier, seconds: float, rounds: int, with_library: bool) -> Finals:
        """Rounds of both, for a contest."""
        is_same_space = earlier.space is self._space
        configs = [self._config, *([earlier.config] if is_same_space else [])]
        rivals = None if is_same_space else Rivals(earlier.space, (earlier.config,))
        return self._retried(
            lambda: self._crew.lead.finals(
                configs, seconds, with_library, quick=True, rivals=rivals, most_rounds=rounds
            )
        )

    def _one_by_one(self, check: Check, earlier: Earlier, why: str) -> Check:
        """The check if both failed to run together: each is measured by itself."""
        own = self._single([self._config], None)
        if earlier.space is self._space:
            other = self._single([earlier.config], None)
        else:
            other = self._single([], Rivals(earlier.space, (earlier.config,)))
        reason = f"measured one after the other, because together they failed: {first_line(why)}"
        return self._scored(check, contest.apart(own, other, self._request.allowed), reason)

    def _single(self, configs: list[Config], rivals: Rivals | None) -> Final:
        """The Final of one configuration by itself."""
        finals = functools.partial(self._crew.lead.finals, configs, with_library=False, quick=True, rivals=rivals)
        try:
            return self._retried(finals).candidates[0]
        except (WorkerDied, TrialError, EnvironmentTrouble) as error:
            return Final(failure=own_failure(error))

    def _verified(self, check: Check) -> Check:
        """The check of a configuration that is verified, and compared with nothing."""
        failure = self._failure(lambda: self._crew.lead.verify([self._config])[0].failure)
        return replace(check, status="not compared") if failure is None else self._failed(check, failure)

    def _failed(self, check: Check, failure: str) -> Check:
        if (wrong := rejection(failure)) is None:
            return replace(check, status="broken", reason=failure)
        rejected.keep(Query.of(self._space, self._scope, self._device), [(self._config, wrong)])
        return replace(check, status="wrong", reason=failure)

    def _failure(self, action: Callable[[], str | None]) -> str | None:
        """What `action` returns, or why it failed."""
        try:
            return self._retried(action)
        except (WorkerDied, TrialError, EnvironmentTrouble) as error:
            return own_failure(error)

    def _retried(self, action: Callable[[], T]) -> T:
        return with_retries(action, self._noted)

    def _is_same_code(self, earlier: Earlier) -> bool:
        """Whether both certainly have the same code and launch, by their builds."""
        from tuner.devices.builds import equal_code

        one = Instance(self._space, self._config, self._scope)
        other = Instance(earlier.space, earlier.config, self._scope)
        return equal_code.is_same(one, other, devices.cached_builds(self._device))
