"""The process that holds the device. It answers its supervisor.

The first request is the task; the reply describes the device. Then it makes inputs and reference; the reply to the
second request tells what these leave unseen. A worker that follows another takes over the answers that the other
computes meanwhile; its second request comes when the other has them all. Each later one is a configuration to measure,
several for the finals or to verify alike, the order to make the inputs and reference of these, or the next task, with
which all this begins again. The device stays open. A kill at any moment loses nothing but the request under way.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

from tuner import devices
from tuner.devices.compiler import Allowance
from tuner.errors import OutOfMemory
from tuner.measure import feasibility, turns
from tuner.measure.method import Method
from tuner.measure.process import replies
from tuner.measure.process.workbench_cache import KeptWorkbenches
from tuner.space import launch_form
from tuner.space.answers.cache import ReferenceCache
from tuner.space.scope import Scope

if TYPE_CHECKING:
    from tuner.devices import Device
    from tuner.measure.benchmark import Bench

POLL_SECONDS = 0.05  # between looks at what another worker has computed
MOST_LEAKED = 64  # descriptors that kernels leave open, until a new process takes over


def main() -> None:
    """Serve until the supervisor is gone."""
    channel = replies.Channel()
    requests = iter(channel)
    with channel.reporting():
        task: dict[str, Any] | None = next(requests)
        assert task is not None
        products = _reopen(task["products"])
        importing = threading.Thread(target=_import_ahead, args=(task,))
        importing.start()  # while the device opens
        device = devices.open_device(task["device"])
        device.compiler.allowance = Allowance(**task["allowance"])
    kept = KeptWorkbenches(device)
    while task is not None:
        task = _serve(task, device, products, channel, requests, importing, kept)


def _serve(
    task: dict[str, Any],
    device: Device,
    products: BinaryIO,
    channel: replies.Channel,
    requests: Iterator[dict[str, Any]],
    importing: threading.Thread,
    kept: KeptWorkbenches,
) -> dict[str, Any] | None:
    """Answer the requests of one task, with the workbench of an earlier one if that serves it. Returns the next task;
    None when the supervisor is gone."""
    with channel.reporting():
        space, method = launch_form.from_json(task["space"]), Method.from_json(task["method"])
        scope = Scope(task["sizes"], task["options"], device.language, device.limits, task["types"])
        feasibility.check(device, space, scope, method)
        channel.reply(asdict(device.info))
        after = kept.take(space, scope)
        # the supervisor lists configurations meanwhile
        with channel.reporting_to(requests):
            importing.join()
            from tuner.measure.benchmark import Bench

            more_may_come = functools.partial(channel.is_unasked, POLL_SECONDS) if task["follows"] else None
            make = functools.partial(Bench, device, space, scope, method, ReferenceCache(products, more_may_come))
            try:
                bench = make(after)
            except OutOfMemory:
                if not kept.clear():
                    raise
                bench = make(after)
            kept.keep(bench.workbench)
        channel.reply({"missed_cases": bench.workbench.missed_cases})
    files = replies.open_files()
    for request in requests:
        if "space" in request:
            return request
        answer = replies.attempt(functools.partial(_answer, bench, request, channel))
        is_clean = not replies.has_children() and replies.open_files() < files + MOST_LEAKED
        channel.reply({**answer, "healthy": bench.healthy() and is_clean})
    return None


def _import_ahead(task: dict[str, Any]) -> None:
    """Import what will be used, and takes long: Kernel Tuner's loop, and the vendor's library where there is one."""
    with contextlib.suppress(Exception):  # whoever uses it imports it again, and says what is wrong
        importlib.import_module("tuner.measure.benchmark")
        if task["space"]["operation"]["library"]:
            for module in devices.BACKENDS[devices.split(task["device"])[0]].library_modules:
                importlib.import_module(module)


def _reopen(descriptor: int) -> BinaryIO:
    """An inherited file, opened again for a position of its own, where no kernel writes to it."""
    try:
        own = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
        os.close(descriptor)
    except OSError:  # not Linux
        own = descriptor
    return os.fdopen(replies.out_of_reach(own), "r+b")


def _answer(bench: Bench, request: dict[str, Any], channel: replies.Channel) -> dict[str, Any]:
    def found_wrong(position: int, failure: str) -> None:
        channel.tell({"position": position, "failure": failure})

    if "renew" in request:
        bench.renew()
        return {}
    with turns.held():
        if "verify" in request:
            return {"failures": bench.verify(request["verify"], found_wrong)}
        if "library" in request:
            return {"times": bench.library()}
        if "launch" in request:
            return {"ms": bench.launch_ms()}
        if "finals" in request:
            options = {name: request[name] for name in ("with_library", "sustained", "quick")}
            finals = bench.finals(request["finals"], **options, found_wrong=found_wrong)
            return finals.to_json()
        return bench.measure(request["measure"], request["best_ms"]).to_json()
