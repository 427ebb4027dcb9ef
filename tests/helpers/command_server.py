"""The process from which `helpers.commands` forks commands: it has imported what they need, and has no threads.

A command's fork server is forked with it: starting another Python, which imports all of that again, would take longer
than most commands. This process adopts what a command leaves behind, so that tests find it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from helpers.short_finals import shorten
from tuner import paths
from tuner.children import child, fork_server, reaper

# Nothing that a command sets up when it is imported, and nothing that starts a thread.
MODULES = (
    "tuner.__main__", "tuner.cli.app", "tuner.cli.verbs.tune", "tuner.cli.verbs.best", "tuner.cli.screen.logs",
    "tuner.cli.screen.progress", "tuner.tuning.driver", "tuner.tuning.exploration", "tuner.tuning.crew.crew",
    "tuner.tuning.ledger.ledger", "tuner.search.listing", "tuner.search.search",
    "tuner.store.store", "tuner.store.libraries", "tuner.devices.host.compiler", "tuner.devices.builds.equal_code",
    "tuner.families.family", "tuner.space.file.reader", "tuner.space.file.sample",
    "tuner.space.sources.checks.surplus_threads", "optuna", "optuna.storages.journal",
)  # fmt: skip
# What a fork server imports, too, and so starts nothing.
SERVER_MODULES = (
    "tuner.measure.process.compile_worker", "tuner.measure.process.worker", "tuner.measure.benchmark", "numpy.ma",
)  # fmt: skip
STORAGE_MODULES = "tuner.tuning.ledger.database", "sqlalchemy.dialects.postgresql.psycopg"  # from --storage on
ENCODING = "PYTHONIOENCODING"  # a variable that `become` obeys
LONGEST_REQUEST = 1 << 20  # bytes


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request. Returns the request there; here None, when nobody is left to ask."""
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    lines = dict[int, socket.socket]()  # to whoever waits for the process with this id
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == ended:
                    os.read(ended, 4096)
                    for pid, status in reaper.reap().items():
                        with contextlib.suppress(KeyError, OSError), lines.pop(pid) as line:
                            line.send(str(os.waitstatus_to_exitcode(status)).encode())
                    continue
                text, files, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 5)
                if not text:
                    return None
                request: dict[str, Any] = json.loads(text)
                if "--storage" in request["arguments"]:
                    load(STORAGE_MODULES)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for number, file in enumerate(files[:3]):
                        os.dup2(file, number)
                    os.fchdir(files[3])
                    os.closerange(3, max(*files, wakeup, *(line.fileno() for line in lines.values())) + 1)
                    return request
                for file in files[:4]:
                    os.close(file)
                lines[pid] = socket.socket(fileno=files[4])
                lines[pid].send(str(pid).encode())


def load(modules: Sequence[str]) -> None:
    """Import what commands need."""
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # else a garbage collection in a command would write to, and so copy, every shared page


def become(request: dict[str, Any], server: int) -> None:
    """Be a new process with the environment and arguments of the request, which ends with the server."""
    reaper.end_with_parent(signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    encoding = os.environ.get(ENCODING, "utf-8")
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding, "strict", line_buffering=os.isatty(1)
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)), encoding, "backslashreplace", line_buffering=True
    )
    gc.enable()


class Forked:
    """A fork of this process, with the interface of `subprocess.Popen` that a fork server's process needs."""

    def __init__(self, pid: int) -> None:
        self._pid, self._status = pid, None

    def poll(self) -> int | None:
        return self._end(os.WNOHANG)

    def kill(self) -> None:
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int | None:
        return self._end(0)

    def _end(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self._pid, options)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status


def fork_a_server() -> None:
    """Fork the fork server of this process, in the state in which it would start."""
    environment, parent = paths.child_environment(), os.getpid()
    control, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.dup2(theirs.fileno(), 0)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            os.closerange(3, max(control.fileno(), theirs.fileno()) + 1)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = [fork_server.__name__, str(parent)]
            fork_server.main()
        finally:
            os._exit(0)
    theirs.close()
    child._servers[child._key(environment)] = child.ServerEnd(control, Forked(pid))


def main() -> None:
    gc.disable()
    reaper.adopt_orphans()
    load(MODULES + SERVER_MODULES)
    shorten()
    os.fsync = lambda _: None  # commands wait for no disk, as in conftest.py
    control, server = socket.socket(fileno=os.dup(0)), os.getpid()
    request = serve(control)
    if request is not None:
        become(request, server)
        fork_a_server()
        sys.modules["tuner.__main__"].main()


if __name__ == "__main__":
    main()
