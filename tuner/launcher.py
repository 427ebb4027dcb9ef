"""Look up, build (cached), launch. Imports neither Kernel Tuner, Optuna nor, once a space has been read, pydantic and
YAML."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuner import catalog, devices, operation, source
from tuner.devices import Buffer, Device
from tuner.errors import ArgumentError, RequestError
from tuner.space import Argument, Config, Scope, Space, Value, config_text
from tuner.store import Found, Match, Record, Store


class Kernel:
    """A kernel with its configuration, loaded on a device: call it with the arrays it was declared with.

    `config` is what it was compiled with, `match` how well the look-up fitted, `record` what was measured (None for
    the default configuration), `device` the device it is loaded on.
    """

    def __init__(self, space: Space, scope: Scope, device: Device, found: Found) -> None:
        """Builds and loads. Raises BuildError or LaunchError where the configuration does not run here."""
        self.space, self.scope, self.device, self.found = space, scope, device, found
        made = source.render(space, found.config, scope)
        self.function = device.load(device.build(made), made)
        self._shapes = {a.name: operation.shape(a, scope) for a in space.operation.arrays}
        self._nbytes = {a.name: operation.nbytes(a, scope) for a in space.operation.arrays}
        constants = operation.constants(space.operation, scope)
        self._constants = {name: device.upload(data) for name, data in constants.items()}

    @property
    def config(self) -> Config:
        return self.found.config

    @property
    def match(self) -> Match:
        return self.found.match

    @property
    def record(self) -> Record | None:
        return self.found.record

    def __call__(self, *arrays: Any, **options: float) -> None:
        """Enqueue one launch on `arrays`, in the order of the operation (for a matrix product: C, A, B).

        `options` overrides those of the operation, as in alpha=2.0. On cuda any array with
        `__cuda_array_interface__` will do, on opencl a pyopencl array, on host a NumPy array; each contiguous, in C
        order. On cuda it is enqueued on the default stream, on opencl on
        `kernel.device.queue`, and returns before the kernel has finished. Raises ArgumentError that names the
        argument which does not fit.
        """
        self.bind(*arrays, **options)()

    def bind(self, *arrays: Any, **options: float) -> Callable[[], None]:
        """The same launch as a call without arguments: everything is checked here, once. Keep the arrays alive."""
        declared = self.space.operation.arrays
        if len(arrays) != len(declared):
            names = ", ".join(a.name for a in declared)
            raise ArgumentError(f"{self.space.name}: {len(arrays)} arrays given; it takes {len(declared)}: {names}")
        handles = {
            argument.name: self.device.pointer(argument, array, self._shapes[argument.name])
            for argument, array in zip(declared, arrays, strict=True)
        }
        self._check_overlap(handles)
        handles |= {name: buffer.handle for name, buffer in self._constants.items()}
        scope = self.scope
        if options:
            scope = Scope(
                scope.sizes, operation.parse_options(options, self.space.operation), scope.language, scope.limits
            )
        scalars = iter(operation.scalars(self.space.operation, scope))
        arguments = [handles[a.name] if a.shape is not None else next(scalars) for a in self.space.operation.arguments]
        launch = self.device.bind(self.function, arguments)
        return functools.partial(_launch_with, self._constants, launch) if self._constants else launch

    def _check_overlap(self, handles: Mapping[str, Any]) -> None:
        """Raise ArgumentError where an output shares memory with another argument: the kernel may assume not."""
        arrays = self.space.operation.arrays
        for output in (a for a in arrays if a.role != "in"):
            for other in arrays:
                if other is not output and self._overlap(output, other, handles):
                    raise ArgumentError(f"{output.name}: shares memory with {other.name}; pass arrays of their own")

    def _overlap(self, a: Argument, b: Argument, handles: Mapping[str, Any]) -> bool:
        first, second = handles[a.name], handles[b.name]
        if not isinstance(first, int):
            return bool(first == second)
        return bool(first < second + self._nbytes[b.name] and second < first + self._nbytes[a.name])

    def __repr__(self) -> str:
        return f"<{self.space.name} on {self.device.name}, {self.match}: {config_text(self.config)}>"


def _launch_with(constants: Mapping[str, Buffer], launch: Callable[[], None]) -> None:
    """Launch; a call that is bound to this keeps the constants in memory."""
    launch()


def load(
    kernel: str,
    size: str | int | Mapping[str, int],
    *,
    device: str | Device | None = None,
    config: Mapping[str, Value] | None = None,
    strict: bool = False,
    results: str | Path | None = None,
) -> Kernel:
    """The best known configuration of `kernel` at `size`, compiled and loaded.

    `kernel` is a name from `tune list`, a unique part of one, or the path of a YAML file; `size` is written as for
    `tune`: 4096, "4096x2048x1024", {"M": 100, "N": 37, "K": 53}. `device` is a name such as "cuda:1" or an open
    device; the first that speaks the kernel's language if omitted. `config` is used instead of a look-up (its match is
    then "default"); `strict` refuses any match but an exact one. Raises RequestError for a request that cannot be met.
    """
    if not isinstance(kernel, str | Path) or not (device is None or isinstance(device, str | Device)):
        raise RequestError(f"load({kernel!r}, device={device!r}): a kernel and a device are given by name")
    space = catalog.load(str(kernel))
    sizes = operation.parse_size(size, space.operation)
    options = operation.parse_options({}, space.operation)
    opened = device if isinstance(device, Device) else devices.open(devices.for_space(space, device))
    devices.for_space(space, opened.id)  # it must speak a language of the kernel
    scope = Scope(sizes, options, opened.language, opened.limits)
    found = (
        Found(space.checked(config, scope), "default")
        if config is not None
        else find(space, scope, opened, Path(results) if results else None)
    )
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    if strict and (found.match != "exact" or found.stale):
        raise RequestError(f"{space.name}: no exact record at this size on {opened.name}; tune it, or drop strict=True")
    return Kernel(space, scope, opened, found)


def find(space: Space, scope: Scope, device: Device, results: Path | None = None) -> Found:
    """The look-up for an open device. Its notes tell of lines that cannot be read, and of a stale record."""
    signature = source.signature(space)
    return Store(space.name, results).look_up(space, scope, device.name, device.kind, device.architecture, signature)
