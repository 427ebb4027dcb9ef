"""A kernel that is loaded: what a program calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tuner.devices import Build, Device, figures
from tuner.devices.arguments import ArraySpec
from tuner.errors import RequestError
from tuner.space import operation, source
from tuner.space.model import Config, Scope, Space, config_text
from tuner.store.store import Found, Match, Record

Launch = Callable[[Sequence[Any], Any, Any], None]  # with arrays, a stream or None, and packed scalars
MOST_OPTIONS = 64  # sets of options whose scalars are kept packed


class Kernel:
    """A kernel with its configuration, loaded on a device: call it with the arrays it was declared with.

    `config` is what it was compiled with, `match` how well the look-up fitted, `record` the record that it comes from,
    of which another configuration may be the best (None for the default configuration, or one that was given or
    exported), `device` the device it is loaded on. Threads and signal handlers may share it.
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
        op = space.operation
        self._wanted = [ArraySpec.of(a, operation.shape(a, scope), space.alignment) for a in op.arrays]
        self._constants = {name: device.upload(data) for name, data in operation.constants(op, scope).items()}
        self._settled = settled(space)
        self._scalars = self._packed({})
        self._others: dict[str, Any] = {}
        # A launch is one call's alone, because arrays and scalars are written into it. So there are as many as calls
        # that were ever under way at once: of threads, or of a signal handler within another call.
        self._idle: list[Launch] = []

    @property
    def config(self) -> Config:
        return dict(self.found.config)

    @property
    def match(self) -> Match:
        return self.found.match

    @property
    def record(self) -> Record | None:
        return self.found.record

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        """Enqueue one launch on `arrays`, in the order of the operation (for a matrix product: C, A, B).

        `options` overrides those that it was loaded with, as in alpha=2.0. On cuda any array with
        `__cuda_array_interface__` will do, on opencl a pyopencl array, on host a NumPy array; each contiguous, in C
        order. `stream` is a stream of PyCUDA, CuPy or torch, or a handle; a pyopencl queue. Without one, the launch
        goes where the library of the first array works just now: CuPy's and torch's current stream, PyCUDA's
        default stream, the pyopencl array's queue. It returns before the kernel has finished, on host after. A CUDA
        graph that has captured it needs the kernel to live.

        Raises ArgumentError that names the argument which does not fit, RequestError for an option, LaunchError where
        the device refuses, which it may do for what an earlier launch did.
        """
        scalars = self._scalars if not options else self._chosen(options)
        try:
            launch = self._idle.pop()
        except IndexError:
            launch = self._launch()
        try:
            launch(arrays, stream, scalars)
        finally:
            self._idle.append(launch)

    def bind(self, *arrays: Any, stream: Any = None, **options: float) -> Callable[[], None]:
        """The same launch as a call without arguments: everything is checked here, once, and the stream is settled.

        The call keeps its arrays alive, and threads may share it. To be captured in a CUDA graph it is bound to the
        stream that is being captured, or while that is current. Raises what a launch does; so does the call, but for
        ArgumentError and RequestError.
        """
        handles = self.device.handles(self._wanted, arrays)
        where = self.device.stream(stream, arrays[0])
        return self.device.bind(self.function, self._arguments(handles, options), where, (self, arrays, where))

    def __repr__(self) -> str:
        return f"<{self.space.name} on {self.device.name}, {self.match}: {config_text(self.config)}>"

    def _launch(self) -> Launch:
        arguments = self._arguments([None] * len(self._wanted), {})
        return self.device.launcher(self.function, arguments, self._wanted)

    def _arguments(self, handles: Sequence[Any], options: Mapping[str, float]) -> list[Any]:
        """In the kernel's order: the handles of arrays, and scalars."""
        given = dict(zip((one.argument.name for one in self._wanted), handles, strict=True))
        given |= {name: buffer.handle for name, buffer in self._constants.items()}
        scalars = iter(self._values(options))
        return [given[a.name] if a.shape is not None else next(scalars) for a in self.space.operation.arguments]

    def _chosen(self, options: Mapping[str, float]) -> Any:
        """The packed scalars with these options: kept, because programs give the same ones again and again."""
        key = repr(options)  # which tells 1 from True, and 0.0 from -0.0
        packed = self._others.get(key)
        if packed is None:
            packed = self._packed(options)
            if len(self._others) >= MOST_OPTIONS:
                self._others.clear()
            self._others[key] = packed
        return packed

    def _packed(self, options: Mapping[str, float]) -> Any:
        return self.device.packed(self.function, self._values(options))

    def _values(self, options: Mapping[str, float]) -> Sequence[Any]:
        """The scalars with these options, in the kernel's order, of NumPy's types."""
        scope = self.scope
        if options:
            chosen = operation.parse_options(options, self.space.operation)
            for name in options.keys() & self._settled:
                if chosen[name] != scope.options[name]:
                    raise RequestError(
                        f"option {name} = {options[name]!r}: what was compiled, or the shape of an array, depends on "
                        f"it, so it is settled when the kernel is loaded; load it with options={{{name!r}: ...}}"
                    )
            changed = {**scope.options, **{name: chosen[name] for name in options}}
            scope = Scope(scope.sizes, changed, scope.language, scope.limits)
        return operation.scalars(self.space.operation, scope)


def settled(space: Space) -> set[str]:
    """The options that code, geometry, restrictions or the shapes of arrays depend on."""
    shapes = [extent for argument in space.operation.arguments for extent in argument.shape or ()]
    conditions = [restriction.that for restriction in space.restrictions]
    read = (*space.derived.values(), *space.grid, *space.block, space.shared_memory, *conditions, *shapes)
    return {name for expression in read for name in expression.names} & space.operation.options.keys()
