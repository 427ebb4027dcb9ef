"""Building one configuration; and the process that does it ahead of the device: `python -m tuner.builder`.

Several of these fill the cache of builds while the worker measures. They are processes because NVRTC locks inside
one, so threads would gain nothing.
"""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import replace
from typing import Any

from tuner import devices
from tuner.devices import Build, Compiler, Device, figures
from tuner.errors import DeviceError, TrialError, TunerError
from tuner.measure.process import channel
from tuner.space import launch_form, operation, source
from tuner.space.model import Config, Limits, Scope, Space
from tuner.space.source import Source


def build(compiler: Compiler, space: Space, config: Config, scope: Scope) -> tuple[Source, Build]:
    """Source and build of one configuration.

    Raises GeometryError, BuildError, or ResourceError where the device could not launch it; no device is asked.
    """
    made = source.render(space, config, scope)
    built = compiler.build(made)
    figures.check(built.figures, made.geometry, scope.limits)
    return made, built


def main() -> None:
    """Serve until the parent is gone: first the task; then `build` for a configuration; then, where that was answered
    with `launch`, `launch`."""
    stream = channel.replies()
    asked = channel.requests()
    # A compiler that wants more than half of the memory fails alone, before the machine does.
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    _, allowed = resource.getrlimit(resource.RLIMIT_AS)
    if allowed != resource.RLIM_INFINITY:
        most = min(most, allowed)
    resource.setrlimit(resource.RLIMIT_AS, (most, allowed))
    task = next(asked)
    space, limits = launch_form.from_json(task["space"]), Limits.from_json(task["limits"])
    scope = Scope(task["sizes"], task["options"], task["language"], limits)
    kind = devices.split(task["device"])[0]
    # OpenCL compiles on its device; CUDA's and C's compilers need none.
    device = devices.open(task["device"]) if kind == "opencl" else None
    compiler = device.compiler if device else devices.compiler(kind, task["architecture"])
    channel.reply(stream, {})
    made: tuple[Source, Build] | None = None
    for request in asked:
        try:
            if "build" in request:
                made = build(compiler, space, request["build"], scope)
                channel.reply(stream, {"launch": device is not None and device.compiles_at_launch and made[1].fresh})
            elif made and device:
                _launch_once(device, space, scope, *made)
                channel.reply(stream, {})
        except TunerError as error:
            channel.reply(stream, channel.failure(error))


def _launch_once(device: Device, space: Space, scope: Scope, made: Source, built: Build) -> None:
    """Launch one block, so that what the driver compiles at a first launch is compiled, and keep the whole.

    The arrays are of their real size, since sizes may be compiled in; memory that is never touched costs nothing.
    """
    one = replace(made, geometry=replace(made.geometry, grid=(1, 1, 1)))
    with contextlib.suppress(TrialError, DeviceError):  # what is wrong shows in the worker
        values = iter(operation.scalars(space.operation, scope))
        buffers = {a.name: device.allocate(operation.nbytes(a, scope)) for a in space.operation.arrays}
        buffers |= {name: device.upload(data) for name, data in operation.constants(space.operation, scope).items()}
        arguments: list[Any] = [
            next(values) if a.shape is None else buffers[a.name].handle for a in space.operation.arguments
        ]
        function = device.load(built, one)
        device.bind(function, arguments)()
        device.synchronize()
        device.compiler.keep(made, Build(device.exported(function), built.figures))


if __name__ == "__main__":
    main()
