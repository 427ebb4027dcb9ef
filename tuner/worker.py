"""The process that holds the device: one JSON request a line in, one JSON reply a line out.

    python -m tuner.worker

It can be killed at any moment without loss; `tuner.supervisor` starts another. What a kernel prints goes to
standard error, so that it cannot be taken for a reply.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any, TextIO

from tuner import devices, errors, form
from tuner.measure import Bench
from tuner.space import Scope


def main() -> None:
    """Serve until standard input ends."""
    _die_with_parent()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        bench = _bench(json.loads(sys.stdin.readline()))
    except errors.TunerError as error:
        _send(replies, {"error": type(error).__name__, "message": str(error)})
        return
    device = bench.device
    _send(replies, {"device": device.describe(), "limits": asdict(device.limits), "language": device.language})
    for line in sys.stdin:
        _send(replies, {**_answer(bench, json.loads(line)), "healthy": bench.healthy()})


def _bench(task: dict[str, Any]) -> Bench:
    device = devices.open(task["device"])
    scope = Scope(task["sizes"], task["options"], device.language, device.limits)
    return Bench(device, form.from_json(task["space"]), scope, task["repeats"])


def _answer(bench: Bench, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if "finals" in request:
            return {"finals": [final.to_json() for final in bench.finals(request["finals"])]}
        return bench.measure(request["measure"]).to_json()
    except errors.TunerError as error:
        return {"error": type(error).__name__, "message": str(error)}


def _send(replies: TextIO, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the supervisor dies, even in the middle of an endless kernel."""
    set_parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):  # elsewhere standard input ends, which an idle worker notices
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    main()
