"""The judge: the process that holds inputs, answers and the clock, and lets the processes of candidates run.

It never loads a candidate itself. Its first request is the task, whose reply describes the device; each later one has
candidates, and its reply their verdicts.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner import devices
from tuner.errors import SpaceError
from tuner.judging import memory, rounds, sanitizer
from tuner.judging.builder import Builder
from tuner.judging.contender import CandidateProcess
from tuner.judging.entrant import Entrant
from tuner.judging.isolation import hide_memory
from tuner.judging.problem import JudgedProblem, check_precision, hidden
from tuner.judging.verdict import Refusal
from tuner.measure import turns
from tuner.measure.answers import function_objects
from tuner.measure.answers.referee import Referee
from tuner.measure.benchmark import Bench
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
    from tuner.space.config import Config
    from tuner.space.model import Space

SETS = 2  # of inputs on which a candidate is verified at a size that it may know
REFERENCE_SECONDS = 60.0  # for the answers of all rounds at one size, if they take long
LEAST_ROUNDS = 5
SEEDS = 1 << 29  # numbers of sets of inputs; the first is that of a search, in which integers are often 0
TRIED_RUNS = 3  # of each configuration in a search, of which the first does not count
DRAWS = 100  # of a configuration, for each that a search wants: most spaces have few that are valid


def main() -> None:
    """Serve requests until the parent is gone."""
    channel = replies.Channel()
    requests = iter(channel)
    with channel.reporting():
        task = next(requests)
        snapshot.adopt(task["files"])
        device = devices.open_device(task["device"])
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
        """Raises SpaceError if the space cannot judge, and NoConfiguration if its default is valid at no such size."""
        self._device, self._space, self._noted, self._task = device, space, noted, task
        self._timeout: float = task["timeout"]
        self._chance = random.Random(task["seed"])  # noqa: S311  # a receipt must be able to repeat it
        op = space.operation
        told = [
            op.scope(sizes, task["options"], device.language, device.limits, task["types"]) for sizes in task["sizes"]
        ]
        self._config = first_valid(space, told[0])
        self._told = [JudgedProblem(device, space, scope) for scope in told]
        self._hidden = [JudgedProblem(device, space, scope) for scope in self._hidden_scopes(told)]
        self._problems = [*self._told, *self._hidden]
        self._size = max(memory.size_of(list(problem.arrays.values())) for problem in self._problems)
        self._benches = [Bench(device, space, problem.scope) for problem in self._told]
        self._sets = {number: self._verifying(number) for number in range(len(self._problems))}
        self._builder = Builder(device, max(self._timeout, TIMEOUT))
        self._baseline = self._own_kernel()
        self._cost = math.inf  # ms, of a launch that does nothing
        self._empty = (
            CandidateProcess(device, self._size, self._timeout, is_judged=False) if device.on_processor else None
        )

    def about(self) -> dict[str, Any]:
        """The device, and what is fixed for all candidates."""
        sensors = self._device.sensors
        return {
            "device": self._device.name,
            "toolchain": self._device.toolchain_of(self._space.compiler_of(self._device.language)),
            "conditions": dict(self._device.conditions.values),
            "hidden": [
                {"size": problem.size, "options": dict(problem.scope.options)}
                for number, problem in enumerate(self._problems)
                if number >= len(self._told)
            ],
            "baseline": dict(self._config),
            "clock_mhz": sensors.clock_mhz() if sensors is not None else None,
        }

    def verdicts(self, candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The verdicts on a group of candidates, which are timed in the same rounds."""
        entrants = [
            Entrant(each["name"], each["sha256"], launch_form.from_json(each["space"]), config=self._config)
            for each in candidates
        ]
        try:
            for entrant in entrants:
                self._attempt(entrant, self._begin)
            for number in range(len(self._told)):
                self._time([entrant for entrant in entrants if entrant.is_in], number)
            for entrant in entrants:
                self._attempt(entrant, self._end)
            return {
                "verdicts": [
                    entrant.verdict(self._baseline, self._device.on_processor).to_json() for entrant in entrants
                ]
            }
        finally:
            for entrant in entrants:
                entrant.close()

    def _attempt(self, entrant: Entrant, step: Callable[[Entrant], None]) -> None:
        """Take a step with an entrant that is still in; refuse it if the step does."""
        if entrant.is_in:
            try:
                step(entrant)
            except Refusal as refusal:
                entrant.refuse(refusal.reason)
        if not entrant.is_in:
            entrant.close()

    def _hidden_scopes(self, told: Sequence[Scope]) -> list[Scope]:
        """Sizes that candidates are not told, one of them with other options if there are any."""
        op, most, scopes = self._space.operation, self._task["hidden"], list[Scope]()
        for place, scope in enumerate(told):
            share = most // len(told) + (place < most % len(told))
            for sizes in hidden(self._space, scope, self._config, share, self._chance):
                scopes.append(op.scope(sizes, dict(scope.options), scope.language, scope.limits, dict(scope.types)))
        referee = Referee(self._device, self._space, ReferenceCache())
        base = scopes[-1] if scopes else told[0]
        other = other_options.varied(op, base, referee.options(base))
        if other is not None and referee.covers(other) and self._space.valid(self._config, other):
            scopes = [*scopes[:-1], other]
        return scopes

    def _verifying(self, number: int) -> list[DrawnSet]:
        """The sets of inputs on which candidates are verified for a problem."""
        problem = self._problems[number]
        if number >= len(self._told):
            return [problem.draw(self._seed())]
        sets = [problem.draw(seed) for seed in (0, *(self._seed() for _ in range(SETS - 1)))]
        return [*sets, problem.draw(0, with_also=True)] if self._space.operation.also is not None else sets

    def _seed(self) -> int:
        return 1 + self._chance.randrange(SEEDS)

    def _own_kernel(self) -> Entrant:
        """The space's own kernel, verified as candidates are. Problems that it does not solve are left out."""
        own = Entrant("baseline", "", self._space, self._config)
        own.contender = CandidateProcess(self._device, self._size, self._timeout, is_judged=False)
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
        entrant.contender = CandidateProcess(self._device, self._size, self._timeout)
        entrant.isolation = entrant.contender.isolation
        if self._task["tune"]:
            entrant.config = self._tuned(entrant)
        order = [*self._sets]
        self._chance.shuffle(order)  # so that no run tells by its place which sizes are known
        for number in order:
            entrant.builds[number] = self._builder.built(entrant.space, entrant.config, self._problems[number].scope)
        entrant.compiles = True
        for number in order:
            try:
                self._verify(entrant, number)
            except Refusal as refusal:
                if number >= len(self._told) and refusal.reason.code == "wrong_hidden_size":
                    self._verify(entrant, 0)  # only where it is wrong at no other is that the reason
                raise
        for number in order:
            check_precision(
                entrant.compared[number], self._baseline.compared[number], self._problems[number], self._sets[number][0]
            )

    def _verify(self, entrant: Entrant, number: int) -> None:
        entrant.load(number)
        code = "wrong" if number < len(self._told) else "wrong_hidden_size"
        for drawn in self._sets[number]:
            rounds.run(entrant, number, self._problems[number], drawn, code)

    def _time(self, entrants: Sequence[Entrant], number: int) -> None:
        """Time entrants and the space's own kernel in the same rounds; refuse those that are impossibly fast."""
        if not entrants:
            return
        self._noted(f"timing {len(entrants)} at {size_text(self._problems[number].size)}")
        problem, bench = self._problems[number], self._benches[number]
        seconds = max(drawn.inputs.seconds for drawn in self._sets[number])
        count = max(LEAST_ROUNDS, min(self._task["rounds"], int(REFERENCE_SECONDS / max(seconds, 1e-6))))
        self._baseline.load(number)
        for entrant in entrants:
            self._attempt(entrant, functools.partial(Entrant.load, number=number))
        sets = self._drawing(problem)
        everybody = [self._baseline, *(entrant for entrant in entrants if entrant.is_in)]
        times = rounds.timed(self._device, everybody, number, problem, sets, count)
        if (reason := self._baseline.reason) is not None:
            raise SpaceError(f"{self._space.name}: its own kernel is refused in a timed run: {reason.message}")
        if self._empty is not None:  # the least ever, so that no time is understated
            self._cost = min(self._cost, rounds.least_ms(self._empty, problem, self._sets[number][0]))
        cost = 0.0 if self._empty is None else self._cost
        with turns.taken(self._device.place):
            library, floor = self._library(bench), self._floor(bench, problem)
        for entrant in entrants:
            if entrant.is_in:
                own = rounds.result(problem, times[entrant.name], times[self._baseline.name], cost, library, floor)
                entrant.times.append(own)
                self._attempt(entrant, self._check_time)

    def _drawing(self, problem: JudgedProblem) -> Iterator[DrawnSet]:
        """Sets of inputs that nobody has had."""
        while True:
            yield problem.draw(self._seed())

    def _library(self, bench: Bench) -> tuple[str, float] | None:
        library = bench.workbench.library()
        times = bench.library() if library is not None else ()
        return (library.name, sorted(times)[len(times) // 2]) if library is not None and times else None

    def _floor(self, bench: Bench, problem: JudgedProblem) -> float | None:
        """The shortest time that memory and arithmetic allow, in ms; None if neither is known."""
        op, peak = self._space.operation, self._device.peak
        floors = [bench.floor_ms()]
        if op.flops is not None and peak is not None and peak.fastest_gflops:
            floors.append(float(op.flops.evaluate(problem.nominal.names)) / peak.fastest_gflops / 1e6)
        known = [floor for floor in floors if floor is not None]
        return max(known) if known else None

    def _check_time(self, entrant: Entrant) -> None:
        latest = entrant.times[-1]
        if latest.floor_ms is not None and latest.time_ms < latest.floor_ms:
            raise Refusal(
                "impossible_time",
                f"{latest.time_ms:.4g} ms is impossible: memory and arithmetic of {self._device.name} need "
                f"{latest.floor_ms:.4g} ms",
                latest.size,
            )

    def _end(self, entrant: Entrant) -> None:
        """The checks after the times: many more runs, in the same process, and the sanitizer. Raises Refusal."""
        number = 0
        if len(self._told) > 1:  # else it is loaded still, with whatever it keeps
            entrant.load(number)
        problem = self._problems[number]
        sets = [next(self._drawing(problem)) for _ in range(SETS)]
        rounds.repeated(entrant, number, problem, sets, self._task["verify"])
        if self._task["sanitize"]:
            self._noted(f"{entrant.name}: {sanitizer.PROGRAM}")
            with turns.taken(self._device.place):
                entrant.sanitizer = sanitizer.check(
                    self._device.id, entrant.builds[number], sets[0].contents, max(self._timeout, TIMEOUT)
                )

    def _tuned(self, entrant: Entrant) -> Config:
        """The fastest of so many configurations, drawn at random after the default. Raises Refusal if none is right."""
        best, fastest, failure = self._config, math.inf, None
        for config in self._configs(self._task["tune"]):
            try:
                time_ms = self._tried(entrant, config)
            except Refusal as refusal:
                failure = failure or refusal
                if entrant.contender is None or not entrant.contender.is_alive():
                    entrant.close()
                    entrant.contender = CandidateProcess(self._device, self._size, self._timeout)
                continue
            if time_ms < fastest:
                best, fastest = config, time_ms
        entrant.compared.clear()
        if failure is not None and fastest == math.inf:
            raise failure
        self._noted(f"{entrant.name}: {config_text(best)}")
        return best

    def _tried(self, entrant: Entrant, config: Config) -> float:
        """The shortest time in ms of a configuration that is right."""
        assert entrant.contender is not None
        entrant.builds[0] = self._builder.built(entrant.space, config, self._problems[0].scope)
        entrant.load(0)
        sets, times = self._drawing(self._problems[0]), list[float]()
        for _ in range(TRIED_RUNS):
            with turns.taken(self._device.place):
                times.append(rounds.run(entrant, 0, self._problems[0], next(sets), "wrong")[0])
        return min(times[1:])

    def _configs(self, count: int) -> list[Config]:
        """The default and other configurations, drawn at random, that are valid for all problems."""
        found, values = [self._config], self._space.parameters
        scopes = [self._problems[number].scope for number in self._sets]
        for _ in range(DRAWS * count):
            if len(found) == count:
                break
            config = {name: self._chance.choice(allowed) for name, allowed in values.items()}
            if config not in found and all(self._space.valid(config, scope) for scope in scopes):
                found.append(config)
        return found
