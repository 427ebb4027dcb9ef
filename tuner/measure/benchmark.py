"""Build, load, verify and time configurations, in the worker process that holds the device."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.devices import Device
from tuner.devices.built import Built, build
from tuner.devices.forking import Kept
from tuner.devices.program import Program
from tuner.errors import LaunchError, SpaceError, TrialError, WrongResult
from tuner.measure.anchors import Anchors
from tuner.measure.contest import Contest
from tuner.measure.contestants import Contestant, Instruments
from tuner.measure.floor import Floor
from tuner.measure.flushing import Flusher
from tuner.measure.method import STANDARD, Method
from tuner.measure.results import (
    BUILD,
    FailedConfigs,
    Finals,
    FoundWrong,
    Outcome,
    Repeated,
    Verified,
    check_is_own,
)
from tuner.measure.rivals import Rivals
from tuner.measure.search_measurement import SearchMeasurement
from tuner.measure.timing.clock import (
    FINAL_SECONDS,
    MAX_ROUNDS,
    StageWatch,
    Stopwatch,
)
from tuner.measure.timing.energy import EnergyMeter
from tuner.measure.timing.race import Race
from tuner.measure.verify import mutants, other_options
from tuner.measure.verify.bits import RunBits
from tuner.measure.verify.compared_outputs import diverges
from tuner.measure.workbench import Workbench
from tuner.quoting import shown
from tuner.space.answers.cache import ReferenceCache
from tuner.space.config import Config
from tuner.space.deployments import OF_GPUS
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.values.bit_classes import Bits

VACATED_SHARE = 0.25  # of a processor's memory: the most that the arrays of all contestants in the finals may take
SHORT_MS = 1.0  # if a candidate is faster, the finals also measure the launch overhead, which is far below 1 ms


def _with_file(message: str, space: Space) -> str:
    """Put the space's file before `message`, unless the message already begins with one of its files."""
    files = [shown(file) for file in space.files]
    return message if not files or message.startswith(tuple(files)) else f"{files[0]}: {message}"


