"""A process that forks the children of this one, so that what they import is there already.

`tune` starts a worker, a compile worker for each core, and a worker after each crash. The nursery imports the module of
each before it forks it. What that will import besides, it imports from the second time on: the first child does so
while its device opens. The nursery opens no device, which would not survive a fork.

The nursery ends with the process that started it, and its children end with it.
"""

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from tuner import paths
from tuner.measure.process import warden

MOST_FILES = 16  # descriptors of a request
SIZE_BYTES = 4  # of the number that says how long a request is
# How the names of variables begin that a process reads at its start, and by which libraries start.
AT_THE_START = ("PYTHON", "LD_", "LC_", "LANG", "OMP_", "OPENBLAS_", "MKL_", "MALLOC_", "NPY_", "PYOPENCL_")
LINE, INPUT, OUTPUT, LOG = range(4)  # the descriptors of a request; those that the child shares follow

# Linux signals a process when the thread that started it ends, so one lasting thread starts them all.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")


class Ward:
    """A child below a warden of its own, with what `subprocess.Popen` tells of a process: here, of the warden."""

    def __init__(
        self, modules: Sequence[str], log: BinaryIO, share: Sequence[int], environment: dict[str, str]
    ) -> None:
        """Runs `main` of the first of `modules`; it will import the others. `share` lists open descriptors that it
        inherits under the same numbers. Raises OSError where the machine has no room for a process."""
        self.returncode: int | None = None
        self._pid: int | None = None
        self._waiting = threading.Lock()
        request = {"modules": list(modules), "share": list(share), "environment": environment, "folder": _folder()}
        with contextlib.ExitStack() as its:
            self._line, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message is a whole
            its.enter_context(line)
            its_input, requests = os.pipe()
            self.stdin = os.fdopen(requests, "wb")
            its.callback(os.close, its_input)
            replies, its_output = os.pipe()
            self.stdout = os.fdopen(replies, "rb")
            its.callback(os.close, its_output)
            self._nursery = _nursery()
            self._nursery.fork(request, [line.fileno(), its_input, its_output, log.fileno(), *share])

    @property
    def pid(self) -> int:
        """The warden's process id; 0 where there is no warden."""
        with self._waiting:
            return self._hear_pid(None) or 0

    def poll(self) -> int | None:
        """The warden's exit status, which is that of the child; None while it runs."""
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
        """Signal the warden, unless it has ended."""
        with contextlib.suppress(OSError):
            self._line.send(bytes([number]))

    def end_nursery(self) -> None:
        """Kill the nursery, and so all its children, where it passes no signal on."""
        self._nursery.close()

    def close(self) -> None:
        """Release what a child that has ended has left."""
        for end in (self.stdin, self.stdout, self._line):
            with contextlib.suppress(OSError):
                end.close()

    def _end(self, seconds: float | None) -> int:
        deadline = None if seconds is None else time.monotonic() + seconds
        if self.returncode is None:
            self._hear_pid(deadline)
            self.returncode = int(self._hear(deadline) or -signal.SIGKILL)  # so it ends where the nursery does
        return self.returncode

    def _hear_pid(self, deadline: float | None) -> int:
        if self._pid is None:
            self._pid = int(self._hear(deadline) or 0)
        return self._pid

    def _hear(self, deadline: float | None) -> bytes:
        """The next message of the nursery; empty where it has ended."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not poll.poll(None if remaining is None else remaining * 1e3):
            raise subprocess.TimeoutExpired("a worker", remaining or 0.0)
        try:
            return self._line.recv(16)
        except OSError:
            return b""


class _Nursery:
    """This process's end of its nursery."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = _spawner.submit(
                subprocess.Popen,
                [sys.executable, "-P", "-m", __name__, str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this process alone
                env=paths.own_environment(),
            ).result()
        atexit.register(self.close)

    def fork(self, request: dict[str, object], files: Sequence[int]) -> None:
        """Have it fork a child, which gets these open files."""
        text = json.dumps(request).encode()
        message = len(text).to_bytes(SIZE_BYTES, "big") + text
        with self._asking, contextlib.suppress(BrokenPipeError, ConnectionResetError):  # then the line has no other end
            sent = socket.send_fds(self._control, [message], files)
            self._control.sendall(message[sent:])

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the nursery and its children."""
        self._control.close()
        self._process.kill()
        self._process.wait()


_starting = threading.Lock()


def _nursery() -> _Nursery:
    """The nursery of this process. A fork of this process has one of its own, and so have another environment and
    another set of processors."""
    variables = frozenset(item for item in os.environ.items() if item[0].startswith(AT_THE_START))
    with _starting:
        processors = frozenset(os.sched_getaffinity(0))
        if not _nursery_of(variables, processors).is_alive():
            _nursery_of.cache_clear()
        return _nursery_of(variables, processors)


@functools.cache
def _nursery_of(_variables: frozenset[tuple[str, str]], _processors: frozenset[int]) -> _Nursery:
    return _Nursery()


def _begin_anew() -> None:
    """After a fork there are no other threads, and the nursery is the parent's."""
    global _spawner, _starting
    _spawner, _starting = ThreadPoolExecutor(1, thread_name_prefix="spawner"), threading.Lock()
    _nursery_of.cache_clear()


