"""`tuner.Kernel`: a loaded kernel, which a program calls to launch it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np

from tuner import devices
from tuner.catalog import catalog, kernel_names
from tuner.devices import Build, Device, forking
from tuner.devices.arguments import ArraySpec, check_count
from tuner.devices.built import build
from tuner.devices.program import Program
from tuner.devices.views import Views
from tuner.devices.work import Encoded, Work
from tuner.errors import ArgumentError, MisalignedArray, RequestError
from tuner.launch.call_scalars import CallScalars
from tuner.quoting import quoted
from tuner.space import chosen_types, launch_form, operation
from tuner.space.chosen_types import dtype
from tuner.space.config import Config
from tuner.space.instance import DIVISOR, Instance, checked
from tuner.space.texts import config_text
from tuner.store.lookup import Candidate, Match
from tuner.store.record import Record

Launch = Callable[[Sequence[Any], Any, Any], None]  # takes arrays, a stream or None, and packed scalars
MOST_STREAMS = 64  # streams whose launches are cached; only used if a launch has its own memory
MOST_STRIDES = 64  # sets of strides whose launches are cached


class Kernel:
    """A kernel in one configuration, loaded on a device. `tuner.load` returns it; a call launches it.

    Attributes: `device`, the device; `config`, the configuration; `match`, how well the look-up fits the problem
    ("exact", "predicted", "nearest_size", "architecture", "other_device" or "default"); `regret`, the expected regret
    of a predicted match; `record`, the record of the configuration; `shapes`, the shapes of the arrays.

    Threads and signal handlers may share a Kernel. A pickled Kernel is loaded again when it is unpickled, on the
    device of the same name.

    Args:
        instance: The configuration and the problem.
        device: The open device.
        candidate: The look-up's result, which has the same configuration.
        builds: Exported builds, by the digest of their source. Default: none; everything is compiled or cached.

    Raises TrialError if the configuration does not run on this device, and DeviceError if it cannot be built.

    Example::

        import numpy as np

        import tuner

        kernel = tuner.load("sgemm/01_host_blocked", 64)
        print(kernel.config, kernel.match)
        C, A, B = (np.ones(shape, dtype=np.float32) for shape in kernel.shapes.values())
        kernel(C, A, B, alpha=2.0)  # C = 2 A B
        assert np.all(C == 128)
        launch = kernel.bind(C, A, B)  # checks and packs the arguments once
        launch()
        assert np.all(C == 64)
    """

    def __init__(
        self,
        instance: Instance,
        device: Device,
        candidate: Candidate,
        builds: Mapping[str, Build] | None = None,
    ) -> None:
        """Build and load `instance`."""
        forking.use(device.kind)
        self.space, self.scope, self.device, self.candidate = instance.space, instance.problem, device, candidate
        built = build(device.compiler, instance, builds)
        self.program = Program(device, built)
        # Exported builds are pickled with the Kernel, so unpickling needs no compiler.
        self._builds = {digest: b for digest, b in (builds or {}).items() if b in built.builds.values()}
        self._requirements = [
            ArraySpec.of(a, self.shapes[a.name], dtype(a, self.program.scope), instance.alignment_of(a.name))
            for a in self.space.operation.arrays
        ]
        self._leading: dict[str, int] | None = None  # leading dimensions; None for contiguous arrays
        self._views = Views(self.program, self._requirements) if self.space.operation.leading else None
        self._by_strides: dict[tuple[Any, ...], Kernel] = {}
        self._instance, self._by_class = instance, dict[frozenset[str], Kernel]()
        self._captured: list[object] = []  # launches whose memory a CUDA graph uses
        # A launch with its own memory (scratch, constants) serves one stream, where calls run one after the other.
        self._work = None if self.program.owns_memory else self.program.work()
        self._spare = [self.program.work()] if self._work is None else []  # allocated before a capture
        self._begin()

    def _begin(self) -> None:
        """Reset the cached launches and scalars."""
        self._scalars = CallScalars(self.program, self._leading)
        # A call writes its arrays and scalars into a launch, so a launch serves one call at a time. Concurrent calls
        # (threads, or a signal handler that interrupts a call) each take an idle launch, or create one.
        self._idle: list[Launch] = []
        self._idle_in: dict[Hashable, list[Launch]] = {}  # by stream

    because = ""  # why it runs, if its match does not say it
    besides = ""  # what else a caller should know of the choice

    @property
    def name(self) -> str:
        """The name of its space."""
        return self.space.name

    @property
    def config(self) -> Config:
        """The configuration: a value for each parameter."""
        return dict(self.candidate.config)

    @property
    def match(self) -> Match:
        """How well the look-up fits the problem; see "The look-up" in docs/launching.md."""
        return self.candidate.match

    @property
    def record(self) -> Record | None:
        """The record that holds the configuration as its best or as a runner-up.

        None if the configuration is the default, was exported, or was passed to `load`.
        """
        return self.candidate.record

    @property
    def regret(self) -> float | None:
        """Expected slowdown relative to the best known configuration (0.02 = 2 %); None unless `match` is "predicted".

        It is the mean slowdown of such predictions at measured sizes that were left out of the model.
        """
        return self.candidate.regret

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array, by name, in the order of a call. Some may depend on the configuration."""
        return dict(self.program.shapes)

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        """Enqueue one launch.

        On cuda and opencl the call returns before the kernel has finished; on host, after. A CUDA graph that captured
        a launch needs this Kernel to stay alive.

        Args:
            arrays: The arrays in the order of the operation (for a matrix product: C, A, B). On cuda an array has
                `__cuda_array_interface__`; on opencl it is a pyopencl array; on host a NumPy array. Each is contiguous
                in C order, or has the `strides` that the space file declares.
            stream: A stream of PyCUDA, CuPy or torch, its handle, or a pyopencl queue. Default: the current stream of
                the first array's library (CuPy, torch), PyCUDA's default stream, or the queue of the pyopencl array.
            options: Values of the operation's options, such as alpha=2.0. They override those of `load`.

        Raises ArgumentError, which names the wrong argument; RequestError for an invalid option; and LaunchError if
        the driver rejects the launch, possibly because an earlier one failed.
        """
        if self._views is not None:
            self._for(arrays)(*arrays, stream=stream, **options)
            return
        scalars = self._scalars.plain if not options else self._scalars.packed(options)
        idle = self._idle if self._work is not None else self._idle_of(stream, arrays)
        try:
            launch = idle.pop()
        except IndexError:
            launch = self._launch()
        if self._work is None:
            try:
                launch(arrays, stream, scalars)
            except ArgumentError as error:  # nothing was enqueued; other errors leave the launch's memory undefined
                idle.append(launch)
                self._for_addresses(arrays, error)(*arrays, stream=stream, **options)
                return
            idle.append(launch)
            return
        try:
            launch(arrays, stream, scalars)
        except MisalignedArray as error:  # nothing was enqueued
            self._for_addresses(arrays, error)(*arrays, stream=stream, **options)
        finally:
            idle.append(launch)

    def check(self, *arrays: Any) -> None:
        """Raise ArgumentError, which names the wrong argument, if a call would reject these arrays."""
        forking.check(self.device.kind)
        kernel = self if self._views is None else self._for(arrays)
        try:
            self.device.handles(kernel._requirements, arrays)
        except MisalignedArray as error:
            self._for_addresses(arrays, error).check(*arrays)

    def bind(self, *arrays: Any, stream: Any = None, **options: float) -> BoundLaunch:
        """A function without arguments that launches the kernel on these arrays, which are checked once, here.

        The function keeps its arrays alive. Threads and signal handlers may share it. For a CUDA graph, bind it to the
        captured stream, or while that stream is current; a function bound before the capture must live as long as the
        graph. It has its own scratch and constant memory, if the kernel uses any: graphs that captured the same
        function must not run concurrently. Its `scratch(name)` waits for the device, and returns what a scratch array
        holds.

        Arguments and errors are those of a call; the function itself raises only LaunchError, and DeviceError in a
        process that was forked from this one. It cannot be pickled.
        """
        forking.check(self.device.kind)
        if self._views is not None:
            return self._for(arrays).bind(*arrays, stream=stream, **options)
        try:
            handles = self.device.handles(self._requirements, arrays)
        except MisalignedArray as error:
            return self._for_addresses(arrays, error).bind(*arrays, stream=stream, **options)
        where = self.device.stream(stream, arrays[0] if arrays else None)
        work = self.program.work(scalars=self._scalars.values(options))
        call = BoundLaunch(self.program.bind(work, handles, where, (self, arrays, where)))
        call.scratch = functools.partial(self._scratch, work)
        has_own = self.program.owns_memory or work.positions(Encoded)
        if has_own and self.device.lane(stream, arrays[0] if arrays else None) is None:
            self._captured.append(call)
        return call

    def __reduce__(self) -> tuple[Callable[..., Kernel], tuple[Any, ...]]:
        """For `pickle` and `copy`: load the same kernel, problem and configuration on the device of the same name."""
        space, scope = self.space, self.scope
        return _reload, (
            kernel_names.address(space) if space.files else launch_form.to_json(space),
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
        """This kernel for arrays with these strides, which are checked once for each set of strides."""
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

    def _for_addresses(self, arrays: Sequence[Any], error: ArgumentError) -> Kernel:
        """This kernel, compiled for arrays that begin where these do. Raises `error` if it has no such build.

        Builds of kernels in Python files assume that arrays begin at multiples of 16 bytes, as nearly all do. If some
        arrays of a caller do not, a build is made for this set of arguments, and kept for later calls.
        """
        if not isinstance(error, MisalignedArray) or self.space.python_language is None:
            raise error
        pairs = zip(self._requirements, arrays, strict=True)
        own = frozenset(spec.argument.name for spec, array in pairs if self.device.handle(spec, array) % DIVISOR)
        unaligned = self._instance.unaligned | own
        if unaligned == self._instance.unaligned:  # the file or the type of the elements demands more
            raise error
        kernel = self._by_class.get(unaligned)
        if kernel is None:
            instance = replace(self._instance, unaligned=unaligned)
            kernel = self._by_class[unaligned] = Kernel(instance, self.device, self.candidate, self._builds)
        return kernel

    def _launch(self) -> Launch:
        forking.check(self.device.kind)
        try:
            work = self._work or self._spare.pop()
        except IndexError:
            work = self.program.work()
        return self.device.launcher(work, self._requirements)

    def _idle_of(self, stream: Any, arrays: Sequence[Any]) -> list[Launch]:
        """The idle launches of a stream. Drops those of the oldest stream if there are too many."""
        forking.check(self.device.kind)
        try:
            lane = self.device.lane(stream, arrays[0] if arrays else None)
        except (ArgumentError, AttributeError):
            self.device.handles(self._requirements, arrays)  # errors of the arrays are reported first
            raise
        if lane is None:
            self._captured.append(launch := self._launch())
            return [launch]
        if (idle := self._idle_in.get(lane)) is None:
            if len(self._idle_in) >= MOST_STREAMS:
                self._idle_in.pop(list(self._idle_in)[0], None)  # noqa: RUF015  # list() is atomic beside other threads
            idle = self._idle_in.setdefault(lane, [])
        return idle

    def _scratch(self, work: Work, name: str) -> np.ndarray[Any, Any]:
        """What a scratch array of a launch holds when all work on the device is done."""
        arguments = {argument.name: position for position, argument in enumerate(self.space.operation.scratch)}
        if name not in arguments:
            raise RequestError(
                f"scratch({quoted(name)}): the scratch arrays of {self.name} are {', '.join(arguments) or 'none'}"
            )
        argument = self.space.operation.scratch[arguments[name]]
        array = np.empty(operation.shape(argument, self.program.scope), dtype(argument, self.program.scope).numpy)
        self.device.synchronize()
        self.device.read(work.scratch[arguments[name]][0].handle, array)
        return array


class BoundLaunch(functools.partial[None]):
    """The function that `Kernel.bind` returns. Calling it takes hardly longer than calling the wrapped function.

    `scratch(name)` is what a scratch array of the kernel holds when all work on the device is done."""

    scratch: Callable[[str], np.ndarray[Any, Any]]

    def __reduce__(self) -> NoReturn:
        raise RequestError(
            "a bound launch cannot be pickled: it holds the addresses of its arrays in this process; pickle the Kernel "
            "and the arrays, and bind them where they are unpickled"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _reload(
    kernel: str | Mapping[str, Any],
    sizes: Mapping[str, int],
    options: Mapping[str, float],
    types: Mapping[str, str],
    device_name: str,
    candidate: Candidate,
    builds: Mapping[str, Build],
) -> Kernel:
    """Load a pickled Kernel again. `kernel` is its name or file; the launch form of one that was made in Python.

    Raises RequestError if the kernel, the device or the configuration no longer exists, and the errors of Kernel.
    """
    space = catalog.load(kernel) if isinstance(kernel, str) else launch_form.from_json(kernel)
    device = devices.shared(devices.for_space(space, device_name))
    types = chosen_types.parse(types, space.operation)
    scope = space.operation.scope(sizes, options, device.language, device.limits, types)
    return Kernel(checked(space, candidate.config, scope), device, candidate, builds)
