"""A loaded kernel, which a program calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner import devices
from tuner.catalog import catalog, kernel_names
from tuner.devices import Build, Device
from tuner.devices.arguments import ArraySpec, check_count
from tuner.devices.program import Program, build
from tuner.devices.views import Views
from tuner.devices.work import Encoded
from tuner.errors import ArgumentError, RequestError
from tuner.quoting import quoted
from tuner.space import chosen_types, operation
from tuner.space.chosen_types import dtype
from tuner.space.config import Config
from tuner.space.instance import Instance, checked
from tuner.space.scope import Scope
from tuner.space.texts import config_text
from tuner.store.store import Candidate, Match, Record

Launch = Callable[[Sequence[Any], Any, Any], None]  # takes arrays, a stream or None, and packed scalars
MOST_STREAMS = 64  # whose launches are kept, where these have memory of their own
MOST_OPTIONS = 64  # sets of options whose packed scalars are cached
MOST_STRIDES = 64  # sets of strides whose launches are kept


class Kernel:
    """A kernel in one configuration, loaded on a device: call it with the arrays of its operation.

    `device` is where it is loaded, `config` its configuration, `match` how well the look-up fitted; `regret` is a
    fraction, by which its time is expected to exceed that of the best that is known (0.02 is 2 %), and None where the
    match is not `predicted`: it is the mean of what such choices lost at sizes that were measured. `record` is the
    record that holds the configuration as its best or as a runner-up; None where it is the default, was exported, or
    was passed to `load`. Threads and signal handlers may share a Kernel. A pickled Kernel is loaded again where it is
    unpickled.
    """

    def __init__(
        self,
        instance: Instance,
        device: Device,
        candidate: Candidate,
        builds: Mapping[str, Build] | None = None,
    ) -> None:
        """Builds and loads `instance`, whose configuration is the candidate's. `builds` holds exported builds by the
        digests of their sources.

        Raises TrialError where the configuration does not run here, DeviceError where it cannot be built.
        """
        self.space, self.scope, self.device, self.candidate = instance.space, instance.problem, device, candidate
        built = build(device.compiler, instance, builds)
        self.program = Program(device, built)
        # A pickled Kernel needs no compiler either.
        self._builds = {digest: b for digest, b in (builds or {}).items() if b in built.builds.values()}
        self._requirements = [
            ArraySpec.of(a, self.shapes[a.name], dtype(a, self.program.scope), self.space.alignment_of(a.name))
            for a in self.space.operation.arrays
        ]
        self._fixed = self.space.fixed_options
        self._leading: dict[str, int] | None = None  # where arrays are contiguous
        self._views = Views(self.program, self._requirements) if self.space.operation.leading else None
        self._by_strides: dict[tuple[Any, ...], Kernel] = {}
        self._captured: list[object] = []  # launches whose memory a graph uses as long as it lives
        # A launch with memory of its own serves one stream, where each call waits for the one before.
        self._work = None if self.program.owns_memory else self.program.work()
        self._spare = [self.program.work()] if self._work is None else []  # its memory is there before a capture
        self._begin()

    def _begin(self) -> None:
        """Have no launches yet."""
        self._scalars = self._pack({})
        self._scalars_by_options: dict[str, Any] = {}
        # Arrays and scalars are written into a launch, so each serves one call at a time. There are as many launches
        # as calls were ever under way at once: in several threads, or in a signal handler within another call.
        self._idle: list[Launch] = []
        self._idle_in: dict[Hashable, list[Launch]] = {}  # by stream

    @property
    def name(self) -> str:
        """The name of its space."""
        return self.space.name

    @property
    def config(self) -> Config:
        return dict(self.candidate.config)

    @property
    def match(self) -> Match:
        return self.candidate.match

    @property
    def record(self) -> Record | None:
        return self.candidate.record

    @property
    def regret(self) -> float | None:
        return self.candidate.regret

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array, by name, in the order of a call. Some may depend on the configuration."""
        return dict(self.program.shapes)

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        """Enqueue one launch on `arrays`, in the order of the operation (for a matrix product: C, A, B).

        `options`, as in alpha=2.0, override those of `load`. On cuda an array has `__cuda_array_interface__`, on opencl
        it is a pyopencl array, on host a NumPy array; each is contiguous, in C order, or has the `strides` that the
        space gives it. `stream` is a stream of PyCUDA, CuPy or torch, its handle, or a pyopencl queue. Without one, the
        launch goes where the first array's library works now: the current stream of CuPy or torch, PyCUDA's default
        stream, the queue of the pyopencl array. The call returns before the kernel has finished; on host, after. A CUDA
        graph that captured a launch needs this Kernel to stay alive.

        Raises ArgumentError, which names the argument that does not fit, RequestError for an option, and LaunchError
        where the device refuses the launch, perhaps because an earlier one failed.
        """
        if self._views is not None:
            self._for(arrays)(*arrays, stream=stream, **options)
            return
        scalars = self._scalars if not options else self._scalars_of(options)
        idle = self._idle if self._work is not None else self._idle_of(stream, arrays)
        try:
            launch = idle.pop()
        except IndexError:
            launch = self._launch()
        if self._work is None:
            try:
                launch(arrays, stream, scalars)
            except ArgumentError:  # nothing was enqueued; after another failure, its memory is in no known state
                idle.append(launch)
                raise
            idle.append(launch)
            return
        try:
            launch(arrays, stream, scalars)
        finally:
            idle.append(launch)

    def check(self, *arrays: Any) -> None:
        """Raise ArgumentError, which names the argument that does not fit, unless a call takes these arrays."""
        kernel = self if self._views is None else self._for(arrays)
        self.device.handles(kernel._requirements, arrays)

    def bind(self, *arrays: Any, stream: Any = None, **options: float) -> Callable[[], None]:
        """The same launch as a call without arguments: arrays, options and stream are checked once, here.

        The call keeps its arrays alive, and threads and signal handlers may share it. For a CUDA graph, bind it to the
        stream under capture, or while that stream is current; a call that was bound before the capture must live as
        long as the graph. Where the kernel has scratch or constant memory, the call has its own: graphs that captured
        it must not run beside one another. Raises what a launch raises; the call raises LaunchError alone.
        """
        if self._views is not None:
            return self._for(arrays).bind(*arrays, stream=stream, **options)
        handles = self.device.handles(self._requirements, arrays)
        where = self.device.stream(stream, arrays[0] if arrays else None)
        work = self.program.work(scalars=self._values(options))
        call = self.program.bind(work, handles, where, (self, arrays, where))
        has_own = self.program.owns_memory or work.positions(Encoded)
        if has_own and self.device.lane(stream, arrays[0] if arrays else None) is None:
            self._captured.append(call)
        return call

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

    def _for(self, arrays: Sequence[Any]) -> Kernel:
        """This kernel for arrays with the strides of these: they are checked, and read, once."""
        check_count(self._requirements, arrays)
        layouts = [self.device.layout(spec, array) for spec, array in zip(self._requirements, arrays, strict=True)]
        key = tuple(layout.strides for layout in layouts)
        kernel = self._by_strides.get(key)
        if kernel is None:
            assert self._views is not None
            kernel = object.__new__(type(self))
            vars(kernel).update(vars(self))
            kernel._requirements, kernel._leading = self._views.of(layouts)
            kernel._views = None
            kernel._begin()
            if len(self._by_strides) >= MOST_STRIDES:
                self._by_strides.clear()
            self._by_strides[key] = kernel
        return kernel

    def _launch(self) -> Launch:
        try:
            work = self._work or self._spare.pop()
        except IndexError:
            work = self.program.work()
        return self.device.launcher(work, self._requirements)

    def _idle_of(self, stream: Any, arrays: Sequence[Any]) -> list[Launch]:
        """The idle launches of a stream. Those of the stream that came first make room for others."""
        try:
            lane = self.device.lane(stream, arrays[0] if arrays else None)
        except (ArgumentError, AttributeError):
            self.device.handles(self._requirements, arrays)  # what is wrong with the arrays comes first
            raise
        if lane is None:
            self._captured.append(launch := self._launch())
            return [launch]
        if (idle := self._idle_in.get(lane)) is None:
            if len(self._idle_in) >= MOST_STREAMS:
                self._idle_in.pop(list(self._idle_in)[0], None)  # noqa: RUF015  # a list is made at once, whatever others do
            idle = self._idle_in.setdefault(lane, [])
        return idle

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
        return self.device.packed(self._values(options))

    def _values(self, options: Mapping[str, float]) -> Sequence[Any]:
        """The scalars with these options, as NumPy scalars in the kernel's order."""
        scope = self.program.scope
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
        return operation.scalars(self.space.operation, scope, self._leading)


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
    return Kernel(checked(space, candidate.config, scope), device, candidate, builds)
