"""The parent's end of a child process that answers JSON lines, can be killed at any time, and dies with its parent."""

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
from tuner.children.fork_channel import LOST_CHANNEL, LOST_FILES, OTHER_OUTPUT
from tuner.devices import environment
from tuner.errors import BY_NAME, EnvironmentTrouble, TunerError, WorkerDied
from tuner.measure.process import scratch

LONGEST_REPLY, LONGEST_LOG = 64 << 20, 16 << 20  # bytes
STOP_SECONDS = 10.0  # for a reaper to kill the processes that it watches
END_SECONDS = 5.0  # for a child to end after it has closed the channel
SHORTEST_WAIT = 0.01  # seconds between two looks at the clock of a child that is suspended near its deadline
FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}  # signals that no kernel fault raises


def check(reply: dict[str, Any]) -> None:
    """Raise the error that a reply reports, if any: see `replies.failure`."""
    if isinstance(reply.get("error"), str):
        kind = BY_NAME.get(reply["error"], TunerError)
        raise kind(reply["message"], *([reply["reason"]] if reply["reason"] else []))


class Process:
    """The parent's end of a child that runs `main` of a module, below a reaper.

    The reaper leads its own session, so Ctrl-C reaches only the parent.
    """

    def __init__(
        self, module: str, share: Sequence[int] = (), imports: Sequence[str] = (), beforehand: Sequence[str] = ()
    ) -> None:
        """Start the child.

        It inherits the open descriptors `share` under the same numbers. `imports` are modules that it will import.
        `beforehand` are modules that the fork server imports before it forks the child, for all later ones, too.

        Raises EnvironmentTrouble if the process cannot be started, and RequestError if the cache's folder is not safe.
        """
        try:
            self._log = scratch.file()
            self._scratch = scratch.folder()
            variables = {**paths.child_environment(), "TMPDIR": str(self._scratch)}
            self._process = Child(module, self._log, variables, share=share, imports=beforehand, later=imports)
        except OSError as error:
            raise environment.of_error(error) from None
        self._pending = b""
        self._number = ""  # of the latest request; random, so that no kernel can forge a reply
        self._asked = 0  # number of requests so far
        self._runs_kernels = module.endswith(".worker")
        self._child: int | None = None  # the child's process id, once it has replied
        self._stopping, self._stopped = threading.Lock(), False
        self._suspended_at: float | None = None
        self._suspended = 0.0  # seconds in all, without the present ones

    def ask(
        self, request: dict[str, Any], seconds: float, on_news: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        """Send `request` and return the child's reply, waiting for up to `seconds` after its latest message.

        `on_news` is called with each message that the child sends before the reply. Raises the error that the child
        reports, if any. If no reply comes, stops the process and raises WorkerDied with reason `timeout` or `crash`, or
        EnvironmentTrouble if no configuration is to blame: if the process was killed from outside, had ended before
        the request, or ended with an error of Python.
        """
        self._number, self._asked = secrets.token_hex(8), self._asked + 1
        try:
            paths.restored(self._scratch)
            return self._answer(request, seconds, on_news)
        except OSError as error:
            self.close()
            raise environment.of_error(error) from None

    def _answer(
        self, request: dict[str, Any], seconds: float, on_news: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        try:
            self._process.stdin.write(json.dumps({**request, "number": self._number}).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):  # either end of the pipe is closed
            death = self._death()
            if isinstance(death, EnvironmentTrouble):
                raise death from None
            raise EnvironmentTrouble(f"{death}, before it was asked") from None
        while (news := (reply := self._reply(self._clock() + seconds, seconds)).get("news")) is not None:
            on_news(news)
        if self._pending:
            raise self._intrusion()
        check(reply)
        return reply

    @property
    def folder(self) -> Path:
        """The child's folder for temporary files."""
        return self._scratch

    @property
    def child(self) -> int:
        """The child's process id, once it has replied; 0 before."""
        return self._child or 0

    def suspend(self) -> None:
        """Stop the child and what it has started where they are, if it has replied, until `resume` is called.

        This time does not count as time of a request. Any thread may call this.
        """
        with self._stopping:
            if self._signal(signal.SIGSTOP):
                self._suspended_at = time.monotonic()

    def resume(self) -> None:
        """Let the child go on. Any thread may call this."""
        with self._stopping:
            if self._suspended_at is not None:
                self._suspended += time.monotonic() - self._suspended_at
                self._suspended_at = None
                self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> bool:
        """Signal the child's process group. Returns whether that is possible."""
        if self._stopped or self._child is None or self._suspended_at is not None:
            return False
        try:
            os.killpg(self._child, number)
        except OSError:  # it has ended, which its next reply shows
            return False
        return True

    def _clock(self) -> float:
        """Seconds that the child was not suspended, from any point in time."""
        return (self._suspended_at or time.monotonic()) - self._suspended

    def answer(self, data: dict[str, Any]) -> None:
        """Answer a question that the child asked in its news."""
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended: whatever waits for its reply says so
            self._process.stdin.write(json.dumps({**data, "number": self._number}).encode() + b"\n")
            self._process.stdin.flush()

    def _reply(self, deadline: float, seconds: float) -> dict[str, Any]:
        """The child's next message, by `deadline` on the child's clock, which is in `seconds`."""
        try:
            reply: dict[str, Any] = dict(json.loads(self._line(deadline, seconds)))
            number, child = reply.pop("number"), reply.pop("pid")
        except (ValueError, TypeError, KeyError):
            self.close()
            raise WorkerDied(OTHER_OUTPUT, "crash") from None
        self._child = self._child or child  # no kernel has run before the first reply
        if (number, child) != (self._number, self._child):
            raise self._intrusion()
        return reply

    def _intrusion(self) -> WorkerDied:
        self.close()
        return WorkerDied("a process that was left behind replied instead of the worker", "crash")

    def has_ended(self) -> bool:
        """Whether the child has ended."""
        return self._process.poll() is not None

    def is_undisturbed(self) -> bool:
        """Whether nothing is left over from earlier requests.

        Left-overs are output without a request, and processes that a kernel started and left as orphans.
        """
        if self._pending or (self._child and self._readable(0.0)):
            return False
        return not self.has_orphans()

    def has_orphans(self) -> bool:
        """Whether processes are left over whose parents, which the child had started, have ended."""
        with contextlib.suppress(OSError):
            pid = self._process.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            return len(children) > 1
        return False

    def _readable(self, seconds: float) -> bool:
        """Whether output or end of file arrives within `seconds`."""
        poll = select.poll()  # unlike a selector, needs no descriptor
        poll.register(self._process.stdout, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1e3))

    def _line(self, deadline: float, seconds: float) -> bytes:
        while b"\n" not in self._pending:
            while not self._readable(max(SHORTEST_WAIT, deadline - self._clock())):
                if self._clock() >= deadline:
                    self.stop()
                    raise WorkerDied(f"not finished after {seconds:g} s; a longer timeout allows more", "timeout")
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise self._death()
            self._pending += data
            if len(self._pending) > LONGEST_REPLY:
                self.stop()
                raise WorkerDied(OTHER_OUTPUT, "crash")
        self._shorten_log()
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _death(self) -> WorkerDied | EnvironmentTrouble:
        """The error for a child that has ended, or has closed the channel, with the tail of its log."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        code = self._process.poll()
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        tail = self._log.read(2000).decode(errors="replace").strip()
        is_error_of_python = "Traceback (most recent call last)" in tail
        if is_error_of_python:
            tail = tail.splitlines()[-1]
        log = "\n".join(tail.splitlines()[-1:])
        what = "the process running it"
        has_run_kernels = self._runs_kernels and self._asked > 2  # then a kernel may have written the log
        trouble = None if has_run_kernels else environment.of_log(log, what)
        trouble = trouble or environment.of_folders(what, [self._scratch])
        self.close()
        if code is None or code == LOST_CHANNEL:
            return WorkerDied(LOST_FILES, "crash")
        end = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        text = f"the process running it {end}" + (f": {tail}" if tail else "")
        if -code in FROM_OUTSIDE:
            return environment.trouble(environment.KILLED, text)
        if code == reaper.CANNOT_START and self._child is None:
            return environment.trouble(environment.NO_MEMORY, f"no process can be started: {tail}")
        if code == 1 and is_error_of_python:  # not of its kernel, which ends the process in other ways
            return trouble or EnvironmentTrouble(text)
        return trouble or WorkerDied(text, "timeout" if code == -signal.SIGXCPU else "crash", max(0, -code))

    def _shorten_log(self) -> None:
        """Empty an oversized log, so that a kernel that prints endlessly does not fill the disk."""
        if os.fstat(self._log.fileno()).st_size > LONGEST_LOG:
            os.ftruncate(self._log.fileno(), 0)

    def stop(self) -> None:
        """Kill the process and everything that it started, and wait for their end.

        Any thread may call this, more than once.
        """
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
                if (
                    self._child and self._process.returncode == -signal.SIGKILL
                ):  # the child was killed, or the reaper was
                    with contextlib.suppress(OSError):
                        os.killpg(self._child, signal.SIGKILL)
                self._stopped = True

    def close(self) -> None:
        """Stop the process and release its pipes and files. No other thread may be using it."""
        self.stop()
        scratch.remove(self._scratch)
        self._process.close()
        with contextlib.suppress(OSError):
            self._log.close()
