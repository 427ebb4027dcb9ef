"""Compiles ahead of the device: compile workers build the configurations that come next."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent import futures
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tuner.devices import DeviceInfo, forkable_packages
from tuner.devices.compiler import Allowance, most_builders
from tuner.errors import DeviceError, EnvironmentTrouble, TrialError, TunerError, WorkerDied
from tuner.measure.process.channel import Process
from tuner.space import launch_form
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import config_text

logger = logging.getLogger(__name__)
MOST_WORKERS = 16  # per device
START_SECONDS = 120.0  # for a compile worker to import its packages
AHEAD = 4  # configurations in the queue per compile worker


class CompilePool:
    """Compile workers for one space and size after the other, each driven by a thread of its own. The first starts at
    once, while a device opens; the others start when there is something for them to build.

    What a search has asked for is built before what it may ask for. `depth` is how many configurations may be asked for
    before they are built.

    Where the device is this machine's processor, compiling would disturb the times. There the whole queue is built
    first, on all cores, then measured, and then refilled.
    """

    def __init__(self, timeout: float, device_ids: Sequence[str]) -> None:
        """`timeout` is in seconds per build; it builds for these devices, which are alike. `turn_to` comes next.

        Raises EnvironmentTrouble where the machine has no room for a process.
        """
        self._timeout, self._devices = timeout, len(device_ids)
        self._packages = forkable_packages(device_ids[0]) or ()
        self._pool: ThreadPoolExecutor | None = None
        self._thread = threading.local()  # its `process` is the thread's compile worker, which has its `task`
        self._processes = [_compile_worker(self._packages)]
        self._idle = list(self._processes)
        self._builds: dict[ConfigKey, Future[None]] = {}
        self._asked = set[ConfigKey]()  # those that the search has asked for
        self._queueing = threading.Lock()  # guards both
        self._starting, self._closed = threading.Lock(), False

    def turn_to(self, space: Space, scope: Scope, device: DeviceInfo) -> None:
        """Build for this space and size from now on. Builds under way come to their end."""
        with self._queueing:
            for build in self._builds.values():
                build.cancel()
            self._builds.clear()
            self._asked.clear()
        self._task = self._task_of(space, scope, device)
        if self._pool is None:
            self._alternate = device.on_processor
            cores = len(os.sched_getaffinity(0))
            free = cores if self._alternate else cores - self._devices
            self.count = max(1, min(MOST_WORKERS * self._devices, free, most_builders() - self._devices))
            self.depth = 1 if self._alternate else max(self.count, self._devices)
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="compile-pool")

    def _task_of(self, space: Space, scope: Scope, device: DeviceInfo) -> dict[str, Any]:
        return {
            "space": launch_form.to_json(space),
            "sizes": dict(scope.sizes),
            "options": dict(scope.options),
            "types": dict(scope.types),
            "language": scope.language,
            "limits": asdict(scope.limits),
            "device": device.id,
            "architecture": device.architecture,
            "allowance": asdict(Allowance.shared(self._timeout)),
        }

    def prepare(self, asked: Config | None, likely: Iterable[Config]) -> None:
        """Queue the build of a configuration that has been asked for, if one has, and then those of what is likely to
        be asked for next, in place of what was likely before. AHEAD configurations for each compile worker are enough.
        """
        with self._queueing:
            if self._alternate and self._builds:
                return
            if asked is not None:
                self._begin(asked)
            self._drop_likely()
            for config, _ in zip(likely, range(AHEAD * self.count - len(self._asked)), strict=False):
                key = config_key(config)
                if key not in self._builds:
                    self._builds[key] = self._submit(config)

    def is_ready(self, config: Config) -> bool:
        """Whether a device may be given `config` now: it is built, or `wait` builds the whole queue."""
        with self._queueing:
            build = self._builds.get(config_key(config))
            return self._alternate or build is None or build.done()

    def wait_for_any(self, configs: Iterable[Config], seconds: float) -> None:
        """Return when one of these configurations is ready, or after `seconds`."""
        with self._queueing:
            builds = [build for config in configs if (build := self._builds.get(config_key(config))) is not None]
        futures.wait(builds, seconds, futures.FIRST_COMPLETED)

    def wait(self, config: Config) -> None:
        """Return when `config` has been built, or the pool is closed.

        Raises TrialError where it does not compile or cannot be launched, WorkerDied where the compiler crashes or
        times out, DeviceError where no compile worker starts, EnvironmentTrouble where the machine is to blame: the
        next call builds it again.
        """
        if self._alternate:
            for other in list(self._builds.values()):
                with contextlib.suppress(CancelledError):
                    other.exception()  # futures.wait would wait for a cancelled one for ever
        with self._queueing:
            build = self._begin(config)
        try:
            with contextlib.suppress(CancelledError):
                build.result()
        finally:
            self.forget(config)

    def forget(self, config: Config) -> None:
        """Build `config` no more, unless that is under way: nobody waits for it."""
        with self._queueing:
            self._asked.discard(config_key(config))
            build = self._builds.pop(config_key(config), None)
            if build is not None:
                build.cancel()

    def _begin(self, config: Config) -> Future[None]:
        """The build of what has been asked for. It comes before all that is only likely, and has not begun."""
        key = config_key(config)
        self._asked.add(key)
        build = self._builds.get(key)
        if build is None or build.cancel():
            self._drop_likely()
            build = self._builds[key] = self._submit(config)
        return build

    def _drop_likely(self) -> None:
        """Forget the builds that nobody has asked for, and that have not begun."""
        for key in self._builds.keys() - self._asked:
            if self._builds[key].cancel():
                del self._builds[key]

    def _submit(self, config: Config) -> Future[None]:
        with self._starting:
            if not self._closed and self._pool is not None:
                return self._pool.submit(self._build, config, self._task)
        build = Future[None]()
        build.cancel()
        return build

    def close(self) -> None:
        """Stop all compile workers, even in the middle of a build."""
        with self._starting:
            self._closed = True
        for process in list(self._processes):  # a thread may discard one meanwhile
            process.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            process.close()

    def _build(self, config: Config, task: dict[str, Any]) -> None:
        try:
            self._have_process(task)
        except _Stopped:
            return
        began = time.perf_counter()
        try:
            launch = self._ask({"build": config}, "compile ")["launch"]
            logger.debug("built in %.3f s: %s", time.perf_counter() - began, config_text(config))
        except (TrialError, WorkerDied, EnvironmentTrouble):
            raise
        except TunerError:
            return  # the worker meets the same error, and reports it
        if launch:
            try:
                self._ask({"launch": True}, "")
            except (WorkerDied, EnvironmentTrouble) as error:
                if error.reason == "timeout":
                    raise
                # The worker meets the same crash or trouble, and reports it.

    def _ask(self, request: dict[str, Any], prefix: str) -> dict[str, Any]:
        """The reply of this thread's compile worker.

        Where that has died, or its machine is in trouble, discards it. Raises WorkerDied, whose reason begins with
        `prefix`, or EnvironmentTrouble.
        """
        process: Process = self._thread.process
        try:
            return process.ask(request, self._timeout)
        except (WorkerDied, EnvironmentTrouble) as error:
            self._thread.process = None
            self._discard(process)
            if isinstance(error, EnvironmentTrouble):
                raise
            raise WorkerDied(str(error), f"{prefix}{error.reason}") from None

    def _have_process(self, task: dict[str, Any]) -> None:
        """Give this thread a compile worker that has the task, unless it has one. Raises TunerError, but no WorkerDied:
        no configuration is to blame."""
        process: Process | None = getattr(self._thread, "process", None)
        if process is not None and process.has_ended():  # somebody has killed it, and no configuration
            self._discard(process)
            process = None
        if process is not None and self._thread.task is task:
            return
        if process is None:
            process = self._idle_process()
        self._thread.process = None
        try:
            process.ask(task, START_SECONDS)
        except TunerError as error:
            self._discard(process)
            raise (DeviceError(str(error)) if isinstance(error, WorkerDied) else error) from None
        self._thread.process, self._thread.task = process, task

    def _idle_process(self) -> Process:
        with self._starting:  # close() must see every process that was started
            if self._closed:
                raise _Stopped
            if not self._idle:
                self._processes.append(_compile_worker(self._packages))
                self._idle.append(self._processes[-1])
            return self._idle.pop()

    def _discard(self, process: Process) -> None:
        with self._starting:
            process.close()
            self._processes.remove(process)


class _Stopped(Exception):
    """The pool has been closed."""


def _compile_worker(packages: Sequence[str]) -> Process:
    return Process("tuner.measure.process.compile_worker", imports=packages)
