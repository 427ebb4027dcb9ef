"""A compile worker: a process that builds configurations ahead of the device.

Several of these fill the build cache while the worker measures. They are processes, because NVRTC holds a lock that
serialises threads.
"""

import contextlib
import functools
import math
import os
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.devices import Device
from tuner.devices.builds.allowance import Allowance
from tuner.devices.built import Built, build
from tuner.devices.program import Program
from tuner.errors import DeviceError, TrialError
from tuner.measure.images import Images
from tuner.measure.process import replies
from tuner.space import launch_form, operation, snapshot
from tuner.space.instance import Instance
from tuner.space.scope import Limits

# How much lower the priority of compilers is on a GPU's machine. On two cores that compiled, attention's answers took
# 3.2 s without it, and 1.9 s with it.
NICER = 5


def main() -> None:
    """Serve requests until the parent is gone.

    The first request is the task. Each `build` names a configuration. If its reply asks for a launch, a `launch`
    request follows. A `check` asks whether the compiler works at all, and `own` builds kernels of ours. A request with
    another task replaces the current one.
    """
    channel = replies.Channel()
    requests = iter(channel)
    with channel.reporting():
        builder = _Builder(next(requests))
        channel.reply({})
    for request in requests:
        channel.reply(replies.attempt(functools.partial(builder.answer, request)))


class _Builder:
    """A compiler, and the space and problem that it builds for."""

    def __init__(self, task: dict[str, Any]) -> None:
        kind = devices.split(task["device"])[0]
        self._device = devices.open_device(task["device"]) if devices.BACKENDS[kind].compiler is None else None
        self._usual = self._device.compiler if self._device else devices.compiler_for(kind, task["architecture"])
        self._allowance = self._usual.allowance = Allowance(**task["allowance"])
        self._usual.forks = self._device is None
        if task["language"] == "cuda":  # the device's worker waits for its answers, and threads of NumPy for each other
            os.nice(NICER)
        self._set_task(task)
        self._seconds = resource.getrlimit(resource.RLIMIT_CPU)  # the limits that this process began with
        _limit(resource.RLIMIT_AS, _own_memory() + self._allowance.memory, resource.getrlimit(resource.RLIMIT_AS))

    def _set_task(self, task: dict[str, Any]) -> None:
        snapshot.adopt(task["files"])
        self._space, limits = launch_form.from_json(task["space"]), Limits.from_json(task["limits"])
        self._scope = self._space.operation.scope(
            task["sizes"], task["options"], task["language"], limits, task["types"]
        )
        self._compiler = self._usual.chosen(self._space.compiler_of(task["language"]))
        self._latest: Built | None = None
        self._pinned = task["compiler"]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request after the first."""
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + self._allowance.seconds, self._seconds)
        if "space" in request:
            self._set_task(request)
            return {}
        if "check" in request:
            self._compiler.check()
            return {}
        if "own" in request:
            self._build_own(request["own"], request["shares"])
            return {}
        if "build" in request:
            self._compiler.pinned = self._pinned
            built = build(self._compiler, Instance(self._space, request["build"], self._scope))
            self._latest, device = built, self._device
            is_fresh = any(binary.fresh for binary in built.builds.values())
            return {"launch": device is not None and device.compiles_at_launch and is_fresh}
        if self._latest and self._device:
            _launch_once(self._device, self._latest)
        return {}

    def _build_own(self, share: int, shares: int) -> None:
        """Build one of several shares of the kernels of ours that the device's worker is going to build."""
        from tuner.measure.verify import rehearsal  # few compile workers are asked for this

        common, *others = rehearsal.sources(self._space, self._scope)
        for source in others[share - 1 :: shares - 1] if share else [common]:  # that one takes as long as several
            with contextlib.suppress(TrialError, DeviceError):  # the worker will meet the same error and report it
                self._usual.build(source)


def _own_memory() -> int:
    """The address space of this process in bytes; 0 if unknown."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    return 0


def _limit(resource_id: int, most: int, initial: tuple[int, int]) -> None:
    """Limit a resource of this process and its children to `most`, unless the `initial` limit is lower."""
    soft, hard = initial
    resource.setrlimit(resource_id, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard))


def _launch_once(device: Device, built: Built) -> None:
    """Launch a few blocks of each step, because the driver compiles part of a kernel at its first launch.

    The arrays have their full sizes, which may be compiled in; memory that is never touched costs nothing.
    """
    few = [replace(step.geometry, grid=device.sample_grid(step.geometry)) for step in built.steps]
    steps = tuple(replace(step, geometry=geometry) for step, geometry in zip(built.steps, few, strict=True))
    with contextlib.suppress(TrialError, DeviceError):  # the worker will meet the same error and report it
        program = Program(device, replace(built, steps=steps, is_trial=True))
        arrays = program.space.operation.arrays
        images = Images(program, {a.name: device.allocate(operation.nbytes(a, program.scope)) for a in arrays})
        device.bind(program.work(), images.handles, keep=images)()
        device.synchronize()
