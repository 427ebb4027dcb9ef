"""Compiling ahead of the device: a few builder processes work on the configurations that come next."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tuner import form
from tuner.errors import BuildError, TunerError, WorkerDied
from tuner.process import Process
from tuner.space import Config, Scope, Space

MOST_BUILDERS = 8
AHEAD = 4  # configurations in the queue for each builder


class Builders:
    """Builder processes for one space and size; each belongs to a thread that waits for it."""

    def __init__(self, space: Space, scope: Scope, device: dict[str, Any], timeout: float) -> None:
        """`device` is what `Device.describe` gave. Starts nothing yet. `timeout` is in seconds, for one build."""
        self.count = max(1, min(MOST_BUILDERS, len(os.sched_getaffinity(0)) - 1))
        self._task = {
            "space": form.to_json(space),
            "sizes": dict(scope.sizes),
            "options": dict(scope.options),
            "language": scope.language,
            "limits": asdict(scope.limits),
            "kind": device["device"].partition(":")[0],
            "architecture": device["architecture"],
        }
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="builder")
        self._own = threading.local()
        self._processes: list[Process] = []
        self._builds: dict[str, Future[None]] = {}
        self._starting, self._closed = threading.Lock(), False

    def prepare(self, configs: Iterable[Config]) -> None:
        """Have the first of `configs` built, as many as are worth having ahead."""
        for config, _ in zip(configs, range(AHEAD * self.count), strict=False):
            key = repr(config)
            if key not in self._builds:
                self._builds[key] = self._pool.submit(self._build, config)

    def wait(self, config: Config) -> None:
        """Return when `config` has been built, at once if it was not prepared.

        Raises BuildError where it does not compile, WorkerDied where the compiler crashes or takes too long.
        """
        build = self._builds.pop(repr(config), None)
        if build is not None:
            build.result()

    def close(self) -> None:
        """Stop all builders, whatever they are doing."""
        with self._starting:
            self._closed = True
        for one in self._processes:
            one.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for one in self._processes:
            one.close()

    def _build(self, config: Config) -> None:
        if self._closed:
            return
        try:
            self._process().ask({"build": config}, self._timeout)
        except WorkerDied:
            self._own.process = None
            raise
        except BuildError:
            raise
        except TunerError:
            pass  # the worker meets it again, and says what it is

    def _process(self) -> Process:
        """This thread's builder, started when it is first needed."""
        if getattr(self._own, "process", None) is None:
            with self._starting:  # so that close() stops every one that was started
                if self._closed:
                    raise WorkerDied("crash", "the builders have been stopped")
                self._own.process = Process("tuner.builder")
                self._processes.append(self._own.process)
            self._own.process.ask(self._task, self._timeout)
        process: Process = self._own.process
        return process