os.register_at_fork(after_in_child=_begin_anew)


def _folder() -> str | None:
    """The current folder; None where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return None


class _Server:
    """The nursery itself: forks children until its standard input, a socket, is closed."""

    def __init__(self) -> None:
        self._control = socket.socket(fileno=os.dup(0))
        self._lines: dict[int, socket.socket] = {}  # to those who wait for a warden, by its process id
        self._asked: set[str] = set()  # modules
        self._environment = dict(os.environ)

    def serve(self) -> None:
        """Return when nobody can ask any more."""
        ended, ends = os.pipe()
        os.set_blocking(ends, False)
        signal.set_wakeup_fd(ends)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == ended:
                        os.read(ended, 4096)
                        self._reap(selector)
                    elif key.data in self._lines:
                        self._pass_on(key.data, selector)
                    elif key.data is None and not self._take(selector):
                        return

    def _take(self, selector: selectors.BaseSelector) -> bool:
        """Fork a child for the next request; False where nobody can ask any more."""
        size, files, _, _ = socket.recv_fds(self._control, SIZE_BYTES, MOST_FILES)
        if not size:
            return False
        text, length = b"", int.from_bytes(size, "big")
        while len(text) < length:
            data = self._control.recv(length - len(text))
            if not data:
                return False
            text += data
        request = json.loads(text)
        self._import(*request["modules"])
        line, nursery = socket.socket(fileno=files[LINE]), os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.write(files[LOG], (error.strerror or "").encode())
            _tell(line, 0)
            _tell(line, warden.CANNOT_START)
            line.close()
        else:
            if pid == 0:
                _be_warden(nursery, self._environment, request, files)
            _tell(line, pid)
            self._lines[pid] = line
            selector.register(line, selectors.EVENT_READ, pid)
        for descriptor in files[INPUT:]:
            os.close(descriptor)
        return True

    def _import(self, main: str, *others: str) -> None:
        """Import the module of a child, and of the others those that an earlier child has had to import."""
        for module in [main, *self._asked.intersection(others)]:
            if module in sys.modules:
                continue
            with contextlib.suppress(Exception):  # the child imports it again, and says what is wrong
                importlib.import_module(module)
            gc.freeze()  # else a collection in a child would write to, and so copy, all that they share
        self._asked.update(others)

    def _pass_on(self, pid: int, selector: selectors.BaseSelector) -> None:
        """Signal a warden as the one who waits for it says, or end it where nobody waits any more."""
        number = b""
        with contextlib.suppress(OSError):
            number = self._lines[pid].recv(1)
        if not number:
            selector.unregister(self._lines[pid])
        os.kill(pid, number[0] if number else signal.SIGTERM)  # it is not reaped, so the number is still its own

    def _reap(self, selector: selectors.BaseSelector) -> None:
        """Tell those who wait for a warden how it has ended."""
        for pid, status in warden.reap().items():
            line = self._lines.pop(pid)
            with contextlib.suppress(KeyError):
                selector.unregister(line)
            with line:
                _tell(line, os.waitstatus_to_exitcode(status))


def _tell(line: socket.socket, number: int) -> None:
    """Send a number to whoever still waits for it."""
    with contextlib.suppress(OSError):
        line.send(str(number).encode())


def _be_warden(nursery: int, before: Mapping[str, str], request: dict[str, Any], files: Sequence[int]) -> None:
    """Does not return. Nothing of the nursery is left but what it has imported; `before` was its environment before."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        _place(files[INPUT:], [0, 1, 2, *request["share"]])
        with contextlib.suppress(OSError, TypeError):
            os.chdir(request["folder"])
        for name in before.keys() - request["environment"].keys():
            os.environ.pop(name, None)
        os.environ.update(request["environment"].items() - before.items())  # what imports have set stays
        tempfile.tempdir = None
        module = request["modules"][0]
        warden.watch(nursery, functools.partial(_work, module), module.rpartition(".")[2])
    except BaseException:
        traceback.print_exc()  # into the log of the child
    finally:
        os._exit(warden.CANNOT_START)


def _place(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Give open files these numbers, and close all others."""
    above = max(numbers) + 1
    for file, number in zip([fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in files], numbers, strict=True):
        os.dup2(file, number)
    try:
        there = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        there = list(range(os.sysconf("SC_OPEN_MAX")))
    for number in set(there).difference(numbers):
        with contextlib.suppress(OSError):
            os.close(number)


def _work(module: str) -> None:
    sys.argv = [module]
    importlib.import_module(module).main()


def main() -> None:
    """Be the nursery of the process whose number is the first argument."""
    warden.end_with_parent(signal.SIGKILL)
    if os.getppid() == int(sys.argv[1]):
        warnings.simplefilter("ignore")
        warden.name("nursery")
        _Server().serve()


if __name__ == "__main__":
    main()
