"""The handle of a family: called with arrays of any size, it runs the kernel that was loaded for them."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from tuner.devices import Device
from tuner.devices.arguments import wrong_count
from tuner.devices.forking import ForkLock
from tuner.errors import ArgumentError, DeviceError, MisalignedArray, NoConfiguration, TrialError
from tuner.families import problem
from tuner.families.explanations import Explanation, explained
from tuner.families.family import Family
from tuner.families.places import Places
from tuner.families.vendor import LibraryKernel, Substitute
from tuner.launch.kernel import Kernel

MOST_ALIGNED = 1 << 30  # bytes; no kernel requires as much
MOST_KERNELS = 1024  # loaded kernels per handle; beyond that, the handle drops all
Result = TypeVar("Result")
Loaded = Kernel | LibraryKernel
Reload = Callable[[tuple[Any, ...]], None]  # with the arrays of a call


class Loading(Protocol):
    """What looks up and loads the kernels of a handle.

    family: the kernels to choose from.
    fixed: the device of all calls; None if each call runs on the device of its arrays.
    """

    family: Family
    fixed: Device | None

    def load(
        self, arrays: tuple[Any, ...], place: int | str, alignment: int, reload: Reload, wait: bool = False
    ) -> Loaded:
        """The fastest of what is valid for these arrays, built and loaded.

        `place` is where the arrays are, and `alignment` the known one of their addresses in bytes. Unless it is to
        `wait` for the kernel's build, the library may serve until then; `reload` is called once it is built.

        Raises NoConfiguration if no kernel is valid, and the errors of building and loading.
        """

    def shortest_ms(self, arrays: tuple[Any, ...], place: int | str) -> float | None:
        """The time that the fastest choice for these arrays probably takes, without the launch overhead; None if
        nothing is known about that."""

    def with_sizes(self, sizes: Mapping[str, int]) -> Loading:
        """A copy with these values for sizes that no array shape determines. It shares the tables of measured times."""


class Dispatcher:
    """A family of kernels, called with arrays of any size.

    The first call at a size looks up and loads a kernel; later calls reuse it. Threads may share a Dispatcher.
    """

    def __init__(self, loader: Loading) -> None:
        self._loader, self.family = loader, loader.family
        op = self.family.operation
        # Only these arrays are read to find a call's problem; the launched kernel checks everything else.
        self._sized, self._typed = problem.sized_arrays(op), problem.typed_arrays(op)
        self._places = Places(None if loader.fixed is None else loader.fixed.id)
        self._loaded: dict[tuple[Any, ...], Loaded] = {}
        self._readers: dict[type, problem.Reader] = {}  # by the type of the first array
        self._lock = ForkLock()

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        """Enqueue the fastest kernel for the size of these arrays, as `Kernel.__call__` does.

        Raises the errors of `Kernel.__call__`, and, at the first call with a size, those of building and loading.
        """
        try:
            kernel = self._loaded[self._readers[arrays[0].__class__](arrays)]
        except (KeyError, IndexError, AttributeError, TypeError):
            kernel = self._kernel_for(arrays)
        try:
            if stream is None and not options:  # passing these costs a quarter of the dispatch overhead
                kernel(*arrays)
            else:
                kernel(*arrays, stream=stream, **options)
        except MisalignedArray as error:  # nothing was enqueued
            self._with_aligned_kernel(arrays, lambda other: other(*arrays, stream=stream, **options), error.alignment)

    def kernel(self, *arrays: Any) -> Loaded:
        """The kernel that a call with these arrays launches. Raises ArgumentError if no sizes match their shapes."""

        def checked(kernel: Loaded) -> Loaded:
            try:
                kernel.check(*arrays)
            except MisalignedArray:
                raise
            except ArgumentError:
                pass  # the call raises it
            return kernel

        best = self._kernel_for(arrays)
        try:
            return self._with_aligned_kernel(arrays, checked)
        except MisalignedArray:
            return best

    def _with_aligned_kernel(
        self, arrays: tuple[Any, ...], action: Callable[[Loaded], Result], alignment: int = MOST_ALIGNED
    ) -> Result:
        """The result of `action` for the fastest kernel that accepts the addresses of these arrays.

        `alignment` is the known alignment of the addresses in bytes. If `action` raises MisalignedArray, it is repeated
        with a kernel that needs less alignment. Raises MisalignedArray if there is none.
        """
        kernel = self._kernel_for(arrays, alignment)
        while True:
            try:
                return action(kernel)
            except MisalignedArray as error:
                if error.alignment >= alignment or (other := self._kernel_for(arrays, error.alignment)) is kernel:
                    raise
                kernel, alignment = other, error.alignment

    def _kernel_for(self, arrays: tuple[Any, ...], alignment: int = MOST_ALIGNED) -> Loaded:
        """The fastest kernel for the size of these arrays, cached.

        If `alignment` is given, in bytes, only kernels that need no larger alignment are considered, if there are any.
        """
        key, place = self._key(arrays)
        if alignment < MOST_ALIGNED:
            key = (*key, alignment)
        kernel = self._loaded.get(key)
        if kernel is not None:
            return kernel
        with self._lock:
            kernel = self._loaded.get(key)
            if kernel is None:
                try:
                    with _uncollected():
                        reload = functools.partial(self._reload, alignment=alignment)
                        kernel = self._loader.load(arrays, place, alignment, reload)
                except (NoConfiguration, TrialError, DeviceError):
                    if alignment >= MOST_ALIGNED:
                        raise
                    kernel = self._kernel_for(arrays)  # its call raises the error
                if len(self._loaded) >= MOST_KERNELS:
                    self._loaded.clear()
                self._loaded[key] = kernel
        return kernel

    @property
    def device(self) -> Device | None:
        """The device that the caller of `dispatch` chose for all calls; None if each call runs on the device of its
        arrays. On OpenCL, create the arrays on `device.queue`."""
        return self._loader.fixed

    def build(self, *arrays: Any) -> None:
        """Build and load the kernel for these arrays now, if the library serves in its place while it is built."""
        if isinstance(self._kernel_for(arrays), Substitute):
            self._reload(arrays, wait=True)

    def shortest_ms(self, *arrays: Any) -> float | None:
        """The time that the fastest choice for these arrays probably takes, without the launch overhead; None if
        nothing is known about that."""
        return self._loader.shortest_ms(arrays, self._key(arrays)[1])

    def _reload(self, arrays: tuple[Any, ...], alignment: int = MOST_ALIGNED, wait: bool = False) -> None:
        """Load the kernel again that serves these arrays, because its build has ended or must be waited for."""
        key, place = self._key(arrays)
        if alignment < MOST_ALIGNED:
            key = (*key, alignment)
        with self._lock:
            reload = functools.partial(self._reload, alignment=alignment)
            self._loaded[key] = self._loader.load(arrays, place, alignment, reload, wait)

    def with_sizes(self, sizes: Mapping[str, int]) -> Dispatcher:
        """A copy with these values for sizes that no array shape determines. It shares the tables of measured times."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._loader, other._loaded = self._loader.with_sizes(sizes), {}
        return other

    def explain(self, *arrays: Any) -> Explanation:
        """What a call with these arrays runs, and why."""
        self._kernel_for(arrays)  # called here so that its warnings name the caller's line
        return explained(self.kernel(*arrays))

    def __repr__(self) -> str:
        return f"<{self.family.name}: {len(self.family.spaces)} kernels, {len(self._loaded)} loaded>"

    def _key(self, arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], int | str]:
        op = self.family.operation
        if len(arrays) != len(op.arrays):
            raise wrong_count(op.arrays, arrays)
        shapes = [problem.shape_of(array) for array in arrays]
        for argument, array, shape in zip(op.arrays, arrays, shapes, strict=True):
            if shape is None:
                raise ArgumentError(f"{argument.name}: of type {type(array).__name__}; pass an array")
        kind = type(arrays[0])
        place = self._places[kind](arrays[0])
        if kind not in self._readers:
            has_shape = hasattr(arrays[0], "shape")
            self._readers[kind] = problem.reader(self._sized, self._typed, self._places[kind], has_shape)
        types = [getattr(arrays[at], "dtype", None) or problem.dtype_name(arrays[at]) for at in self._typed]
        return (place, *shapes[: self._sized], *types), place


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """A block without garbage collection. The objects that a first call creates remain in use, and a collection takes
    0.1 s in a program that has imported torch."""
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