class Bench:
    """Measures configurations of one space, for one problem on one device."""

    def __init__(
        self,
        device: Device,
        space: Space,
        scope: Scope,
        method: Method = STANDARD,
        cache: ReferenceCache | None = None,
        predecessor: Workbench | None = None,
        like: Workbench | None = None,
    ) -> None:
        """Allocate the workbench and check that verification rejects the mutants.

        `cache` holds the reference's matrix products. `predecessor` is a workbench of this problem that is no longer
        used: its arrays are reused. `like` is that of `Workbench`.

        Raises DeviceError if the arrays do not fit, and SpaceError if reference or tolerance cannot be evaluated, or if
        the tolerance would accept a mutant.
        """
        self.device, self.space, self.scope, self.method = device, space, space.operation.own(scope), method
        try:
            self.workbench = Workbench(device, space, self.scope, cache=cache, predecessor=predecessor, like=like)
            self._skipped_mutants = mutants.check(space.operation, self.scope, self.workbench.inputs)
            self._precision = self.workbench.check_precision()
            self._sight = self.workbench.check_sight()
        except SpaceError as error:
            raise SpaceError(_with_file(str(error), space)) from None
        self._options_bench: Workbench | None = None  # the same arrays, with other values of the options
        self._is_renewed = False
        self._flusher = Flusher(device) if method.cold else None
        self.workbench.makes_graphs = method.deployment == "graph"
        self._stopwatch = Stopwatch(device, self.workbench, self._flusher, method.deployment)
        self._anchors = Anchors(device, self.workbench, self._stopwatch)
        self._floor = Floor(device, space.operation, self.workbench.nominal, self.workbench)
        self._instruments = Instruments(
            device, self.workbench, self._stopwatch, self._floor, EnergyMeter(device, self.workbench)
        )
        self._search = SearchMeasurement(self._instruments, method)

    def notes(self) -> list[str]:
        """Remarks about the method, for the user. For `cold`: what a pointer chase shows about a flush."""
        return [] if self._flusher is None else [str(self.device.isolation.run(self._flusher.chase))]

    def prepare(self, config: Config, workbench: Workbench | None = None) -> tuple[Callable[[], None], Built]:
        """Build `config`, load it and bind it to `workbench` (default: the bench's own).

        Returns the launch and the build. Raises TrialError if the geometry cannot be computed, or if the configuration
        does not build or load.
        """
        bench = workbench or self.workbench
        built = self._built(config, bench)
        return bench.bind(Program(self.device, built)), built

    def _built(self, config: Config, bench: Workbench) -> Built:
        return build(self.device.compiler, Instance(self.space, config, bench.scope))

    def measure(self, config: Config, best: float | None = None) -> Outcome:
        """Verify `config`, time it, and verify the outputs of every timed run. A failure is returned, not raised.

        `best` is the value of the objective of the best configuration so far: a median time in ms, or an energy in mJ
        (see `Race`).
        """
        watch = StageWatch()
        try:
            with watch.stage(BUILD):
                built = self._built(config, self.workbench)
        except TrialError as error:
            return Outcome(failure=error.reason, log=str(error), seconds=watch.seconds)
        self._floor.prepare()
        return self.device.isolation.run(lambda: self._search.measured(built, config, best, watch))

    def launch_ms(self) -> float:
        """The launch overhead in ms: the time of a kernel that does nothing."""
        return self.device.isolation.run(lambda: self._stopwatch.unchecked(self.workbench.empty_launch()))

    def library(self) -> tuple[float, ...]:
        """Time the vendor library's default algorithm in the same way as a configuration. Returns the times in ms.

        Empty if there is no library or its result is wrong.
        """
        default = self._anchors.default if self._has_library else None
        self.workbench.bits = None
        try:
            return () if default is None else self._search.times(default, {}, Race(None))
        except TrialError:
            return ()

    def floor_ms(self) -> float | None:
        """The shortest plausible time of a run in ms; None if every time is plausible."""
        self._floor.prepare()
        return self._floor.shortest_ms

    def renew(self) -> None:
        """Prepare the additional checks of the finals: inputs and option values that the search has not used.

        Does so only once, because it may take as long as preparing the first input set.
        """
        if not self._is_renewed:
            self._is_renewed = True
            self.workbench.renew_inputs()
            self._options_bench = self.workbench.with_other_options()

    def finals(
        self,
        configs: Sequence[Config],
        seconds: float = FINAL_SECONDS,
        with_library: bool = True,
        sustained: float | None = None,
        quick: bool = False,
        found_wrong: FoundWrong = lambda *_: None,
        rivals: Rivals | None = None,
        most_rounds: int = MAX_ROUNDS,
    ) -> Finals:
        """Verify and time the configurations again, interleaved with the vendor library's default and best algorithm.

        Configurations are verified with inputs and option values that the search has not used, and on padded rows if
        they take leading dimensions. A configuration that fails has a Final with a `failure`. `found_wrong` is called
        at once for each one whose result is wrong.

        `seconds` is the time for all rounds, of which there are at most `most_rounds`. `quick` runs only the library's
        default algorithm. If `sustained` is given, the best configuration and the library then run back to back, in
        periods of that many seconds. The `rivals` take part, on the same arrays; their Finals follow the others.
        """
        self.renew()
        self._floor.prepare()
        entrants = [(self, config) for config in configs]
        if rivals is not None:
            other = self._of_rivals(rivals)
            entrants += [(other, config) for config in rivals.configs]
        contestants: dict[int, Kept] = {}  # by position in `configs`; the vendor library is in `libraries`
        with contextlib.ExitStack() as stack:
            failures = FailedConfigs(len(entrants), found_wrong)
            vacates = self._must_vacate(len(entrants))
            for position, (bench, config) in enumerate(entrants):
                try:
                    contestants[position] = self.device.isolation.keep(
                        functools.partial(bench._contestant, config, vacates)
                    )
                    stack.callback(contestants[position].close)
                except TrialError as error:
                    failures.add(position, error)
            with_library = with_library and self._has_library
            default = self._anchors.default if contestants and with_library else None
            algorithms = self._anchors.fastest if default is not None and not quick else ()
            libraries = [] if default is None else [default, *algorithms]
            contest = Contest(self._instruments, self.method, contestants, libraries, failures)
            finals = contest.finals(seconds, sustained, most_rounds)
            return replace(
                finals,
                launch_ms=self.launch_ms() if finals.shortest_ms < SHORT_MS else None,
                input_sets=self.workbench.set_count,
                skipped_mutants=[*self._skipped_mutants, *self._precision.untried, *self._sight.skipped],
                accepted_mutants=self._precision.accepted,
            )

    def _of_rivals(self, rivals: Rivals) -> Bench:
        """This bench for another source of the kernel, with the same arrays and answers. Raises SpaceError if that has
        too many scratch arrays."""
        if not self.workbench.has_room_for(rivals.space):
            raise SpaceError(f"{rivals.space.origin}: it has too many scratch arrays beside {self.space.origin}")
        bench = copy.copy(self)
        bench.space = rivals.space
        return bench

    def _contestant(self, config: Config, vacates: bool) -> Contestant:
        call, own = self._prepare_verified(config)
        contestant = Contestant(self._instruments, call, vacates, own)
        if vacates:
            self.workbench.vacate()
        return contestant

    def _must_vacate(self, count: int) -> bool:
        """Whether `count` contestants, each with arrays of its own, may not fit in memory together."""
        arrays = sum(buffer.nbytes for buffer in self.workbench.buffers.values())
        return self.device.on_processor and count * arrays > VACATED_SHARE * self.device.memory

    @property
    def _has_library(self) -> bool:
        """Whether the vendor library is measured, too: it is called through Python, and not in a graph."""
        return self.method.deployment not in OF_GPUS

    def verify(self, configs: Sequence[Config], found_wrong: FoundWrong = lambda *_: None) -> list[Verified]:
        """Run the checks of the finals without timing. `found_wrong` is called as in `finals`."""
        self.renew()
        failures, digests = FailedConfigs(len(configs), found_wrong), dict[int, Bits]()
        for position, config in enumerate(configs):
            try:
                digests[position] = self.device.isolation.run(functools.partial(self._verify_once, config))
            except TrialError as error:
                failures.add(position, error)
        return [Verified(failures.get(position), digests.get(position, {})) for position in range(len(configs))]

    def repeat(
        self, config: Config, runs: int, seconds: float | None, still_runs: Callable[[], None] = lambda: None
    ) -> Repeated:
        """Run `config` again, `runs` times or for `seconds`, whichever ends first, and compare the outputs of each run.

        This reveals faults that appear in only a few runs, or only after many. The program is loaded once and keeps its
        state between runs. `still_runs` is called after each run. If `seconds` is None, there is no time limit.
        """
        self.renew()
        done, digests = 0, dict[str, str]()
        try:
            with contextlib.closing(self.device.isolation.keep(lambda: self._repeating(config))) as contestant:
                end = math.inf if seconds is None else time.perf_counter() + seconds
                while done < runs and (not done or time.perf_counter() < end):
                    contestant.ask("run")
                    done += 1
                    still_runs()
                contestant.ask("inspect")
                digests = contestant.ask("bits")
        except TrialError as error:
            check_is_own(error)
            return Repeated(done, f"{error.reason}: after {done} right runs: {error}")
        return Repeated(done, bits=digests)

    def _repeating(self, config: Config) -> Contestant:
        call, _ = self.prepare(config)
        own = self.workbench.bits = RunBits()
        self.workbench.verify(call)
        self.workbench.rotation.begin()
        return Contestant(self._instruments, call, bits=own)

    def _verify_once(self, config: Config) -> Bits:
        return self._prepare_verified(config)[1].digests

    def _prepare_verified(self, config: Config) -> tuple[Callable[[], None], RunBits]:
        """Bind `config` to the workbench and verify it. Returns the launch, and the bits of its outputs.

        Also verifies it with other values of the options, if it is valid with them, and on padded arrays if the
        operation has leading dimensions.
        """
        own, other = RunBits(), self._options_bench
        self.workbench.bits = own
        if other is not None and self.space.valid(config, other.scope):
            other.bits = own
            self._verify_with(config, other)
        call, built = self.prepare(config)
        self.workbench.verify(call)
        if self.space.operation.leading:
            self.workbench.verify_padded(Program(self.device, built))
        return call, own

    def _verify_with(self, config: Config, other: Workbench) -> None:
        """Verify `config` with the options and the inputs of `other`."""
        self.workbench.release()
        call, _ = self.prepare(config, other)
        try:
            other.verify(call)
        except WrongResult as error:
            words = [f"{name}={value:.16g}" for name, value in other.scope.options.items()]
            words += [f"the inputs of {other.op.also}"] if other.op.also is not None else []
            is_divergent = diverges(self.workbench.op, self.workbench.inputs, other.inputs)
            hint = "".join(f"; {each}" for each in other_options.hints(other.op, self.scope, other.scope, is_divergent))
            raise WrongResult(f"with {', '.join(words)}: {error}{hint}", error.reason) from None
        finally:
            other.release()

    def healthy(self) -> bool:
        """Whether the device still responds. An asynchronous fault may disable it until this process ends."""
        try:
            self.device.synchronize()
        except LaunchError:
            return False
        return True
