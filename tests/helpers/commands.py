"""`tune` commands in processes of their own, forked from one that has imported what they need.

Such a command takes a third of the processor time of one that imports everything itself.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from helpers import ROOT
from helpers.command_server import ENCODING
from tuner.children.child import AT_THE_START, SET_BY_LIBRARIES


class Command:
    """A running command, with the interface of `subprocess.Popen` that the tests use."""

    def __init__(self, arguments: tuple[str, ...], environment: Mapping[str, str], terminal: int | None) -> None:
        """`terminal` is an open file that is its standard input, output and error, in place of nothing and pipes."""
        self.arguments = arguments
        self.returncode: int | None = None
        output, theirs_out = os.pipe()
        errors, theirs_err = os.pipe()
        self.stdout, self.stderr = os.fdopen(output), os.fdopen(errors)
        self._line, line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(".", os.O_RDONLY)  # which may have been deleted
        with open(os.devnull) as nothing, line:
            standard = [nothing.fileno(), theirs_out, theirs_err] if terminal is None else [terminal] * 3
            files = [*standard, folder, line.fileno()]
            request = {"arguments": ["tune", *arguments], "environment": dict(environment)}
            _server(environment).send(request, files)
        for file in (theirs_out, theirs_err, folder):
            os.close(file)
        self.pid = int(self._line.recv(16))

    def poll(self) -> int | None:
        """The exit status; None while the command runs."""
        return self._end(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        if (status := self._end(timeout)) is None:
            raise subprocess.TimeoutExpired(["tune", *self.arguments], timeout or 0.0)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it still writes to standard output and standard error until it ends. Raises as `wait` does."""
        with ThreadPoolExecutor(2) as readers:
            rest = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                out, err = (each.result(timeout) for each in rest)
                self.wait(timeout)
            except BaseException:
                self.kill()
                raise
        self.stdout.close()
        self.stderr.close()
        return out, err

    def close(self) -> None:
        """Close this end of what the command writes to."""
        for end in (self.stdout, self.stderr, self._line):
            end.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._line], [], [], seconds)[0]:
            self.returncode = int(self._line.recv(16) or -signal.SIGKILL)  # it ends with its server
            self._line.close()
        return self.returncode


class _Server:
    """The process from which commands with one environment at the start are forked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        without = {name: value for name, value in environment.items() if not name.startswith("TUNER_")}
        path = os.pathsep.join(filter(None, [str(ROOT / "tests"), environment.get("PYTHONPATH")]))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "helpers.command_server"],
                stdin=theirs.fileno(),
                cwd=ROOT,
                env={**without, "PYTHONPATH": path},
                start_new_session=True,
                preexec_fn=hears,
            )
        atexit.register(self._close)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, request: dict[str, object], files: list[int]) -> None:
        socket.send_fds(self._control, [json.dumps(request).encode()], files)

    def _close(self) -> None:
        for command in _started:
            command.close()
        self._control.close()
        self._process.wait()


def hears() -> None:
    """A terminal that goes away and Ctrl-C are heard, also where these tests run under nohup or in the background."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


_servers: dict[frozenset[tuple[str, str]], _Server] = {}
_started: list[Command] = []


def start(*arguments: str, environment: Mapping[str, str] | None = None, terminal: int | None = None) -> Command:
    """The `tune` command, with short finals, in this environment; None: that of this process. See `Command`."""
    command = Command(arguments, os.environ if environment is None else environment, terminal)
    _started.append(command)
    return command


def servers() -> list[int]:
    """The processes of which whatever the commands have started descends."""
    return [server.pid for server in _servers.values()]


def running() -> list[Command]:
    """The commands that have not ended."""
    return [command for command in _started if command.poll() is None]


def _server(environment: Mapping[str, str]) -> _Server:
    """The server for an environment, of which some variables are read only when a process starts."""
    names = (name for name in environment if name.startswith(AT_THE_START) and name not in (SET_BY_LIBRARIES, ENCODING))
    key = frozenset((name, environment[name]) for name in names)
    if key not in _servers:
        _servers[key] = _Server(environment)
    return _servers[key]
