"""The compile pool: compile workers that build the next configurations ahead of the device."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent import futures
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from tuner.children import processors
from tuner.devices import BACKENDS, DeviceInfo, forkable_packages
from tuner.devices.builds.allowance import most_builders
from tuner.errors import EnvironmentTrouble, ExpressionError, GeometryError, TrialError, TunerError, WorkerDied
from tuner.measure.process.build_times import BuildTimes
from tuner.measure.process.compile_workers import CompileWorkers, Stopped, task_of
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import rendering
from tuner.space.texts import config_text

logger = logging.getLogger(__name__)
MOST_WORKERS = 16  # per device
FEW = 3  # compile workers, all of which build configurations
SHARES = 4  # more compile workers, which build kernels of ours, if there are more than FEW
AHEAD = 4  # queued configurations per compile worker
Problem = tuple[Space, Scope, str, str | None]  # a space, a problem, a device and a compiler by name


class CompilePool:
    """Compile workers for one problem at a time, each driven by a thread.

    The first worker starts at once, while the device opens. The others start when there is something to build. If the
    compiler is a Python package, no worker starts at once: it is imported meanwhile, once for all of them.
    Configurations that a search has asked for are built before those that it is likely to ask for. `depth` is how many
    configurations a search may ask for before they are built.

    If the device is this machine's processor, compiling would disturb the times. So building and measuring alternate
    there: all cores build until the configuration that is to be measured is built. Builds that are not completed then
    are suspended, and go on when the pool is asked for one that is not built. So no core waits for another.
    """

    def __init__(
        self, timeout: float, device_ids: Sequence[str], modules: Sequence[str] = (), sharers: int = 1
    ) -> None:
        """`timeout` is in seconds per build. `device_ids` are the devices to build for, all of the same type. `modules`
        are the compiler's, which may be imported before a fork. `sharers` is the number of pools that share the cores.

        The caller must call `switch_to` next. Raises EnvironmentTrouble if the machine has no room for a process.
        """
        self._timeout, self._devices, self._sharers = timeout, len(device_ids), sharers
        self._workers = CompileWorkers(timeout, forkable_packages(device_ids[0]) or (), modules)
        self._pool: ThreadPoolExecutor | None = None
        self._own: ThreadPoolExecutor | None = None  # builds kernels of ours, for a short time at the start
        self._builds: dict[ConfigKey, Future[None]] = {}
        self._asked = set[ConfigKey]()  # configurations that the search has asked for
        self._problem: Problem | None = None
        self._alternate = False
        self._times = BuildTimes()
        self._queueing = threading.Lock()  # guards `_builds`, `_asked` and `_waiting`
        self._waiting = 0  # threads that wait for a build
        self._submitting, self._closed = threading.Lock(), False

    def switch_to(self, space: Space, scope: Scope, device: DeviceInfo, compiler: str | None = None) -> None:
        """Build for this space and problem from now on, with the compiler of this name; None: any. Builds in
        progress are completed, and count for this problem if it has the same code for them."""
        with self._queueing:
            going_on = {key: build for key, build in self._builds.items() if not build.cancel() and not build.done()}
            self._builds.clear()
            self._asked.clear()
            now = space, scope, device.id, compiler
            if self._problem is not None:
                before = self._problem
                self._builds |= {key: build for key, build in going_on.items() if _is_same_code(key, before, now)}
            self._problem = now
            self._times = BuildTimes()
        self._task = task_of(space, scope, device.id, device.architecture, compiler, self._timeout)
        self._workers.resume()
        self._space = space
        if self._pool is None:
            self._alternate = device.on_processor
            cores = max(1, len(processors.allowed()) // self._sharers)
            free = cores if self._alternate else cores - self._devices
            self.count = max(1, min(MOST_WORKERS * self._devices, free, most_builders() - self._devices))
            self.depth = 1 if self._alternate else max(self.count, self._devices)
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="compile-pool")
            if self.count > FEW and BACKENDS[device.kind].compiler is not None:
                self._own = ThreadPoolExecutor(SHARES, thread_name_prefix="compile-own")
                for share in range(SHARES):
                    self._own.submit(self._workers.build_own, self._task, share, SHARES)

    def prepare(self, asked: Config | None, likely: Iterable[Config]) -> None:
        """Queue the build of `asked`, if given, and then the builds of `likely` configurations.

        The latter replace the earlier likely ones. Reads at most AHEAD configurations for each compile worker.
        """
        with self._queueing:
            if asked is not None:
                self._begin(asked)
            self._drop_likely()
            for config, _ in zip(likely, range(AHEAD * self.count - len(self._asked)), strict=False):
                key = config_key(config)
                if key not in self._builds:
                    self._builds[key] = self._submit(config)

    def late(self, configs: Sequence[Config]) -> Config | None:
        """The configuration whose build must begin now, or it would end after all others. None if there is none.

        `configs` are all that a search will still ask for. One long build at the end leaves all other cores idle.
        """
        if self._alternate:  # a device waits for each build there, whichever is the first
            return None
        with self._queueing:
            builds = [(config, self._builds.get(config_key(config))) for config in configs]
            left = [config for config, build in builds if build is None or not (build.running() or build.done())]
        place = self._times.late(left, self.count)
        return None if place is None else left[place]

    def is_ready(self, config: Config) -> bool:
        """Whether `wait` would return at once: `config` is built, or nobody has asked for it."""
        with self._queueing:
            build = self._builds.get(config_key(config))
            return build is None or build.done()

    def wait_for_any(self, configs: Iterable[Config], seconds: float) -> None:
        """Wait until one of these configurations is ready, for up to `seconds`."""
        with self._queueing:
            builds = [build for config in configs if (build := self._builds.get(config_key(config))) is not None]
        self._workers.resume()
        futures.wait(builds, seconds, futures.FIRST_COMPLETED)

    def first_built(self, configs: Sequence[Config], seconds: float) -> Config | None:
        """The first of these configurations that is built; None if none is after `seconds`.

        If no build of them is queued, it is the first of all.
        """
        with self._queueing:
            builds = {n: build for n, each in enumerate(configs) if (build := self._builds.get(config_key(each)))}
        if not builds:
            return configs[0]
        self._workers.resume()
        futures.wait(builds.values(), seconds, futures.FIRST_COMPLETED)
        return next((configs[number] for number, build in builds.items() if build.done()), None)

    def wait(self, config: Config) -> None:
        """Wait until `config` has been built, or the pool is closed.

        Raises TrialError if it does not compile or cannot be launched, WorkerDied if the compiler crashes twice or
        times out, and EnvironmentTrouble if the machine is to blame. The next call builds the configuration again.
        """
        with self._queueing:
            build = self._begin(config)
            self._waiting += 1
            if not build.done():
                self._workers.resume()
        try:
            with contextlib.suppress(CancelledError):
                build.result()
        finally:
            self.forget(config)
            with self._queueing:
                self._waiting -= 1
                if self._alternate and not self._waiting:
                    self._workers.suspend()

    def pause(self) -> None:
        """Stop the builds in progress where they are, so that they take no time from what follows a search. They go on
        when somebody waits for a build, or when the pool is switched to another problem."""
        self._workers.suspend()

    def forget(self, config: Config) -> None:
        """Cancel the build of `config`, unless it is in progress."""
        with self._queueing:
            self._asked.discard(config_key(config))
            build = self._builds.pop(config_key(config), None)
            if build is not None:
                build.cancel()

    def _begin(self, config: Config) -> Future[None]:
        """The build of a configuration that was asked for, ahead of all likely ones that have not begun."""
        key = config_key(config)
        self._asked.add(key)
        build = self._builds.get(key)
        if build is None or (not self._is_next(build) and build.cancel()):
            self._drop_likely()
            self._builds.pop(key, None)
            build = self._builds[key] = self._submit(config)
        return build

    def _is_next(self, build: Future[None]) -> bool:
        """Whether no other build will begin before this one."""
        return build is next((each for each in self._builds.values() if not (each.running() or each.done())), None)

    def _drop_likely(self) -> None:
        """Cancel the builds that were not asked for and have not begun."""
        for key in self._builds.keys() - self._asked:
            if self._builds[key].cancel():
                del self._builds[key]

    def _submit(self, config: Config) -> Future[None]:
        with self._submitting:
            if not self._closed and self._pool is not None:
                return self._pool.submit(self._build, config, self._task, self._space)
        build = Future[None]()
        build.cancel()
        return build

    def close(self) -> None:
        """Stop all compile workers, even during a build."""
        with self._submitting:
            self._closed = True
        self._workers.stop()
        for pool in filter(None, (self._pool, self._own)):
            pool.shutdown(wait=True, cancel_futures=True)
        self._workers.close()

    def _build(self, config: Config, task: dict[str, Any], space: Space) -> None:
        began, times = time.perf_counter(), self._times
        try:
            launch = self._workers.built(completed(space, config), task)["launch"]
            times.add(config, time.perf_counter() - began)
        except TrialError:
            times.add(config, time.perf_counter() - began)  # what needs too many registers is known after the build
            raise
        except (WorkerDied, EnvironmentTrouble):
            raise
        except Stopped:
            return
        except TunerError:
            return  # the worker will meet the same error and report it
        if launch:
            try:
                self._workers.launch()
            except (WorkerDied, EnvironmentTrouble) as error:
                if error.reason == "timeout":
                    raise
                # The worker will meet the same crash or trouble and report it.
        logger.debug("built in %.3f s: %s", time.perf_counter() - began, config_text(config))


def completed(space: Space, config: Config) -> Config:
    """The configuration with the values that only this process can compute. Raises GeometryError."""
    try:
        return space.completed(config)
    except ExpressionError as error:
        raise GeometryError(str(error)) from None


def _is_same_code(key: ConfigKey, before: Problem, now: Problem) -> bool:
    """Whether one build of a configuration serves two problems on the same device."""
    config = {name: value for name, _, value in key}
    (space, scope, *builder), (other, other_scope, *other_builder) = before, now
    if builder != other_builder or not (space.declares(config) and other.declares(config)):
        return False
    try:
        return _sources(Instance(space, config, scope)) == _sources(Instance(other, config, other_scope))
    except TunerError:
        return False


def _sources(instance: Instance) -> list[str]:
    return [step.source.digest for step in rendering.render(instance)]
