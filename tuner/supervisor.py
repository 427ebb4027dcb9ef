"""Keeps a worker process at work: starts it, waits for replies, and replaces it when a kernel took it down."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tuner import errors, form
from tuner.errors import TunerError, WorkerDied
from tuner.finals import FINAL_SECONDS, Final
from tuner.measure import REPEATS, Outcome
from tuner.space import Config, Limits, Scope, Space

TIMEOUT = 60.0  # seconds for one configuration: build, verify and time
START_TIMEOUT = 600.0  # seconds to open the device and compute the reference


@dataclass(frozen=True)
class Task:
    """What a worker measures."""

    space: Space
    sizes: dict[str, int]
    options: dict[str, float]
    device: str
    repeats: int = REPEATS
    timeout: float = TIMEOUT

    def to_json(self) -> dict[str, Any]:
        return {
            "space": form.to_json(self.space),
            "sizes": self.sizes,
            "options": self.options,
            "device": self.device,
            "repeats": self.repeats,
        }


class Supervisor:
    """A worker for one task, in a process group of its own, as a context manager.

    Entering starts it and raises what kept it from starting (DeviceError, mostly). `device` then describes the
    device and `scope` is the problem on it.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile(prefix="tuner-worker-")  # noqa: SIM115 - closed with the worker
        self._pending = b""

    def __enter__(self) -> Supervisor:
        ready = self._start()
        self.device: dict[str, Any] = ready["device"]
        self.scope = Scope(self.task.sizes, self.task.options, ready["language"], Limits.from_json(ready["limits"]))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop()
        self._log.close()

    def measure(self, config: Config) -> Outcome:
        """What came of `config`; a worker that died or had to be killed over it is a failed Outcome."""
        try:
            reply = self._ask({"measure": config}, self.task.timeout)
        except WorkerDied as died:
            return Outcome(failure=died.reason, log=str(died))
        return Outcome.from_json(reply)

    def finals(self, configs: Sequence[Config]) -> list[Final]:
        """The configurations measured again, interleaved, the vendor's library last if there is one.

        Raises WorkerDied where that takes the worker down.
        """
        allowed = FINAL_SECONDS + self.task.timeout * (len(configs) + 1)
        return [Final.from_json(final) for final in self._ask({"finals": list(configs)}, allowed)["finals"]]

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        process = self._process
        if process is None or process.poll() is not None:
            self._stop()
            self._start()
            process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._died() from None
        return self._reply(seconds)

    def _start(self) -> dict[str, Any]:
        self._log.truncate(0)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tuner.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is the supervisor's to handle; and compilers die with the group
        )
        self._pending = b""
        return self._ask(self.task.to_json(), START_TIMEOUT)

    def _reply(self, seconds: float) -> dict[str, Any]:
        """The next line from the worker. Raises WorkerDied, or what the worker says it should raise."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._stop()
                    raise WorkerDied("timeout", f"not finished after {seconds:g} s (--timeout allows more)")
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    raise self._died()
                self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        if not reply.get("healthy", True):  # a fault that outlives its kernel; the next one gets a new process
            self._stop()
        if "error" in reply and isinstance(reply["error"], str):
            kind: type[TunerError] = getattr(errors, reply["error"], TunerError)
            raise kind(reply["message"])
        return reply

    def _died(self) -> WorkerDied:
        """The error for a worker that ended by itself, with the end of what it wrote."""
        assert self._process is not None
        code = self._process.wait()
        self._log.seek(0)
        tail = self._log.read()[-2000:].decode(errors="replace").strip()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        self._stop()
        return WorkerDied("crash", f"the process running it was {how}" + (f": {tail}" if tail else ""))

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
