"""The process in which Triton compiles: started by the first build, and used for all builds of this process."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("program.py")
END_SECONDS = 5.0


class Service:
    """A process that compiles one kernel at a time. Threads share it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a request; None if the process has ended without one. Raises OSError."""
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            for is_new in (False, True):
                process = self._started(is_new)
                assert process.stdin is not None
                assert process.stdout is not None
                try:
                    process.stdin.write(line)
                    process.stdin.flush()
                    if answer := process.stdout.readline():
                        reply: dict[str, Any] = json.loads(answer)
                        return reply
                except BrokenPipeError:
                    pass  # it ended because it had nothing to do
                except BaseException:
                    self.close(at_once=True)  # its answer would be taken for that of the next request
                    raise
            return None

    def _started(self, anew: bool) -> subprocess.Popen[bytes]:
        """The process. A fork of this process starts its own: it must not read what its parent has asked."""
        if self._process is None or self._owner != os.getpid() or anew or self._process.poll() is not None:
            if self._process is not None and self._owner == os.getpid():
                self.close()
            self._owner = os.getpid()
            command = [sys.executable, "-P", str(PROGRAM)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def close(self, at_once: bool = False) -> None:
        """End the process; if not `at_once`, after what it is doing."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        if at_once:
            process.kill()
        with contextlib.suppress(OSError):
            for pipe in filter(None, (process.stdin, process.stdout)):
                pipe.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


SERVICE = Service()
atexit.register(SERVICE.close)
