"""Work in a child process beside this one, so that no call waits for it: building a kernel, training a time model.

One piece of work runs at a time, in the order of the requests. Results go to the cache, where calls find them.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queue import SimpleQueue

WORKER = "tuner.families.beside_worker"


class BesideWork:
    """A piece of work that has been requested. `failure` says why it failed, once it `is_done`; empty if it did not."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.request = json.dumps(request)
        self.failure = ""
        self._is_done, self._process = False, os.getpid()

    @property
    def is_done(self) -> bool:
        """Whether it has ended. In a process that was forked from the one that requested it, it counts as ended."""
        return self._is_done or os.getpid() != self._process

    def end(self, failure: str) -> None:
        """Note its end."""
        self.failure, self._is_done = failure, True


class _Queue:
    """The pieces of work of this process."""

    def __init__(self) -> None:
        self._starting, self._by_request = threading.Lock(), dict[str, BesideWork]()
        self._waiting: SimpleQueue[BesideWork] | None = None

    def request(self, request: Mapping[str, Any]) -> BesideWork:
        """Request some work, unless it has been requested before."""
        work = BesideWork(request)
        with self._starting:
            present = self._by_request.setdefault(work.request, work)
            if self._waiting is None:
                from queue import SimpleQueue  # most processes need no work beside them

                self._waiting = SimpleQueue()
                # A daemon, because it may wait for a child when the program ends; the child ends with the program.
                threading.Thread(target=_serve, args=(self._waiting,), name="beside", daemon=True).start()
        if present is work:
            self._waiting.put(work)
        return present


_queue = _Queue()


def request(request: Mapping[str, Any]) -> BesideWork:
    """Have a child process do some work (see `beside_worker`), once in the life of this process."""
    return _queue.request(request)


def _serve(waiting: SimpleQueue[BesideWork]) -> None:
    while True:
        work = waiting.get()
        work.end(_failure(work.request))


def _failure(request: str) -> str:
    """Have a child process do the work. Returns why it failed, empty if it did not."""
    import tempfile  # slow to import, and most processes need no work beside them

    from tuner import paths
    from tuner.children.child import Child

    try:
        with tempfile.TemporaryFile() as log:
            child = Child(WORKER, log, paths.child_environment())
            with contextlib.closing(child):
                with contextlib.suppress(OSError):
                    child.stdin.write(request.encode())
                    child.stdin.close()
                answer = child.stdout.read().decode(errors="replace")
                status = child.wait()
            if status == 0:
                return answer.strip()
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else f"the process that did it ended with status {status}"
    except OSError as error:
        return f"no process could be started: {error.strerror}"


def _renew() -> None:
    global _queue
    _queue = _Queue()


os.register_at_fork(after_in_child=_renew)
