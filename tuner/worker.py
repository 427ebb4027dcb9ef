"""The process that holds the device: `python -m tuner.worker`, answering `tuner.supervisor`.

The first request is the task; each later one is a configuration to measure, or several to measure again. It can be
killed at any moment without loss.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner import devices, errors, form, process
from tuner.measure import Bench
from tuner.space import Scope


def main() -> None:
    """Serve until the supervisor is gone."""
    stream = process.replies()
    asked = process.requests()
    try:
        bench = _bench(next(asked))
    except errors.TunerError as error:
        process.reply(stream, process.failure(error))
        return
    device = bench.device
    hello = {"device": device.describe(), "limits": asdict(device.limits), "language": device.language}
    process.reply(stream, {**hello, "asynchronous": device.asynchronous})
    for request in asked:
        process.reply(stream, {**_answer(bench, request), "healthy": bench.healthy()})


def _bench(task: dict[str, Any]) -> Bench:
    device = devices.open(task["device"])
    scope = Scope(task["sizes"], task["options"], device.language, device.limits)
    return Bench(device, form.from_json(task["space"]), scope, task["repeats"])


def _answer(bench: Bench, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if "finals" in request:
            return {"finals": [final.to_json() for final in bench.finals(request["finals"])]}
        return bench.measure(request["measure"], request["best_ms"]).to_json()
    except errors.TunerError as error:
        return process.failure(error)


if __name__ == "__main__":
    main()
