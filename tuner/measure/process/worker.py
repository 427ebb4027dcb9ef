"""The process that holds the device: `python -m tuner.measure.process.worker`. It answers its supervisor.

The first request is the task; the reply describes the device. The second makes inputs and reference. Each later one is
a configuration to measure, or several for the finals. A kill at any moment loses nothing but the request under way.
"""

import os
from dataclasses import asdict
from typing import Any, BinaryIO

from tuner import devices, errors
from tuner.measure import benchmark
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.measure.process import channel
from tuner.space import launch_form
from tuner.space.model import Scope
from tuner.space.reference_cache import ReferenceCache


def main() -> None:
    """Serve until the supervisor is gone."""
    stream = channel.replies()
    requests = channel.requests()
    try:
        task = next(requests)
        device = devices.open_device(task["device"])
        space, method = launch_form.from_json(task["space"]), Method.from_json(task["method"])
        scope = Scope(task["sizes"], task["options"], device.language, device.limits)
        benchmark.check(device, space, scope, method)
        channel.reply(stream, asdict(device.info))
        next(requests)
        bench = Bench(device, space, scope, method, ReferenceCache(_reopen(task["products"])))
        channel.reply(stream, {})
    except errors.TunerError as error:
        channel.reply(stream, channel.failure(error))
        return
    for request in requests:
        channel.reply(stream, {**_answer(bench, request), "healthy": bench.healthy()})


def _reopen(descriptor: int) -> BinaryIO:
    """An inherited file, opened again for a position of its own."""
    try:
        return open(f"/proc/self/fd/{descriptor}", "r+b")
    except OSError:  # not Linux
        return os.fdopen(descriptor, "r+b")


def _answer(bench: Bench, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if "finals" in request:
            return bench.finals(request["finals"], with_library=request["with_library"]).to_json()
        return bench.measure(request["measure"], request["best_ms"]).to_json()
    except errors.TunerError as error:
        return channel.failure(error)


if __name__ == "__main__":
    main()
