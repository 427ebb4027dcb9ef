"""Child processes, forked by a fork server: one server for each environment and set of CPUs."""

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
from typing import Any, BinaryIO

from tuner import paths
from tuner.children import fork_server, processors

# Prefixes of environment variables that a process or its libraries read only when they start.
AT_THE_START = (
    "PYTHON", "LD_", "LC_", "LANG", "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "MALLOC_", "GLIBC_", "NPY_", "NUMPY_",
    "PYOPENCL_",
)  # fmt: skip
# threadpoolctl sets this one when it is imported, which may be after a server has been prepared.
SET_BY_LIBRARIES = "KMP_DUPLICATE_LIB_OK"

# Linux sends the parent-death signal when the starting THREAD ends, so one permanent thread starts all servers.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")


class Child:
    """A child process under its own reaper, with the interface of `subprocess.Popen`.

    Process id, exit status and signals are those of the reaper, which ends as the child does.
    """

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
        """Run `main` of a module in a new process.

        Its standard streams are the pipes `stdin` and `stdout`, and `log`. `share` lists open descriptors that it
        inherits under the same numbers. The fork server imports `imports` beforehand, and `later` only if an earlier
        child has asked for them. Raises OSError if the machine cannot start another process.
        """
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
        with contextlib.ExitStack() as stack:
            self._line, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps message boundaries
            stack.enter_context(line)
            child_input, requests = os.pipe()
            self.stdin = os.fdopen(requests, "wb")
            stack.callback(os.close, child_input)
            replies, child_output = os.pipe()
            self.stdout = os.fdopen(replies, "rb")
            stack.callback(os.close, child_output)
            self._server = _server(environment)
            self._server.send(request, [line.fileno(), child_input, child_output, log.fileno(), *share])

    @property
    def pid(self) -> int:
        """The reaper's process id; 0 if it could not be started."""
        with self._waiting:
            return self._receive_pid(None) or 0

    def poll(self) -> int | None:
        """The child's exit status, as the reaper reports it; None while it runs."""
        if self._waiting.acquire(blocking=False):  # else another thread is in `wait`: still running
            try:
                return self._end(0.0)
            except subprocess.TimeoutExpired:
                pass
            finally:
                self._waiting.release()
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises subprocess.TimeoutExpired after `seconds`."""
        with self._waiting:
            return self._end(seconds)

    def send_signal(self, number: int) -> None:
        """Signal the reaper, unless it has ended."""
        with contextlib.suppress(OSError):
            self._line.send(bytes([number]))

    def end_server(self) -> None:
        """Kill the fork server, and with it all its children, if it no longer forwards signals."""
        self._server.close()

    def close(self) -> None:
        """Close the pipes and the socket of a child that has ended."""
        for end in (self.stdin, self.stdout, self._line):
            with contextlib.suppress(OSError):
                end.close()

    def _end(self, seconds: float | None) -> int:
        deadline = None if seconds is None else time.monotonic() + seconds
        if self.returncode is None:
            self._receive_pid(deadline)
            self.returncode = int(self._receive(deadline) or -signal.SIGKILL)  # ended with the fork server
        return self.returncode

    def _receive_pid(self, deadline: float | None) -> int:
        if self._pid is None:
            self._pid = int(self._receive(deadline) or 0)
        return self._pid

    def _receive(self, deadline: float | None) -> bytes:
        """The next message of the fork server; empty if the server has ended."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not poll.poll(None if remaining is None else remaining * 1e3):
            raise subprocess.TimeoutExpired("a child", remaining or 0.0)
        try:
            return self._line.recv(16)
        except OSError:
            return b""


def prepare(environment: Mapping[str, str], modules: Sequence[str]) -> None:
    """Have the fork server of this environment import modules when it has nothing else to do. Raises OSError."""
    _server(environment).send({"meanwhile": list(modules)}, [])


class ServerEnd:
    """This process's end of a fork server: the socket `control`, and the process."""

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._sending = threading.Lock()
        self._control, self._process = control, process
        atexit.register(self.close)

    def send(self, request: dict[str, object], files: Sequence[int]) -> None:
        """Ask the server to import modules, or to fork a child that gets the open `files` (descriptors)."""
        text = json.dumps(request).encode()
        message = len(text).to_bytes(fork_server.SIZE_BYTES, "big") + text
        # If the server has ended, the child counts as ended, too.
        with self._sending, contextlib.suppress(BrokenPipeError, ConnectionResetError):
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
_servers: dict[tuple[frozenset[tuple[str, str]], frozenset[int]], ServerEnd] = {}


def _server(environment: Mapping[str, str]) -> ServerEnd:
    """The fork server for a child with this environment, started if needed.

    Each set of CPUs has its own servers, and so has a fork of this process.
    """
    with _starting:
        key = _key(environment)
        server = _servers.get(key)
        if server is None or not server.is_alive():
            server = _servers[key] = _start(*key)
        return server


def _key(environment: Mapping[str, str]) -> tuple[frozenset[tuple[str, str]], frozenset[int]]:
    variables = frozenset(
        item for item in environment.items() if item[0].startswith(AT_THE_START) and item[0] != SET_BY_LIBRARIES
    )
    return variables, processors.allowed()


def _start(at_the_start: frozenset[tuple[str, str]], cpus: frozenset[int]) -> ServerEnd:
    control, server_end = socket.socketpair()
    with server_end:
        process = _spawner.submit(
            _popen,
            cpus,
            [sys.executable, "-P", "-m", fork_server.__name__, str(os.getpid())],
            stdin=server_end.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C reaches only this process
            env={**paths.child_environment(), **dict(at_the_start)},
        ).result()
    return ServerEnd(control, process)


def _popen(cpus: frozenset[int], *arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
    """A process on these CPUs. A new process has those of the thread that starts it, which may have been bound."""
    with contextlib.suppress(OSError):  # they have been taken from this process since
        os.sched_setaffinity(0, cpus)
    return subprocess.Popen(*arguments, **options)


def _reset_after_fork() -> None:
    """Reset the state after a fork: there are no other threads, and the fork servers belong to the parent."""
    global _spawner, _starting
    _spawner, _starting = ThreadPoolExecutor(1, thread_name_prefix="spawner"), threading.Lock()
    _servers.clear()


os.register_at_fork(after_in_child=_reset_after_fork)


def _folder() -> str | None:
    """The current folder; None if it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None
