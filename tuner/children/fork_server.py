"""The process that forks children of another one, so that what they import is there already.

Before the fork server forks a child, it imports what that needs at once. What the child needs later, it imports from
the second time on: the first child does so by itself. The server opens nothing that would not survive a fork.

It ends with the process that started it, and its children end with it.
"""

import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.children import reaper

MOST_FILES = 16  # descriptors of a request
SIZE_BYTES = 4  # of the number that says how long a request is
LINE, INPUT, OUTPUT, LOG = range(4)  # the descriptors of a request; those that the child shares follow


class _ForkServer:
    """Forks children until its standard input, a socket, is closed."""

    def __init__(self) -> None:
        self._control = socket.socket(fileno=os.dup(0))
        self._lines: dict[int, socket.socket] = {}  # to those who wait for a reaper, by its process id
        self._asked: set[str] = set()  # modules that a child has had to import
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
        self._import(request["module"], *request["imports"])
        self._import(*self._asked.intersection(request["later"]))
        self._asked.update(request["later"])
        line, server = socket.socket(fileno=files[LINE]), os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.write(files[LOG], (error.strerror or "").encode())
            _tell(line, 0)
            _tell(line, reaper.CANNOT_START)
            line.close()
        else:
            if pid == 0:
                _be_reaper(server, self._environment, request, files)
            _tell(line, pid)
            self._lines[pid] = line
            selector.register(line, selectors.EVENT_READ, pid)
        for descriptor in files[INPUT:]:
            os.close(descriptor)
        return True

    def _import(self, *modules: str) -> None:
        for module in modules:
            if module in sys.modules:
                continue
            with contextlib.suppress(Exception):  # the child imports it again, and says what is wrong
                importlib.import_module(module)
            gc.freeze()  # else a collection in a child would write to, and so copy, all that they share

    def _pass_on(self, pid: int, selector: selectors.BaseSelector) -> None:
        """Signal a reaper as the one who waits for it says, or end it where nobody waits any more."""
        number = b""
        with contextlib.suppress(OSError):
            number = self._lines[pid].recv(1)
        if not number:
            selector.unregister(self._lines[pid])
        os.kill(pid, number[0] if number else signal.SIGTERM)  # it is not reaped, so the number is still its own

    def _reap(self, selector: selectors.BaseSelector) -> None:
        """Tell those who wait for a reaper how it has ended."""
        for pid, status in reaper.reap().items():
            line = self._lines.pop(pid)
            with contextlib.suppress(KeyError):
                selector.unregister(line)
            with line:
                _tell(line, os.waitstatus_to_exitcode(status))


def _tell(line: socket.socket, number: int) -> None:
    """Send a number to whoever still waits for it."""
    with contextlib.suppress(OSError):
        line.send(str(number).encode())


def _be_reaper(server: int, before: Mapping[str, str], request: dict[str, Any], files: Sequence[int]) -> None:
    """Does not return. Nothing of the server is left but what it has imported; `before` was its environment before."""
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
        module = request["module"]
        reaper.watch(server, functools.partial(_work, module), module.rpartition(".")[2])
    except BaseException:
        traceback.print_exc()  # into the log of the child
    finally:
        os._exit(reaper.CANNOT_START)


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
    """Be the fork server of the process whose number is the first argument."""
    reaper.end_with_parent(signal.SIGKILL)
    if os.getppid() == int(sys.argv[1]):
        warnings.simplefilter("ignore")
        reaper.name("server")
        _ForkServer().serve()


if __name__ == "__main__":
    main()
