"""The fork server: a process that forks children on behalf of its parent, with their modules already imported.

Before the fork server forks a child, it imports the modules that the child needs at once. Modules that the child needs
later (`later` in a request) are imported by the first child itself, and by the server before any further child. The
server imports modules that it is told to import (`meanwhile`) as soon as it has nothing else to do. It opens nothing
that would not survive a fork.

The server ends with the process that started it, and its children end with the server.
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

MOST_FILES = 16  # descriptors in one request
SIZE_BYTES = 4  # of the length prefix of a request
IDLE_SECONDS = 0.05  # without a request, after which the server imports what is for later
LINE, INPUT, OUTPUT, LOG = range(4)  # positions of the descriptors in a request; shared descriptors follow


class _ForkServer:
    """Forks children until its standard input, a socket, is closed."""

    def __init__(self) -> None:
        self._control = socket.socket(fileno=os.dup(0))
        self._lines: dict[int, socket.socket] = {}  # by the process id of a reaper: the socket to whoever waits for it
        self._later: set[str] = set()  # `later` modules of earlier requests
        self._meanwhile: list[str] = []  # modules to import
        self._environment = dict(os.environ)

    def serve(self) -> None:
        """Serve requests until the parent closes its end of the control socket."""
        ended, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            ready: list[Any] = []
            while True:
                is_idle = not ready
                ready = selector.select((0 if is_idle else IDLE_SECONDS) if self._meanwhile else None)
                if not ready:
                    self._import(self._meanwhile.pop(0))
                for key, _ in ready:
                    if key.fileobj == ended:
                        os.read(ended, 4096)
                        self._reap(selector)
                    elif key.data in self._lines:
                        self._forward_signal(key.data, selector)
                    elif key.data is None and not self._take(selector):
                        return

    def _take(self, selector: selectors.BaseSelector) -> bool:
        """Fork a child for the next request; False if the parent has closed its end."""
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
        if "meanwhile" in request:
            self._meanwhile += request["meanwhile"]
            return True
        self._import(request["module"], *request["imports"])
        self._import(*self._later.intersection(request["later"]))
        self._later.update(request["later"])
        line, server = socket.socket(fileno=files[LINE]), os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.write(files[LOG], (error.strerror or "").encode())
            _send(line, 0)
            _send(line, reaper.CANNOT_START)
            line.close()
        else:
            if pid == 0:
                _be_reaper(server, self._environment, request, files)
            _send(line, pid)
            self._lines[pid] = line
            selector.register(line, selectors.EVENT_READ, pid)
        for descriptor in files[INPUT:]:
            os.close(descriptor)
        return True

    def _import(self, *modules: str) -> None:
        for module in modules:
            if module in sys.modules:
                continue
            with contextlib.suppress(Exception):  # the child imports it again and reports the error
                importlib.import_module(module)
            gc.freeze()  # else a garbage collection in a child would write to, and so copy, every shared page

    def _forward_signal(self, pid: int, selector: selectors.BaseSelector) -> None:
        """Forward a signal from the waiting process to its reaper; send SIGTERM if that process closed its end."""
        number = b""
        with contextlib.suppress(OSError):
            number = self._lines[pid].recv(1)
        if not number:
            selector.unregister(self._lines[pid])
        os.kill(pid, number[0] if number else signal.SIGTERM)  # not yet reaped, so the process id is not reused

    def _reap(self, selector: selectors.BaseSelector) -> None:
        """Send the exit status of each reaper that has ended to the process that waits for it."""
        for pid, status in reaper.reap().items():
            line = self._lines.pop(pid, None)
            if line is None:
                continue  # a process that an imported module has started
            with contextlib.suppress(KeyError):
                selector.unregister(line)
            with line:
                _send(line, os.waitstatus_to_exitcode(status))


def _send(line: socket.socket, number: int) -> None:
    """Send a number as text; ignored if the other end is closed."""
    with contextlib.suppress(OSError):
        line.send(str(number).encode())


def _be_reaper(server: int, before: Mapping[str, str], request: dict[str, Any], files: Sequence[int]) -> None:
    """Turn the forked process into a reaper. Does not return.

    Only the imported modules of the server remain. `before` is the server's environment before it imported anything.
    """
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        _place(files[INPUT:], [0, 1, 2, *request["share"]])
        with contextlib.suppress(OSError, TypeError):
            os.chdir(request["folder"])
        for name in before.keys() - request["environment"].keys():
            os.environ.pop(name, None)
        os.environ.update(request["environment"].items() - before.items())  # keep variables that imports have set
        tempfile.tempdir = None
        module = request["module"]
        reaper.watch(server, functools.partial(_work, module), module.rpartition(".")[2])
    except BaseException:
        traceback.print_exc()  # to the log of the child
    finally:
        os._exit(reaper.CANNOT_START)


def _place(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Duplicate the open `files` to the descriptors `numbers`, and close all other descriptors."""
    above = max(numbers) + 1
    for file, number in zip([fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in files], numbers, strict=True):
        os.dup2(file, number)
    try:
        opened = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        opened = list(range(os.sysconf("SC_OPEN_MAX")))
    for number in set(opened).difference(numbers):
        with contextlib.suppress(OSError):
            os.close(number)


def _work(module: str) -> None:
    sys.argv = [module]
    gc.set_threshold(10_000, 20, 20)  # most of what the child makes stays as long as the child
    gc.enable()
    importlib.import_module(module).main()


def main() -> None:
    """Run the fork server of the process whose id is the first argument."""
    reaper.end_with_parent(signal.SIGKILL)
    if os.getppid() == int(sys.argv[1]):
        warnings.simplefilter("ignore")
        gc.disable()  # what importing makes stays
        reaper.name("server")
        _ForkServer().serve()


if __name__ == "__main__":
    main()
