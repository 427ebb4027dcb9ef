"""A child process that answers JSON lines, can be killed at any moment, and dies with its parent."""

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from tuner.errors import BY_NAME, TrialError, TunerError, WorkerDied
from tuner.measure.process import scratch

STACK_BYTES = 1 << 30  # of a child, where there is no limit

# Linux kills a child when the thread that started it ends, so one lasting thread starts them all.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")


class Process:
    """The parent's end of a child that runs `python -m module`.

    The child leads a process group of its own. So Ctrl-C reaches the parent alone, and the compilers that the child
    started are killed with it.
    """

    def __init__(self, module: str, share: Sequence[int] = ()) -> None:
        """`share` lists open file descriptors that the child inherits under the same numbers."""
        self._log = scratch.file()
        self._scratch = scratch.folder()
        self._pending = b""
        self._stopping, self._stopped = threading.Lock(), False
        self._process = _spawner.submit(
            subprocess.Popen,
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            pass_fds=share,
            env={**os.environ, "TMPDIR": str(self._scratch)},
        ).result()

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The reply to `request`, within `seconds`.

        Raises the error that the child reports, if it reports one. Where no reply comes, stops the process and raises
        WorkerDied with reason `timeout` or `crash`.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # its end of the pipe is closed, or ours
            raise self._death() from None
        try:
            reply: dict[str, Any] = dict(json.loads(self._line(seconds)))
        except (ValueError, TypeError):
            self.close()
            raise WorkerDied("the process running it wrote into the stream of its replies", "crash") from None
        if isinstance(reply.get("error"), str):
            kind = BY_NAME.get(reply["error"], TunerError)
            raise kind(reply["message"], *([reply["reason"]] if issubclass(kind, (TrialError, WorkerDied)) else []))
        return reply

    def _line(self, seconds: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    raise WorkerDied(f"not finished after {seconds:g} s; --timeout allows more", "timeout")
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise self._death()
                self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _death(self) -> WorkerDied:
        """The error for a child that has ended by itself, with the tail of its log."""
        code = self._process.wait()
        self._log.seek(0)
        tail = self._log.read()[-2000:].decode(errors="replace").strip()
        end = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        self.close()
        return WorkerDied(f"the process running it {end}" + (f": {tail}" if tail else ""), "crash")

    def stop(self) -> None:
        """Kill the process and all that it started, and wait for its end. Any thread may call this, more than once."""
        with self._stopping:
            if not self._stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                self._stopped = True

    def close(self) -> None:
        """Stop the process, and release its pipes and files. No other thread may be using it."""
        self.stop()
        scratch.remove(self._scratch)
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def requests() -> Iterator[dict[str, Any]]:
    """The child's end: the parent's requests, until the parent is gone."""
    for line in sys.stdin:
        yield json.loads(line)


def replies() -> TextIO:
    """The child's end: the stream for its replies. Prepares the process for what kernels and compilers do to it.

    What a kernel prints goes to standard error from now on, so it is never taken for a reply. The child is killed when
    its parent dies, even in an endless kernel. The system kills the child first where memory runs out. Endless
    recursion crashes before that.
    """
    set_parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):  # not Linux: an idle child notices that standard input ends
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if soft == resource.RLIM_INFINITY:  # NVRTC lifts the limit of its process, which children inherit
        resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, hard))
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def reply(stream: TextIO, answer: dict[str, Any]) -> None:
    """Send one reply."""
    stream.write(json.dumps(answer) + "\n")
    stream.flush()


def failure(error: TunerError) -> dict[str, Any]:
    """The reply that reports an error; `Process.ask` raises it again."""
    reason = getattr(error, "reason", None)
    return {"error": type(error).__name__, "message": str(error), "reason": reason}
