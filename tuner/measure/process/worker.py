"""The worker: the process that holds the device and answers its supervisor's requests.

The first request is the task; its reply describes the device. The worker then computes inputs and answers. The reply to
the second request lists the cases that these miss, and notes on the method. A worker that follows another one reads the
answers that the other computes; its second request comes when all of them are there.

Each later request is one of these: a configuration to measure, or to run and compare many times, configurations for the
finals or to verify likewise, an order to prepare the inputs and answers of the finals, or the next task. A new task
begins this sequence again, on the device that is open. A kill at any moment loses only the request in progress.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from tuner import devices
from tuner.children.descriptors import out_of_reach
from tuner.devices.builds.allowance import Allowance
from tuner.errors import OutOfMemory
from tuner.measure import feasibility, turns
from tuner.measure.answers import function_objects
from tuner.measure.method import Method
from tuner.measure.process import replies, warmth
from tuner.measure.process.workbench_cache import WorkbenchCache
from tuner.measure.rivals import Rivals
from tuner.space import launch_form, snapshot
from tuner.space.answers.cache import ReferenceCache
from tuner.space.values.function_object import FunctionObject

if TYPE_CHECKING:
    from tuner.devices import Device
    from tuner.measure.benchmark import Bench

BEAT_SECONDS = 1.0  # between two messages that a long request goes on
POLL_SECONDS = 0.05  # between polls for what another worker has computed
_PRODUCT = re.compile(r"@|\bmatmul\b|\beinsum\b")
MOST_LEAKED = 64  # descriptors that kernels may leave open before a new process takes over


def main() -> None:
    """Serve requests until the supervisor is gone."""
    channel = replies.Channel()
    requests = iter(channel)
    with channel.reporting():
        task: dict[str, Any] | None = next(requests)
        assert task is not None
        products = _reopen(task["products"])
        importing = threading.Thread(target=_import_ahead, args=(task,))
        importing.start()  # while the device opens
        threading.Thread(target=_load_library, args=(task,), daemon=True).start()  # which only some answers need
        device = devices.open_apart(task["device"])
        device.compiler.allowance = Allowance(**task["allowance"])
        channel.isolate(device)
        function_objects.answered_by(channel.ask)
    workbenches = WorkbenchCache(device)
    while task is not None:
        task = _serve(task, device, products, channel, requests, importing, workbenches)


def _serve(
    task: dict[str, Any],
    device: Device,
    products: BinaryIO,
    channel: replies.Channel,
    requests: Iterator[dict[str, Any]],
    importing: threading.Thread,
    workbenches: WorkbenchCache,
) -> dict[str, Any] | None:
    """Answer the requests of one task, on the workbench of an earlier task if that serves it.

    Returns the next task, or None when the supervisor is gone.
    """
    with channel.reporting():
        snapshot.adopt(task["files"])
        space, method = launch_form.from_json(task["space"]), Method.from_json(task["method"])
        language, limits = device.language, device.limits
        scope = space.operation.scope(task["sizes"], task["options"], language, limits, task["types"])
        feasibility.check(device, space, scope, method)
        chosen = space.compiler_of(language)
        about = replace(device.info, toolchain=device.toolchain_of(chosen))
        channel.reply({**asdict(about), "compiler": device.compiler.chosen(chosen).pin(task["compiler"])})
        predecessor = workbenches.take(space, scope)
        like = workbenches.latest() if predecessor is None else None
        asks = any(isinstance(each, FunctionObject) for each in space.operation.python_functions)
        if asks and next(requests, None) is None:  # the supervisor answers only while it waits for a reply
            sys.exit()
        # meanwhile, the supervisor enumerates the configurations
        with contextlib.nullcontext() if asks else channel.reporting_to(requests):
            importing.join()
            from tuner.measure.benchmark import Bench

            follows = task["follows"] and not asks
            more_may_come = functools.partial(channel.is_idle_for, POLL_SECONDS) if follows else None
            make = functools.partial(Bench, device, space, scope, method, ReferenceCache(products, more_may_come))
            try:
                bench = make(predecessor, like)
            except OutOfMemory:
                like = None
                if not workbenches.clear():
                    raise
                bench = make(predecessor)
            workbenches.add(bench.workbench)
            notes = bench.notes()
        channel.reply({"missed_cases": bench.workbench.missed_cases, "notes": notes})
    files = replies.open_files()
    while (request := _next(requests, device, channel)) is not None:
        if "space" in request:
            return request
        answer = replies.attempt(functools.partial(_answer, bench, request, channel))
        is_clean = not replies.has_children() and replies.open_files() < files + MOST_LEAKED
        channel.reply({**answer, "healthy": bench.healthy() and is_clean})
    return None


def _next(requests: Iterator[dict[str, Any]], device: Device, channel: replies.Channel) -> dict[str, Any] | None:
    """The next request; None when the supervisor is gone. The device keeps its working clocks until it comes."""
    warmth.keep(device, lambda seconds: not channel.is_idle_for(seconds))
    return next(requests, None)


def _import_ahead(task: dict[str, Any]) -> None:
    """Import slow modules early, such as Kernel Tuner's loop."""
    with contextlib.suppress(Exception):  # the importing module reports the error
        importlib.import_module("tuner.measure.benchmark")


def _load_library(task: dict[str, Any]) -> None:
    """Load the vendor's library early, if the operation names a routine or its answers are products."""
    operation = task["space"]["operation"]
    if operation["library"] or _PRODUCT.search(json.dumps(operation["reference"])):
        with contextlib.suppress(Exception):  # whoever calls it reports the error
            devices.BACKENDS[devices.split(task["device"])[0]].load_library()


def _reopen(descriptor: int) -> BinaryIO:
    """Open an inherited file again, so that it has its own position and a descriptor that kernels do not write to."""
    try:
        own = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
        os.close(descriptor)
    except OSError:  # not Linux
        own = descriptor
    return os.fdopen(out_of_reach(own), "r+b")


class _Beat:
    """Called often, it tells the supervisor every BEAT_SECONDS that the request goes on."""

    def __init__(self, channel: replies.Channel) -> None:
        self._channel, self._told = channel, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._told > BEAT_SECONDS:
            self._channel.tell({})
            self._told = time.monotonic()


def _answer(bench: Bench, request: dict[str, Any], channel: replies.Channel) -> dict[str, Any]:
    def found_wrong(position: int, failure: str) -> None:
        channel.tell({"position": position, "failure": failure})

    if "renew" in request:
        bench.renew()
        return {}
    with turns.held():
        if "verify" in request:
            return {"verified": [asdict(each) for each in bench.verify(request["verify"], found_wrong)]}
        if "repeat" in request:
            return asdict(bench.repeat(request["repeat"], request["runs"], request["seconds"], _Beat(channel)))
        if "library" in request:
            return {"times": bench.library()}
        if "launch" in request:
            return {"ms": bench.launch_ms()}
        if "finals" in request:
            names = ("seconds", "with_library", "sustained", "quick", "most_rounds")
            options = {name: request[name] for name in names}
            rivals = None if request["rivals"] is None else Rivals.from_json(request["rivals"])
            finals = bench.finals(request["finals"], **options, found_wrong=found_wrong, rivals=rivals)
            return finals.to_json()
        return bench.measure(request["measure"], request["best"]).to_json()
