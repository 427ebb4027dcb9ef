"""A child process that answers JSON lines, can be killed at any moment, and dies with its parent."""

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.children import reaper
from tuner.children.child import Child
from tuner.devices import environment
from tuner.errors import BY_NAME, DeviceError, EnvironmentTrouble, TunerError, WorkerDied
from tuner.measure.process import scratch
from tuner.measure.process.replies import LOST_CHANNEL

LONGEST_REPLY, LONGEST_LOG = 64 << 20, 16 << 20  # bytes
STOP_SECONDS = 10.0  # for a reaper to kill what it watches
END_SECONDS = 5.0  # for a child to end that has closed the channel
FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}  # no fault of a kernel ends in these


class Process:
    """The parent's end of a child that runs `main` of a module, below a reaper.

    The reaper leads a session of its own. So Ctrl-C reaches the parent alone.
    """

    def __init__(self, module: str, share: Sequence[int] = (), imports: Sequence[str] = ()) -> None:
        """`share` lists open file descriptors that the child inherits under the same numbers. `imports` are modules
        that it will import.

        Raises EnvironmentTrouble where the machine has no room for another process.
        """
        try:
            self._log = scratch.file()
            self._scratch = scratch.folder()
            variables = {**paths.own_environment(), "TMPDIR": str(self._scratch)}
            self._process = Child(module, self._log, variables, share=share, later=imports)
        except OSError as error:
            raise environment.of_error(error) or DeviceError(f"no process can be started: {error}") from None
        self._pending = b""
        self._number, self._asked = "", 0  # the latest request's, which no kernel can foresee; how many there were
        self._runs_kernels = module.endswith(".worker")
        self._child: int | None = None  # its process id, once it has answered
        self._stopping, self._stopped = threading.Lock(), False

    def ask(
        self, request: dict[str, Any], seconds: float, heard: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        """The reply to `request`, within `seconds`; `heard` is called with the news that come ahead of it.

        Raises the error that the child reports, if it reports one. Where no reply comes, stops the process and raises
        WorkerDied with reason `timeout` or `crash`, or EnvironmentTrouble where somebody else has killed it.
        """
        self._number, self._asked = secrets.token_hex(8), self._asked + 1
        try:
            self._process.stdin.write(json.dumps({**request, "number": self._number}).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # its end of the pipe is closed, or ours
            raise self._death() from None
        deadline = time.monotonic() + seconds
        while (news := (reply := self._reply(deadline, seconds)).get("news")) is not None:
            heard(news)
        if self._pending:
            raise self._intrusion()
        if isinstance(reply.get("error"), str):
            kind = BY_NAME.get(reply["error"], TunerError)
            raise kind(reply["message"], *([reply["reason"]] if reply["reason"] else []))
        return reply

    def _reply(self, deadline: float, seconds: float) -> dict[str, Any]:
        """The next line of the child's, with news or with the answer, by `deadline`, which is `seconds` after the
        request."""
        try:
            reply: dict[str, Any] = dict(json.loads(self._line(deadline, seconds)))
            number, child = reply.pop("number"), reply.pop("pid")
        except (ValueError, TypeError, KeyError):
            self.close()
            raise WorkerDied("the process running it wrote into the stream of its replies", "crash") from None
        self._child = self._child or child  # no kernel has run before the first reply
        if (number, child) != (self._number, self._child):
            raise self._intrusion()
        return reply

    def _intrusion(self) -> WorkerDied:
        self.close()
        return WorkerDied("a process that it left behind answered in its place", "crash")

    def has_ended(self) -> bool:
        """Whether the child is gone."""
        return self._process.poll() is not None

    def is_undisturbed(self) -> bool:
        """Whether nothing is left of earlier requests: no output that nobody has asked for, no process of a kernel's
        that has lost its parent."""
        if self._pending or (self._child and self._readable(0.0)):
            return False
        with contextlib.suppress(OSError):
            pid = self._process.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            return len(children) <= 1
        return True

    def _readable(self, seconds: float) -> bool:
        """Whether there is output, or its end, within `seconds`."""
        poll = select.poll()  # unlike a selector, needs no descriptor of its own
        poll.register(self._process.stdout, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1e3))

    def _line(self, deadline: float, seconds: float) -> bytes:
        while b"\n" not in self._pending:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not self._readable(remaining):
                self.stop()
                raise WorkerDied(f"not finished after {seconds:g} s; --timeout allows more", "timeout")
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise self._death()
            self._pending += data
            if len(self._pending) > LONGEST_REPLY:
                self.stop()
                raise WorkerDied("the process running it wrote into the stream of its replies", "crash")
        self._shorten_log()
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _death(self) -> WorkerDied | EnvironmentTrouble:
        """The error for a child that has ended by itself, or has closed the channel, with the tail of its log."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        code = self._process.poll()
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        tail = self._log.read(2000).decode(errors="replace").strip()
        if "Traceback (most recent call last)" in tail:
            tail = tail.splitlines()[-1]
        log = "\n".join(tail.splitlines()[-1:])
        what = "the process running it"
        has_run_kernels = self._runs_kernels and self._asked > 2  # then what it says may be what a kernel says
        found = None if has_run_kernels else environment.of_log(log, what)
        found = found or environment.of_folders(what, [self._scratch])
        self.close()
        if code is None or code == LOST_CHANNEL:
            return WorkerDied("its kernel closed or replaced files that its process had open", "crash")
        end = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        text = f"the process running it {end}" + (f": {tail}" if tail else "")
        if -code in FROM_OUTSIDE:
            return environment.trouble(environment.KILLED, text)
        if code == reaper.CANNOT_START and self._child is None:
            return environment.trouble(environment.NO_MEMORY, f"no process can be started: {tail}")
        return found or WorkerDied(text, "timeout" if code == -signal.SIGXCPU else "crash", max(0, -code))

    def _shorten_log(self) -> None:
        """Keep the log of a kernel that prints without end from filling the disk."""
        if os.fstat(self._log.fileno()).st_size > LONGEST_LOG:
            os.ftruncate(self._log.fileno(), 0)

    def stop(self) -> None:
        """Kill the process and all that it started, and wait for their end. Any thread may call this, more than
        once."""
        with self._stopping:
            if not self._stopped:
                self._process.send_signal(signal.SIGTERM)
                self._process.send_signal(signal.SIGCONT)  # a kernel may have stopped the reaper
                try:
                    self._process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self._process.send_signal(signal.SIGKILL)
                    try:
                        self._process.wait(STOP_SECONDS)
                    except subprocess.TimeoutExpired:
                        self._process.end_server()
                        self._process.wait()
                if self._child and self._process.returncode == -signal.SIGKILL:  # the reaper was killed, or so was it
                    with contextlib.suppress(OSError):
                        os.killpg(self._child, signal.SIGKILL)
                self._stopped = True

    def close(self) -> None:
        """Stop the process, and release its pipes and files. No other thread may be using it."""
        self.stop()
        scratch.remove(self._scratch)
        self._process.close()
        with contextlib.suppress(OSError):
            self._log.close()
