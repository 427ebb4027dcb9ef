"""Processes of their own for Python programs, forked from one that has imported what they need.

A fork starts in milliseconds, where Python needs a third of a second for NumPy and this package.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HOST = ("numpy", "tuner.launch.kernel", "tuner.store.lookup", "tuner.devices.host.device")

_SERVER = """
import gc, importlib, json, os, sys, traceback
started = set(os.environ)  # what modules add, as pyopencl does, they need
for module in sys.argv[1:]:
    importlib.import_module(module)
gc.freeze()
for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    status = 1
    try:
        for stream, name in (0, os.devnull), (1, asked["out"]), (2, asked["err"]):
            os.dup2(os.open(name, os.O_RDWR), stream)
        for name in started - asked["environment"].keys():
            os.environ.pop(name)
        os.environ.update(asked["environment"])
        sys.argv = ["-c", *asked["arguments"]]
        exec(asked["program"], {"__name__": "__main__"})
        status = 0
    except SystemExit as leaving:
        status = leaving.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
"""


class Forks:
    """Runs programs in processes that are forked from one process, which has imported `modules`."""

    def __init__(self, *modules: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _SERVER, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, *arguments: str | Path) -> str:
        """What the program writes, which must succeed, in the environment of the caller."""
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin
        assert stdout
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            asked = {
                "program": program,
                "arguments": [str(argument) for argument in arguments],
                "environment": dict(os.environ),
                "out": out.name,
                "err": err.name,
            }
            stdin.write(json.dumps(asked) + "\n")
            stdin.flush()
            status = int(stdout.readline())
            assert status == 0, f"status {status}: {err.read()}"
            return out.read()

    def close(self) -> None:
        """End the process from which the others are forked."""
        self._server.communicate()


@contextlib.contextmanager
def forks(*modules: str) -> Iterator[Forks]:
    """`Forks`, while it is needed."""
    started = Forks(*modules)
    try:
        yield started
    finally:
        started.close()
