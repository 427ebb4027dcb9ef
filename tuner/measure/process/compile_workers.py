"""The compile workers of a pool: processes, one for each thread that builds, which are replaced when they die."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tuner import paths
from tuner.children import child
from tuner.devices.builds.allowance import Allowance
from tuner.errors import EnvironmentTrouble, TunerError, WorkerDied
from tuner.measure.process.channel import Process
from tuner.space import launch_form, snapshot
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.scope import Scope

logger = logging.getLogger(__name__)
COMPILE_WORKER = "tuner.measure.process.compile_worker"
# What compile workers import beside the packages of their device.
IMPORTS = ("tuner.space.sources.definitions", "tuner.devices.builds.header_search")
START_SECONDS = 120.0  # for a compile worker to import its packages


class Stopped(Exception):
    """The workers have been stopped."""


def task_of(
    space: Space, scope: Scope, device: str, architecture: str, compiler: str | None, timeout: float
) -> dict[str, Any]:
    """What a compile worker needs to build configurations of a space. `device` is its id, `compiler` the pinned one,
    `timeout` in seconds per build."""
    return {
        "space": launch_form.to_json(space),
        "files": snapshot.to_json(),
        "sizes": dict(scope.sizes),
        "options": dict(scope.options),
        "types": dict(scope.types),
        "language": scope.language,
        "limits": asdict(scope.limits),
        "device": device,
        "architecture": architecture,
        "allowance": asdict(Allowance.shared(timeout)),
        "compiler": compiler,
    }


class CompileWorkers:
    """A compile worker for each thread that asks for builds."""

    def __init__(self, timeout: float, packages: Sequence[str], modules: Sequence[str]) -> None:
        """`timeout` is in seconds per build. `packages` are those of the device. `modules` are the compiler's that
        may be imported before a fork; if there are any, no worker starts before.

        Raises EnvironmentTrouble if the machine has no room for a process.
        """
        self._timeout, self._packages, self._modules = timeout, packages, modules
        self._thread = threading.local()  # `process` is this thread's compile worker, `task` is that worker's task
        self._processes = list[Process]()
        if modules:
            with contextlib.suppress(OSError):  # the first worker meets the same error, and reports it
                child.prepare(paths.child_environment(), [COMPILE_WORKER, *IMPORTS, *modules])
        else:
            self._processes.append(self._started())
        self._idle = list(self._processes)
        self._starting, self._closed = threading.Lock(), False
        self._going_on = threading.Event()  # cleared while the workers are suspended
        self._going_on.set()

    def suspend(self) -> None:
        """Stop all builds where they are, and begin none, until `resume` is called."""
        with self._starting:
            self._going_on.clear()
            for process in self._processes:
                process.suspend()

    def resume(self) -> None:
        """Let builds go on."""
        if not self._going_on.is_set():
            with self._starting:
                for process in self._processes:
                    process.resume()
                self._going_on.set()

    def stop(self) -> None:
        """Stop all workers, even during a build, and start no more."""
        with self._starting:
            self._closed = True
            self._going_on.set()
        for process in list(self._processes):  # a copy, because a thread may discard one meanwhile
            process.stop()

    def close(self) -> None:
        """Close the connections to all workers, when no thread uses them any more."""
        for process in self._processes:
            process.close()

    def launch(self) -> None:
        """Have this thread's worker launch what it has built last. Raises as `_ask` does."""
        self._ask({"launch": True}, "")

    def build_own(self, task: dict[str, Any], share: int, shares: int) -> None:
        """Build one of several shares of what the device's worker needs of our own kernels. The compile worker is free
        for another thread then."""
        with contextlib.suppress(TunerError, Stopped):  # the worker will meet the same error and report it
            self._ensure_process(task, is_own=True)
            self._ask({"own": share, "shares": shares}, "")
            with self._starting:
                self._idle.append(self._thread.process)
            self._thread.process = None

    def built(self, config: Config, task: dict[str, Any]) -> dict[str, Any]:
        """The reply of a compile worker that has built `config`. A crash counts only if it happens again, after an
        empty kernel has been built. Raises as `_ask` does, and Stopped."""
        self._going_on.wait()
        self._ensure_process(task)
        try:
            return self._ask({"build": config}, "compile ")
        except WorkerDied as died:
            if died.reason != "compile crash":
                raise
            logger.debug("%s; trying again", died)
        self._ensure_process(task)
        try:
            self._ask({"check": True}, "")
        except WorkerDied as died:
            raise EnvironmentTrouble(f"the compiler does not build an empty kernel: {died}") from None
        return self._ask({"build": config}, "compile ")

    def _ask(self, request: dict[str, Any], prefix: str) -> dict[str, Any]:
        """The reply of this thread's compile worker.

        Discards the worker if it has died or met trouble of the machine. Raises WorkerDied, whose reason begins with
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

    def _ensure_process(self, task: dict[str, Any], is_own: bool = False) -> None:
        """Make sure that this thread has a compile worker with this task. `is_own`: to build kernels of ours first.

        Raises TunerError, but never WorkerDied: no configuration is to blame. Raises Stopped if the pool is closed.
        """
        process: Process | None = getattr(self._thread, "process", None)
        if process is not None and process.has_ended():  # killed from outside, not by a configuration
            self._discard(process)
            process = None
        if process is not None and self._thread.task is task:
            return
        if process is None:
            process = self._idle_process(is_own)
        self._thread.process = None
        try:
            process.ask(task, START_SECONDS)
        except TunerError as error:
            self._discard(process)
            raise (EnvironmentTrouble(str(error)) if isinstance(error, WorkerDied) else error) from None
        self._thread.process, self._thread.task = process, task

    def _idle_process(self, is_own: bool) -> Process:
        with self._starting:  # close() must see every process that was started
            if self._closed:
                raise Stopped
            if not self._idle:
                self._processes.append(self._started(is_own))
                self._idle.append(self._processes[-1])
            return self._idle.pop()

    def _discard(self, process: Process) -> None:
        with self._starting:
            process.close()
            self._processes.remove(process)

    def _started(self, is_own: bool = False) -> Process:
        # Each worker that is forked before the server has imported the compiler imports it itself. One import is faster
        # than many at once, but what measuring waits for does not wait for it.
        beforehand = () if is_own else self._modules
        return Process(COMPILE_WORKER, imports=[*self._packages, *IMPORTS], beforehand=beforehand)
