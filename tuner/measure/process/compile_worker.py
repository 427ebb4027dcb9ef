"""A process that builds ahead of the device: `python -m tuner.measure.process.compile_worker`.

Several of these fill the cache of builds while the worker measures. NVRTC holds a lock within a process, so threads
would gain nothing.
"""

import contextlib
import os
import resource
from dataclasses import replace
from typing import Any

from tuner import devices
from tuner.devices import Build, Device
from tuner.devices.build import build
from tuner.errors import DeviceError, TrialError, TunerError
from tuner.measure.process import channel
from tuner.space import launch_form, operation
from tuner.space.model import Limits, Scope, Space
from tuner.space.source import Source


def main() -> None:
    """Serve until the parent is gone.

    The first request is the task. Each `build` names a configuration; a `launch` follows where the reply asks for it.
    """
    stream = channel.replies()
    requests = channel.requests()
    _limit_memory()
    task = next(requests)
    space, limits = launch_form.from_json(task["space"]), Limits.from_json(task["limits"])
    scope = Scope(task["sizes"], task["options"], task["language"], limits)
    kind = devices.split(task["device"])[0]
    device = devices.open_device(task["device"]) if devices.BACKENDS[kind].compiler is None else None
    compiler = device.compiler if device else devices.compiler(kind, task["architecture"])
    channel.reply(stream, {})
    latest: tuple[Source, Build] | None = None
    for request in requests:
        try:
            if "build" in request:
                latest = build(compiler, space, request["build"], scope)
                launch = device is not None and device.compiles_at_launch and latest[1].fresh
                channel.reply(stream, {"launch": launch})
            elif latest and device:
                _launch_once(device, space, scope, *latest)
                channel.reply(stream, {})
        except TunerError as error:
            channel.reply(stream, channel.failure(error))


def _limit_memory() -> None:
    """Limit this process to half of the memory, so that a greedy compiler fails alone, before the machine does."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _launch_once(device: Device, space: Space, scope: Scope, source: Source, binary: Build) -> None:
    """Launch one block, because the driver compiles part of the kernel at its first launch, and cache the whole build.

    The arrays have their real sizes, which may be compiled in. Memory that is never touched costs nothing.
    """
    one_block = replace(source, geometry=replace(source.geometry, grid=(1, 1, 1)))
    with contextlib.suppress(TrialError, DeviceError):  # the worker meets the same error, and reports it
        scalars = iter(operation.scalars(space.operation, scope))
        buffers = {a.name: device.allocate(operation.nbytes(a, scope)) for a in space.operation.arrays}
        buffers |= {name: device.upload(data) for name, data in operation.constants(space.operation, scope).items()}
        arguments: list[Any] = [
            next(scalars) if a.shape is None else buffers[a.name].handle for a in space.operation.arguments
        ]
        function = device.load(binary, one_block)
        device.bind(function, arguments)()
        device.synchronize()
        device.compiler.keep(source, Build(device.exported(function), binary.figures))


if __name__ == "__main__":
    main()
