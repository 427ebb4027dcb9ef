"""A loaded kernel, which a program calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner import devices
from tuner.devices import Build, Device, figures
from tuner.devices.arguments import ArraySpec
from tuner.errors import RequestError
from tuner.paths import quoted
from tuner.space import catalog, chosen_types, kernel_names, operation, source
from tuner.space.chosen_types import dtype
from tuner.space.model import Config, Space
from tuner.space.scope import Scope
from tuner.space.texts import config_text
from tuner.store.store import Candidate, Match, Record

Launch = Callable[[Sequence[Any], Any, Any], None]  # takes arrays, a stream or None, and packed scalars
MOST_OPTIONS = 64  # sets of options whose packed scalars are cached


class Kernel:
    """A kernel in one configuration, loaded on a device: call it with the arrays of its operation.

    `device` is where it is loaded, `config` its configuration, `match` how well the look-up fitted. `record` is the
    record that holds the configuration as its best or as a runner-up; None where it is the default, was exported, or
    was passed to `load`. Threads and signal handlers may share a Kernel. A pickled Kernel is loaded again where it is
    unpickled.
    """

    def __init__(
        self,
        space: Space,
        scope: Scope,
        device: Device,
        candidate: Candidate,
        builds: Mapping[str, Build] | None = None,
    ) -> None:
        """Builds and loads. `builds` holds exported builds by the digests of their sources.

        Raises TrialError where the configuration does not run here, DeviceError where it cannot be built.
        """
        self.space, self.scope, self.device, self.candidate = space, scope, device, candidate
        text = source.render(space, candidate.config, scope)
        exported = (builds or {}).get(text.digest)
        build = exported or device.build(text)
        figures.check(build.figures, text.geometry, scope.limits)
        self.function = device.load(build, text)
        self._builds = {} if exported is None else {text.digest: exported}  # a pickled Kernel needs no compiler either
        op = space.operation
        self._requirements = [
            ArraySpec.of(a, operation.shape(a, scope), dtype(a, scope), space.alignment) for a in op.arrays
        ]
        self._constants = {name: device.upload(data) for name, data in operation.constants(op, scope).items()}
        self._fixed = fixed_options(space)
        self._scalars = self._pack({})
        self._scalars_by_options: dict[str, Any] = {}
        # Arrays and scalars are written into a launch, so each serves one call at a time. There are as many launches
        # as calls were ever under way at once: in several threads, or in a signal handler within another call.
        self._idle: list[Launch] = []

    @property
    def config(self) -> Config:
        return dict(self.candidate.config)

    @property
    def match(self) -> Match:
        return self.candidate.match

    @property
    def record(self) -> Record | None:
        return self.candidate.record

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        """Enqueue one launch on `arrays`, in the order of the operation (for a matrix product: C, A, B).

        `options`, as in alpha=2.0, override those of `load`. On cuda an array has `__cuda_array_interface__`, on opencl
        it is a pyopencl array, on host a NumPy array; each is contiguous, in C order. `stream` is a stream of PyCUDA,
        CuPy or torch, its handle, or a pyopencl queue. Without one, the launch goes where the first array's library
        works now: the current stream of CuPy or torch, PyCUDA's default stream, the queue of the pyopencl array. The
        call returns before the kernel has finished; on host, after. A CUDA graph that captured a launch needs this
        Kernel to stay alive.

        Raises ArgumentError, which names the argument that does not fit, RequestError for an option, and LaunchError
        where the device refuses the launch, perhaps because an earlier one failed.
        """
        scalars = self._scalars if not options else self._scalars_of(options)
        try:
            launch = self._idle.pop()
        except IndexError:
            launch = self._launch()
        try:
            launch(arrays, stream, scalars)
        finally:
            self._idle.append(launch)

    def bind(self, *arrays: Any, stream: Any = None, **options: float) -> Callable[[], None]:
        """The same launch as a call without arguments: arrays, options and stream are checked once, here.

        The call keeps its arrays alive, and threads may share it. For a CUDA graph, bind it to the stream under
        capture, or while that stream is current. Raises what a launch raises; the call raises LaunchError alone.
        """
        handles = self.device.handles(self._requirements, arrays)
        where = self.device.stream(stream, arrays[0])
        return self.device.bind(self.function, self._arguments(handles, options), where, (self, arrays, where))

    def __reduce__(self) -> tuple[Callable[..., Kernel], tuple[Any, ...]]:
        """For `pickle` and `copy`: the kernel by its name or file, and what it was loaded with. It is loaded again on
        the device of the same name, in the same configuration."""
        space, scope = self.space, self.scope
        return _reload, (
            kernel_names.address(space),
            dict(scope.sizes),
            dict(scope.options),
            dict(scope.types),
            self.device.id,
            self.candidate,
            self._builds,
        )

    def __repr__(self) -> str:
        types = "".join(f" {name}={value}" for name, value in self.scope.types.items())
        return f"<{self.space.name}{types} on {self.device.name}, {self.match}: {config_text(self.config)}>"

    def _launch(self) -> Launch:
        arguments = self._arguments([None] * len(self._requirements), {})
        return self.device.launcher(self.function, arguments, self._requirements)

    def _arguments(self, handles: Sequence[Any], options: Mapping[str, float]) -> list[Any]:
        """The handles of arrays, and scalars, in the kernel's order."""
        op = self.space.operation
        by_name = dict(zip((a.name for a in op.arrays), handles, strict=True))
        by_name |= {name: buffer.handle for name, buffer in self._constants.items()}
        scalars = iter(self._values(options))
        return [by_name[a.name] if a.shape is not None else next(scalars) for a in op.arguments]

    def _scalars_of(self, options: Mapping[str, float]) -> Any:
        """The packed scalars with these options, cached because programs repeat their options."""
        key = repr(options)  # it tells 1 from True, and 0.0 from -0.0
        scalars = self._scalars_by_options.get(key)
        if scalars is None:
            scalars = self._pack(options)
            if len(self._scalars_by_options) >= MOST_OPTIONS:
                self._scalars_by_options.clear()
            self._scalars_by_options[key] = scalars
        return scalars

    def _pack(self, options: Mapping[str, float]) -> Any:
        return self.device.packed(self.function, self._values(options))

    def _values(self, options: Mapping[str, float]) -> Sequence[Any]:
        """The scalars with these options, as NumPy scalars in the kernel's order."""
        scope = self.scope
        if options:
            values = operation.parse_options(options, self.space.operation, scope.types)
            for name in options.keys() & self._fixed:
                if values[name] != scope.options[name]:
                    raise RequestError(
                        f"option {name} = {quoted(options[name])}: the code or the shape of an array depends on it, so "
                        f"it is fixed when the kernel is loaded; load it with options={{{name!r}: ...}}"
                    )
            overridden = {**scope.options, **{name: values[name] for name in options}}
            scope = replace(scope, options=overridden)
        return operation.scalars(self.space.operation, scope)


def _reload(
    name: str,
    sizes: Mapping[str, int],
    options: Mapping[str, float],
    types: Mapping[str, str],
    device_name: str,
    candidate: Candidate,
    builds: Mapping[str, Build],
) -> Kernel:
    """The Kernel that was pickled. Raises RequestError where the kernel, the device or the configuration is not there
    any more, and what a Kernel raises."""
    space = catalog.load(name)
    device = devices.shared(devices.for_space(space, device_name))
    types = chosen_types.parse(types, space.operation)
    scope = Scope(sizes, options, device.language, device.limits, types)
    space.checked(candidate.config, scope)
    return Kernel(space, scope, device, candidate, builds)


def fixed_options(space: Space) -> set[str]:
    """The options that code, geometry, restrictions or shapes depend on: they are fixed when a kernel is loaded."""
    shapes = [extent for argument in space.operation.arguments for extent in argument.shape or ()]
    conditions = [restriction.that for restriction in space.restrictions]
    expressions = (*space.derived.values(), *space.grid, *space.block, space.shared_memory, *conditions, *shapes)
    return {name for expression in expressions for name in expression.names} & space.operation.options.keys()
