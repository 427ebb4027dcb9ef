"""Processes for strategies of others, which may compute without end: each can be stopped at any moment.

A server imports what a strategy needs once. It has one thread and forks a child for each strategy, which takes
milliseconds.
The server ends with the process that started it, and the children end with the server.
"""

import atexit
import contextlib
import ctypes
import functools
import importlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from tuner import paths

MODULE_BYTES = 256  # of the name of a module
END_SECONDS = 5.0  # that a child may take to end once it is killed
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_starting = threading.Lock()


class Child:
    """A process that runs `serve` with the other end of `connection`. The server has imported `module` before."""

    def __init__(self, module: str) -> None:
        ours, theirs = socket.socketpair()
        self._line, its_line = socket.socketpair()
        with theirs, its_line, contextlib.suppress(OSError):  # without a server, the connection is closed
            _server().fork(module, theirs, its_line)
        self.connection = Connection(ours.detach())

    def stop(self) -> int | None:
        """Kill the child. Returns its exit status as `subprocess` has it; None where the server is gone too."""
        with self.connection, self._line, contextlib.suppress(OSError):
            self._line.settimeout(END_SECONDS)
            self._line.shutdown(socket.SHUT_WR)
            status = self._line.recv(16)
            return int(status) if status else None
        return None


class _Server:
    """This process's end of its server."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message is a whole
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tuner.search.forkserver", "tuner.search.foreign"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,  # strategies print
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this process alone
                env={**paths.own_environment(), **_ONE_THREAD},  # one order of sums
            )
        atexit.register(self.close)

    def fork(self, module: str, channel: socket.socket, line: socket.socket) -> None:
        """Start a child that talks over `channel`. It is killed when the other end of `line` is shut down."""
        socket.send_fds(self._control, [module.encode()], [channel.fileno(), line.fileno()])

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the server and its children."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def _server() -> _Server:
    """The server of this process. A fork of this process has one of its own."""
    with _starting:
        if not _server_of(os.getpid()).is_alive():
            _server_of.cache_clear()
        return _server_of(os.getpid())


@functools.cache
def _server_of(_pid: int) -> _Server:
    return _Server()


def main(serve: Callable[[Connection], None]) -> None:
    """The server: forks children until standard input, a socket, is closed."""
    warnings.simplefilter("ignore")
    control = socket.socket(fileno=os.dup(0))
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    selector.unregister(key.fileobj)
                    _end(key.data, key.fd)
                    continue
                module, descriptors, _, _ = socket.recv_fds(control, MODULE_BYTES, 2)
                if not module:
                    return  # the system kills the children
                importlib.import_module(module.decode())
                channel, line = descriptors
                server = os.getpid()
                pid = os.fork()
                if pid == 0:
                    _be_child(server, channel, serve)
                os.close(channel)
                selector.register(line, selectors.EVENT_READ, pid)


def _end(pid: int, line: int) -> None:
    """Kill a child, and say on `line` how it ended."""
    os.kill(pid, signal.SIGKILL)  # it has not been waited for, so the number is still its own
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError), socket.socket(fileno=line) as end:
        end.send(str(status).encode())


def _be_child(server: int, channel: int, serve: Callable[[Connection], None]) -> None:
    """Does not return. The system kills a child whose server ends, and kills it first where memory runs out."""
    try:
        set_parent_death_signal = 1
        with contextlib.suppress(OSError, AttributeError):  # not Linux
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        if os.getppid() == server:
            serve(Connection(channel))
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(importlib.import_module(sys.argv[1]).serve)
