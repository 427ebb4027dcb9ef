"""Children of this process, which a fork server forks: one server for each environment and set of processors."""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from tuner import paths
from tuner.children import fork_server

# How the names of variables begin that a process reads at its start, and by which libraries start.
AT_THE_START = ("PYTHON", "LD_", "LC_", "LANG", "OMP_", "OPENBLAS_", "MKL_", "MALLOC_", "NPY_", "PYOPENCL_")

# Linux signals a process when the thread that started it ends, so one lasting thread starts them all.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")


class Child:
    """A process below a reaper of its own, with what `subprocess.Popen` tells of one: here, of the reaper."""

    def __init__(
        self,
        module: str,
        log: BinaryIO,
        environment: dict[str, str],
        *,
        share: Sequence[int] = (),
        imports: Sequence[str] = (),
        later: Sequence[str] = (),
    ) -> None:
        """Runs `main` of a module. Its standard streams are `stdin`, `stdout` and `log`. `share` lists open descriptors
        that it inherits under the same numbers. It finds `imports` made; those `later` too, if an earlier child has had
        to make them. Raises OSError where the machine has no room for a process."""
        self.returncode: int | None = None
        self._pid: int | None = None
        self._waiting = threading.Lock()
        request: dict[str, object] = {
            "module": module,
            "imports": list(imports),
            "later": list(later),
            "share": list(share),
            "environment": environment,
            "folder": _folder(),
        }
        with contextlib.ExitStack() as its:
            self._line, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message is a whole
            its.enter_context(line)
            its_input, requests = os.pipe()
            self.stdin = os.fdopen(requests, "wb")
            its.callback(os.close, its_input)
            replies, its_output = os.pipe()
            self.stdout = os.fdopen(replies, "rb")
            its.callback(os.close, its_output)
            self._server = _server(environment)
            self._server.fork(request, [line.fileno(), its_input, its_output, log.fileno(), *share])

    @property
    def pid(self) -> int:
        """The reaper's process id; 0 where there is no reaper."""
        with self._waiting:
            return self._hear_pid(None) or 0

    def poll(self) -> int | None:
        """The reaper's exit status, which is that of the child; None while it runs."""
        if self._waiting.acquire(blocking=False):  # else another thread waits for its end, which has not come
            try:
                return self._end(0.0)
            except subprocess.TimeoutExpired:
                pass
            finally:
                self._waiting.release()
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        """The same once it has ended. Raises subprocess.TimeoutExpired after `seconds`."""
        with self._waiting:
            return self._end(seconds)

    def send_signal(self, number: int) -> None:
        """Signal the reaper, unless it has ended."""
        with contextlib.suppress(OSError):
            self._line.send(bytes([number]))

    def end_server(self) -> None:
        """Kill the fork server, and so all its children, where it passes no signal on."""
        self._server.close()

    def close(self) -> None:
        """Release what a child that has ended has left."""
        for end in (self.stdin, self.stdout, self._line):
            with contextlib.suppress(OSError):
                end.close()

    def _end(self, seconds: float | None) -> int:
        deadline = None if seconds is None else time.monotonic() + seconds
        if self.returncode is None:
            self._hear_pid(deadline)
            self.returncode = int(self._hear(deadline) or -signal.SIGKILL)  # so it ends where the fork server does
        return self.returncode

    def _hear_pid(self, deadline: float | None) -> int:
        if self._pid is None:
            self._pid = int(self._hear(deadline) or 0)
        return self._pid

    def _hear(self, deadline: float | None) -> bytes:
        """The next message of the fork server; empty where it has ended."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not poll.poll(None if remaining is None else remaining * 1e3):
            raise subprocess.TimeoutExpired("a child", remaining or 0.0)
        try:
            return self._line.recv(16)
        except OSError:
            return b""


class _Server:
    """This process's end of its fork server."""

    def __init__(self, at_the_start: Mapping[str, str]) -> None:
        self._asking = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = _spawner.submit(
                subprocess.Popen,
                [sys.executable, "-P", "-m", fork_server.__name__, str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this process alone
                env={**paths.child_environment(), **at_the_start},
            ).result()
        atexit.register(self.close)

    def fork(self, request: dict[str, object], files: Sequence[int]) -> None:
        """Have it fork a child, which gets these open files."""
        text = json.dumps(request).encode()
        message = len(text).to_bytes(fork_server.SIZE_BYTES, "big") + text
        with self._asking, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # then the line has no other end
            sent = socket.send_fds(self._control, [message], files)
            self._control.sendall(message[sent:])

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the fork server and its children."""
        self._control.close()
        self._process.kill()
        self._process.wait()


_starting = threading.Lock()
_servers: dict[tuple[frozenset[tuple[str, str]], frozenset[int]], _Server] = {}


def _server(environment: Mapping[str, str]) -> _Server:
    """The fork server for a child with this environment. A fork of this process has servers of its own, and so has
    another set of processors."""
    variables = frozenset(item for item in environment.items() if item[0].startswith(AT_THE_START))
    with _starting:
        processors = frozenset(os.sched_getaffinity(0))
        server = _servers.get((variables, processors))
        if server is None or not server.is_alive():
            server = _servers[variables, processors] = _Server(dict(variables))
        return server


def _begin_anew() -> None:
    """After a fork there are no other threads, and the fork servers are the parent's."""
    global _spawner, _starting
    _spawner, _starting = ThreadPoolExecutor(1, thread_name_prefix="spawner"), threading.Lock()
    _servers.clear()


os.register_at_fork(after_in_child=_begin_anew)


def _folder() -> str | None:
    """The current folder; None where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return None
