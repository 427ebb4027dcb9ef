"""The judge: the process that holds inputs, answers and the clock, and lets the processes of candidates run.

It never loads a candidate itself. Its first request is the task, and the reply describes the device. Each later request
has candidates, and the reply has their verdicts.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner import devices
from tuner.errors import SpaceError
from tuner.judging import hidden_sizes, memory, rounds, sanitizer
from tuner.judging.builder import Builder
from tuner.judging.contender import CandidateProcess
from tuner.judging.entrant import Entrant
from tuner.judging.isolation import hide_memory
from tuner.judging.knobs import KnobSearch
from tuner.judging.problem import JudgedProblem
from tuner.judging.timing import CandidateTiming
from tuner.judging.verdict import Refusal
from tuner.measure import turns
from tuner.measure.answers import function_objects
from tuner.measure.answers.referee import Referee
from tuner.measure.method import TIMEOUT
from tuner.measure.process import replies
from tuner.measure.verify import other_options
from tuner.space import launch_form, snapshot
from tuner.space.answers.cache import ReferenceCache
from tuner.space.default import first_valid
from tuner.space.scope import Scope
from tuner.space.texts import config_text, size_text

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.judging.problem import DrawnSet
    from tuner.measure.benchmark import Bench
    from tuner.space.model import Space

SETS = 2  # of inputs on which a candidate is verified at a size that it may know
SEEDS = 1 << 29  # seeds of input sets; seed 0 is that of a search's first set, in which integers are often 0


def main() -> None:
    """Serve requests until the parent is gone."""
    channel = replies.Channel()
    requests = iter(channel)
    with channel.reporting():
        task = next(requests)
        snapshot.adopt(task["files"])
        device = devices.open_apart(task["device"])
        channel.isolate(device)
        function_objects.answered_by(channel.ask)
        judge = CandidateJudge(
            device, launch_form.from_json(task["space"]), task, lambda text: channel.tell({"note": text})
        )
        hide_memory()
        channel.reply(judge.about())
    for request in requests:
        channel.reply(replies.attempt(functools.partial(judge.verdicts, request["candidates"])))


class CandidateJudge:
    """Judges candidates against one space on one device, at sizes that they may know and at others."""

    def __init__(self, device: Device, space: Space, task: Mapping[str, Any], noted: Callable[[str], None]) -> None:
        """Raises SpaceError if the space cannot judge candidates. Raises NoConfiguration if no configuration of the
        space is valid at the first of the known sizes."""
        self._device, self._space, self._noted, self._task = device, space, noted, task
        self._timeout: float = task["timeout"]
        self._chance = random.Random(task["seed"])  # noqa: S311  # a receipt must be able to repeat it
        op = space.operation
        told = [
            op.scope(sizes, task["options"], device.language, device.limits, task["types"]) for sizes in task["sizes"]
        ]
        self._config = first_valid(space, told[0])
        self._told = [JudgedProblem(device, space, scope, self._config) for scope in told]
        self._benches = self._told_benches()
        scopes, usual = self._hidden_scopes(told)
        hidden = [JudgedProblem(device, space, scope, self._config) for scope in scopes]
        self._problems = [*self._told, *hidden]
        size = max(memory.size_of(problem.most_bytes) for problem in self._problems)
        self._process = functools.partial(CandidateProcess, device, size, self._timeout)
        self._sets = {number: self._verifying(number) for number in range(len(self._problems))}
        self._usual = JudgedProblem(device, space, usual, self._config) if usual is not None else None
        self._usual_set = self._usual.draw(self._seed()) if self._usual is not None else None
        self._builder = Builder(device, max(self._timeout, TIMEOUT))
        self._knobs = KnobSearch(self._told[0], self._drawing(0), self._builder, device.place, self._chance)
        self._baseline = self._own_kernel()
        self._timings = [self._timing(number, problem, noted) for number, problem in enumerate(self._told)]
        self._empty = self._process(is_judged=False) if device.on_processor else None

    def _told_benches(self) -> list[Bench]:
        """A bench for each known size. The user is told what verification does not see."""
        from tuner.measure.benchmark import Bench  # imported by the fork server

        benches = [Bench(self._device, self._space, problem.scope) for problem in self._told]
        sentences = [sentence for bench in benches for sentence in bench.workbench.check_sight().sentences]
        for sentence in dict.fromkeys(sentences):
            self._noted(f"{self._space.name}: {sentence}")
        return benches

    def _timing(self, number: int, problem: JudgedProblem, noted: Callable[[str], None]) -> CandidateTiming:
        bench = self._benches[number]
        return CandidateTiming(self._device, bench, problem, number, self._baseline, self._drawing(number), noted)

    def about(self) -> dict[str, Any]:
        """The device, and what is fixed for all candidates."""
        sensors = self._device.sensors
        return {
            "device": self._device.name,
            "toolchain": self._device.toolchain_of(self._space.compiler_of(self._device.language)),
            "conditions": dict(self._device.conditions.values),
            "hidden": [
                {"size": problem.size, "options": dict(problem.scope.options)}
                for problem in self._problems[len(self._told) :]
            ],
            "baseline": dict(self._config),
            "clock_mhz": sensors.clock_mhz() if sensors is not None else None,
        }

    def verdicts(self, candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The verdicts on a group of candidates, which are timed in the same rounds."""
        entrants = [
            Entrant(
                each["name"], each["sha256"], launch_form.from_json(each["space"]), self._process, config=self._config
            )
            for each in candidates
        ]
        try:
            for entrant in entrants:
                entrant.attempt(self._begin)
            for number, timing in enumerate(self._timings):
                if remaining := [entrant for entrant in entrants if entrant.is_in]:
                    slowest = max(self._sets[number], key=lambda drawn: drawn.inputs.seconds)
                    timing.time(remaining, self._task["rounds"], slowest, self._empty)
            for entrant in entrants:
                entrant.attempt(self._end)
            return {
                "verdicts": [
                    entrant.verdict(self._baseline, self._device.on_processor).to_json() for entrant in entrants
                ]
            }
        finally:
            for entrant in entrants:
                entrant.close()

    def _hidden_scopes(self, told: Sequence[Scope]) -> tuple[list[Scope], Scope | None]:
        """Sizes that candidates are not told, the last one with other options if there are any; and the same size with
        the usual options, if a loaded kernel takes both."""
        op, most, scopes = self._space.operation, self._task["hidden"], list[Scope]()
        for place, scope in enumerate(told):
            share = most // len(told) + (place < most % len(told))
            for sizes in hidden_sizes.drawn(self._space, scope, self._config, share, self._chance):
                scopes.append(op.scope(sizes, dict(scope.options), scope.language, scope.limits, dict(scope.types)))
        referee = Referee(self._device, self._space, ReferenceCache())
        base = scopes[-1] if scopes else told[0]
        seen = self._benches[0].workbench.check_sight().options
        other = other_options.varied(op, base, referee.options(base), seen)
        if other is not None and referee.covers(other) and self._space.valid(self._config, other):
            scopes = [*scopes[:-1], other]
            may_change = not self._space.fixed_options & {n for n, v in other.options.items() if base.options[n] != v}
            return scopes, base if may_change else None
        return scopes, None

    def _verifying(self, number: int) -> list[DrawnSet]:
        """The sets of inputs on which candidates are verified for a problem, the last in padded rows if the kernel
        takes leading dimensions."""
        problem = self._problems[number]
        seeds = [0, *(self._seed() for _ in range(SETS - 1))] if number < len(self._told) else [self._seed()]
        sets = [problem.draw(seed) for seed in seeds]
        if number < len(self._told) and self._space.operation.also is not None:
            sets.append(problem.draw(0, with_also=True))
        return [*sets, problem.draw(self._seed(), padded=True)] if problem.has_padding else sets

    def _seed(self) -> int:
        return 1 + self._chance.randrange(SEEDS)

    def _drawing(self, number: int) -> Callable[[], Iterator[DrawnSet]]:
        """Draws sets of inputs that no candidate has had before, for a problem."""

        def drawn() -> Iterator[DrawnSet]:
            while True:
                yield self._problems[number].draw(self._seed())

        return drawn

    def _own_kernel(self) -> Entrant:
        """The space's own kernel, verified as candidates are. Problems that it does not solve are left out."""
        own = Entrant("baseline", "", self._space, functools.partial(self._process, is_judged=False), self._config)
        own.start()
        assert own.contender is not None
        for number in list(self._sets):
            problem = self._problems[number]
            try:
                own.builds[number] = self._builder.built(self._space, self._config, problem.scope)
                self._verify(own, number)
            except Refusal as refusal:
                where = f"{self._space.name} at {size_text(problem.size)}: its own kernel is refused"
                if number < len(self._told) or not own.contender.is_alive():
                    raise SpaceError(f"{where}: {refusal.reason.code}: {refusal}") from None
                self._noted(f"{where}, so this size is left out: {refusal}")
                del self._sets[number]
        return own

    def _begin(self, entrant: Entrant) -> None:
        """Build, load and verify an entrant, for all problems. Raises Refusal."""
        self._noted(f"{entrant.name}: verifying")
        self._builder.check(entrant.space)
        entrant.start()
        if self._task["tune"]:
            scopes = [self._problems[number].scope for number in self._sets]
            entrant.config = self._knobs.best(entrant, self._task["tune"], self._config, scopes)
            self._noted(f"{entrant.name}: {config_text(entrant.config)}")
        order = [*self._sets]
        self._chance.shuffle(order)  # so that the order of the runs does not tell which sizes are known
        for number in order:
            entrant.builds[number] = self._builder.built(entrant.space, entrant.config, self._problems[number].scope)
        entrant.compiles = True
        for number in order:
            try:
                self._verify(entrant, number)
            except Refusal as refusal:
                if number >= len(self._told) and refusal.reason.code == "wrong_hidden_size":
                    self._verify(entrant, 0)  # if it is wrong at a known size, too, that is the reason
                raise
        self._check_precision(entrant)

    def _check_precision(self, entrant: Entrant) -> None:
        for number, own in entrant.compared.items():
            bounds, size = self._sets[number][0].inputs.bounds, self._problems[number].size
            own.check_precision(self._baseline.compared[number], bounds, size)

    def _verify(self, entrant: Entrant, number: int) -> None:
        entrant.load(number)
        code = "wrong" if number < len(self._told) else "wrong_hidden_size"
        for drawn in self._sets[number]:
            rounds.run(entrant, number, self._problems[number], drawn, code)
        if self._usual is not None and self._usual_set is not None and number == len(self._problems) - 1:
            rounds.run(entrant, number, self._usual, self._usual_set, code)  # it must not remember the other options

    def _end(self, entrant: Entrant) -> None:
        """The checks after timing: the precision of the timed runs, many more runs in the same process, and the
        sanitizer. Raises Refusal."""
        self._check_precision(entrant)
        number = 0
        if len(self._told) > 1:  # otherwise the build for this problem is still loaded, with its state
            entrant.load(number)
        problem, fresh = self._problems[number], self._drawing(number)()
        sets = [next(fresh) for _ in range(SETS)]
        rounds.repeated(entrant, number, problem, sets, self._task["verify"])
        if self._task["sanitize"]:
            self._noted(f"{entrant.name}: {sanitizer.PROGRAM}")
            with turns.taken(self._device.place):
                entrant.sanitizer = sanitizer.check(
                    self._device.id, entrant.builds[number], sets[0].contents, max(self._timeout, TIMEOUT)
                )
