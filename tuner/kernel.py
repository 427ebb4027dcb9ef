"""A kernel that is loaded: what a program calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner import operation, source
from tuner.devices import Buffer, Build, Device, Function, figures
from tuner.devices.checks import Wanted
from tuner.space import Config, Operation, Scope, Space, config_text
from tuner.store import Found, Match, Record

Launch = Callable[[Sequence[Any], Any], None]  # with arrays, and a stream or None
MOST_OPTIONS = 64  # sets of options whose launches a thread keeps ready


class Kernel:
    """A kernel with its configuration, loaded on a device: call it with the arrays it was declared with.

    `config` is what it was compiled with, `match` how well the look-up fitted, `record` what was measured (None for
    the default configuration), `device` the device it is loaded on. Threads may share it.
    """

    def __init__(
        self, space: Space, scope: Scope, device: Device, found: Found, binaries: Mapping[str, bytes] | None = None
    ) -> None:
        """Builds and loads; `binaries` are builds that need not be made, by the digests of their sources.

        Raises TrialError where the configuration does not run here, DeviceError where it cannot be built.
        """
        self.space, self.scope, self.device, self.found = space, scope, device, found
        made = source.render(space, found.config, scope)
        given = (binaries or {}).get(made.digest)
        built = device.build(made) if given is None else Build(given)
        figures.check(built.figures, made.geometry, scope.limits)
        self.function = device.load(built, made)
        arrays = space.operation.arrays
        wanted = [Wanted.of(a, operation.shape(a, scope), space.alignment) for a in arrays]
        constants = {name: device.upload(data) for name, data in operation.constants(space.operation, scope).items()}
        self._loaded = _Loaded(device, self.function, space.operation, scope, wanted, constants)
        self._own = _Own(self._loaded)

    @property
    def config(self) -> Config:
        return self.found.config

    @property
    def match(self) -> Match:
        return self.found.match

    @property
    def record(self) -> Record | None:
        return self.found.record

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        """Enqueue one launch on `arrays`, in the order of the operation (for a matrix product: C, A, B).

        `options` overrides those of the operation, as in alpha=2.0. On cuda any array with
        `__cuda_array_interface__` will do, on opencl a pyopencl array, on host a NumPy array; each contiguous, in C
        order. `stream` is a stream of PyCUDA, CuPy or torch, or a handle; a pyopencl queue. Without one, the launch
        goes where the library of the first array works just now: CuPy's and torch's current stream, PyCUDA's
        default stream, the pyopencl array's queue. It returns before the kernel has finished, on host after. Raises
        ArgumentError that names the argument which does not fit.
        """
        launch = self._own.launch if not options else self._own.launch_with(options)
        launch(arrays, stream)

    def bind(self, *arrays: Any, stream: Any = None, **options: float) -> Callable[[], None]:
        """The same launch as a call without arguments: everything is checked here, once, and the stream is settled.

        The call keeps its arrays alive, and threads may share it. To be captured in a CUDA graph it is bound to the
        stream that is being captured, or while that is current.
        """
        handles = self.device.handles(self._loaded.wanted, arrays)
        where = self.device.stream(stream, arrays[0])
        launch = self.device.bind(self.function, self._loaded.arguments(handles, options), where)
        launch.__dict__["kept"] = (self, arrays, stream)
        return launch

    def __repr__(self) -> str:
        return f"<{self.space.name} on {self.device.name}, {self.match}: {config_text(self.config)}>"


@dataclass(frozen=True)
class _Loaded:
    """A function on its device, and what it takes."""

    device: Device
    function: Function
    operation: Operation
    scope: Scope
    wanted: Sequence[Wanted]
    constants: Mapping[str, Buffer]  # arrays that no caller gives, by name

    def arguments(self, handles: Sequence[Any], options: Mapping[str, float]) -> list[Any]:
        """In the kernel's order: the handles of arrays, and scalars."""
        scope = self.scope
        if options:
            chosen = operation.parse_options(options, self.operation)
            scope = Scope(scope.sizes, chosen, scope.language, scope.limits)
        given = dict(zip((one.argument.name for one in self.wanted), handles, strict=True))
        given |= {name: buffer.handle for name, buffer in self.constants.items()}
        scalars = iter(operation.scalars(self.operation, scope))
        return [given[a.name] if a.shape is not None else next(scalars) for a in self.operation.arguments]

    def launch(self, options: Mapping[str, float]) -> Launch:
        """A launch with these options, for one thread."""
        return self.device.launcher(self.function, self.arguments([None] * len(self.wanted), options), self.wanted)


class _Own(threading.local):
    """A thread's own launches, since arrays and stream are written into them."""

    def __init__(self, loaded: _Loaded) -> None:
        """Called for each thread."""
        self.loaded, self.launch = loaded, loaded.launch({})
        self.others: dict[tuple[tuple[str, float], ...], Launch] = {}

    def launch_with(self, options: Mapping[str, float]) -> Launch:
        """The launch with these options: kept, because programs give the same ones again and again."""
        key = tuple(options.items())
        try:
            return self.others[key]
        except (KeyError, TypeError):  # a TypeError is of a value that no option can have
            launch = self.loaded.launch(options)
        if len(self.others) >= MOST_OPTIONS:
            self.others.clear()
        self.others[key] = launch
        return launch
