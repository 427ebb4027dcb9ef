"""`tuner.dispatch`: one handle for a family of kernels, called with arrays of any size."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tuner import devices
from tuner.catalog import kernel_names
from tuner.devices import Device, forking
from tuner.devices.forking import ForkLock
from tuner.errors import ArgumentError, DeviceError, MisalignedArray, NoConfiguration, RequestError, TrialError
from tuner.families import beside, beside_worker, problem, products, vendor
from tuner.families.bundles import Binaries
from tuner.families.choice import Choice, FamilyTable
from tuner.families.explanations import Explanation, explained
from tuner.families.family import Family, Kernels, check_no_images, find
from tuner.families.first_call import FirstCall
from tuner.families.places import Places, device_name
from tuner.families.vendor import LibraryKernel, Substitute
from tuner.launch import frozen
from tuner.launch.kernel import Kernel
from tuner.launch.launcher import first_that_builds
from tuner.quoting import quoted, shown
from tuner.space import deployments, parsing
from tuner.space.default import is_any_valid
from tuner.space.deployments import ISOLATED, Deployment
from tuner.space.scope import Scope
from tuner.space.texts import config_text, size_text, types_text
from tuner.store import missed
from tuner.store.lookup import Candidate

MOST_KERNELS = 1024  # loaded kernels per handle; beyond that, the handle drops all
MOST_ALIGNED = 1 << 30  # bytes; no kernel requires as much
Loaded = Kernel | LibraryKernel
Result = TypeVar("Result")


def dispatch(
    kernels: Kernels,
    *,
    device: str | Device | None = None,
    library: bool = True,
    sizes: Mapping[str, int] | None = None,
    options: Mapping[str, float] | None = None,
    results: str | Path | None = None,
    binaries: str | Path | None = None,
    wait: bool = False,
    one_class: bool = False,
    as_: str | None = None,
) -> Dispatcher:
    """A callable for a family of kernels, which launches the fastest one for arrays of any size.

    A call infers sizes and types from its arrays. The first call at a size looks up and loads a kernel; later calls
    reuse it. Nothing is tuned, except in a `tuner.warm_up` block. Between measured sizes, a time model chooses; see
    "Between sizes" in docs/dispatch.md for the model and its sources.

    Args:
        kernels: A family such as "sgemm", a folder of space files, a list of kernels, or one kernel.
        device: A name such as "cuda:1", or an open device, for all calls. Default: the device of the arrays; the host
            for NumPy arrays.
        library: Whether the vendor library (cuBLAS) is a candidate at every size, and serves while a kernel is built.
        sizes: Sizes that no array shape determines, by name.
        options: Values for the operation's options, such as {"alpha": 2.0}. Each call can override them.
        results: A folder of records. Default: the user's own records, which take precedence over the shipped ones.
        binaries: A folder of exported builds, which need no compiler. It is a folder written by `tune export --to
            dispatch` or by `tune export --to cubin`, or a folder with several of the latter. The records in a folder of
            `--to dispatch` are used unless `results` is given.
        wait: Whether the first call at a size waits until its kernel is built. Default: if the library is a candidate,
            it serves the calls until then, and another process builds the kernel.
        one_class: Whether to run only configurations whose outputs have the same bits as those of the default. That is
            the default of the family's first kernel that is valid at a size. A record of this problem, device and
            toolchain says which bits are the same; without a record, the default runs. The library is then no
            candidate. See docs/bits.md.
        as_: How the program launches, as for `tune --as`: "isolated", "graph", "stream", "eager" or "cold". At a size
            with a record of tuning for this, its best configuration runs. Default: "isolated".

    Raises RequestError if the family does not exist or an argument is invalid.

    Example::

        import numpy as np

        import tuner

        gemm = tuner.dispatch("sgemm")
        for n in (32, 100):
            A, B = np.random.default_rng(1).random((2, 1, n, n), dtype=np.float32)  # NumPy arrays: runs on the host
            C = np.empty((1, n, n), dtype=np.float32)
            gemm(C, A, B)
            assert np.allclose(C, A @ B, rtol=1e-4)
            print(gemm.explain(C, A, B))
    """
    for name, folder in (("results", results), ("binaries", binaries)):
        if not (folder is None or (isinstance(folder, str | Path) and "\0" not in str(folder))):
            raise RequestError(f"dispatch({name}={quoted(folder)}): write the path of a folder")
    for name, mapping in (("sizes", sizes), ("options", options)):
        if not (mapping is None or isinstance(mapping, Mapping)):
            raise RequestError(f"dispatch({name}={quoted(mapping)}): write names with values, as {{'alpha': 2.0}}")
    if not (device is None or isinstance(device, str | Device)):
        raise RequestError(f"dispatch(device={quoted(device)}): write a device's name")
    deployment = deployments.of_program("dispatch", as_)
    if one_class and deployment != ISOLATED:
        raise RequestError(
            "dispatch(one_class=True, as_=...): bits are known only of isolated launches; drop one of the two"
        )
    return Dispatcher(
        find(kernels), device, library and not one_class, sizes or {}, options or {},
        Path(results) if results else None, Path(binaries) if binaries else None, wait,
        one_class=one_class, deployment=deployment,
    )  # fmt: skip


class Dispatcher:
    """A family of kernels, called with arrays of any size.

    The first call at a size looks up and loads a kernel; later calls reuse it. Threads may share a Dispatcher.
    """

    def __init__(
        self,
        family: Family,
        device: str | Device | None,
        library: bool,
        sizes: Mapping[str, int],
        options: Mapping[str, float],
        results: Path | None,
        binaries: Path | None,
        wait: bool = False,
        first_call: FirstCall | None = None,
        one_class: bool = False,
        deployment: Deployment = ISOLATED,
    ) -> None:
        """See `dispatch`; `first_call` says how a call tunes, if it does.

        Raises RequestError for sizes and options that the family does not have.
        """
        op = family.operation
        check_no_images(family.name, op)
        for name, size in sizes.items():
            if name not in op.sizes or not isinstance(size, int) or size < 1:
                raise RequestError(
                    f"dispatch(sizes={{{name!r}: {quoted(size)}}}): the sizes are {', '.join(op.sizes)}, whole numbers "
                    "from 1 on"
                )
        self.family, self._library, self._given = family, library, dict(sizes)
        self._options, self._wait, self._first_call = dict(options), wait, first_call
        self._one_class, self._deployment = one_class, deployment
        parsing.parse_options(self._options, op)
        # Only these arrays are read to find a call's problem; the launched kernel checks everything else.
        self._sized, self._typed = problem.sized_arrays(op), problem.typed_arrays(op)
        self._exported = Binaries.read(binaries) if binaries else Binaries()
        self._exported.check_kernels(family.name, family.spaces)
        self._results = results or self._exported.records
        self._fixed = None if device is None else self._open_device(device)
        self._devices: dict[str, Device] = {}
        self._tables: dict[tuple[str, str], FamilyTable] = {}
        self._places = Places(None if self._fixed is None else self._fixed.id)
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
                        kernel = self._load(arrays, place, alignment)
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
        return self._fixed

    def build(self, *arrays: Any) -> None:
        """Build and load the kernel for these arrays now, if the library serves in its place while it is built."""
        if isinstance(self._kernel_for(arrays), Substitute):
            self._reload(arrays, wait=True)

    def shortest_ms(self, *arrays: Any) -> float | None:
        """The time that the fastest choice for these arrays probably takes, without the launch overhead; None if
        nothing is known about that."""
        op, (_, place) = self.family.operation, self._key(arrays)
        sizes = problem.sizes_of(op, [problem.shape_of(array) or () for array in arrays], self._given)
        device = self._fixed or self._device_at(device_name(place))
        return self._table(device, problem.types_of(op, arrays)).shortest_ms(sizes)

    def _reload(self, arrays: tuple[Any, ...], alignment: int = MOST_ALIGNED, wait: bool = False) -> None:
        """Load the kernel again that serves these arrays, because its build has ended or must be waited for."""
        key, place = self._key(arrays)
        if alignment < MOST_ALIGNED:
            key = (*key, alignment)
        with self._lock:
            self._loaded[key] = self._load(arrays, place, alignment, wait)

    def with_sizes(self, sizes: Mapping[str, int]) -> Dispatcher:
        """A copy with these values for sizes that no array shape determines. It shares the tables of measured times."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._given, other._loaded = {**self._given, **sizes}, {}
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
            names = ", ".join(a.name for a in op.arrays)
            raise ArgumentError(f"{len(arrays)} arrays given; it takes {len(op.arrays)}: {names}")
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

    def _load(self, arrays: tuple[Any, ...], place: int | str, alignment: int, wait: bool = False) -> Loaded:
        op = self.family.operation
        sizes = problem.sizes_of(op, [problem.shape_of(array) or () for array in arrays], self._given)
        types = problem.types_of(op, arrays)
        if min(sizes.values(), default=1) < 1:
            raise ArgumentError(
                f"arrays of {size_text(sizes)}: each size must be at least 1; skip the call for empty arrays"
            )
        parsing.parse_size(sizes, op, types)
        device = self._fixed or self._device_at(device_name(place))
        look_up = self._look_up(device, self._scope(device, types, sizes), alignment)
        if (frozen_choice := frozen.choice(look_up)) is not None:
            return self._frozen(frozen_choice)
        if self._library and (device.id, types_text(types)) not in self._tables:
            products.ask_ahead(self.family.spaces[0], self._scope(device, types, sizes), device)
        table = self._table(device, types)
        choices, wait = table.choices(sizes), wait or self._wait
        best = [*itertools.islice(choices, 1)]
        scope = table.scope(sizes)
        if table.is_outdated and not self._exported.builds:
            if wait:
                table.train()
                choices = table.choices(sizes)
                best = [*itertools.islice(choices, 1)]
            else:
                training = beside.request(beside_worker.training(table.spaces, scope, device, self._results))
                if training.is_done and training.failure:
                    label = f"{self.family.name} on {device.id}"
                    warnings.warn(f"{label}: no time model could be trained: {training.failure}", stacklevel=4)
        if best and not self._exported.builds and self._missed(best[0], table, scope, arrays):
            self._tables.clear()  # this size has just been tuned
            table = self._table(device, types)
            best, choices = [], table.choices(sizes)
        fitting = (
            choice
            for choice in itertools.chain(best, choices)
            if choice.space is None or choice.space.most_aligned <= alignment
        )
        for note in table.notes:
            warnings.warn(note, stacklevel=4)
        best = [*itertools.islice(fitting, 1)]
        if best and not wait and (library := self._substitute(best[0], table, arrays, alignment)) is not None:
            frozen.note(look_up, best[0].space, best[0].candidate)  # what runs as soon as it is built
            return library
        ways = (
            (choice.name, choice.candidate, functools.partial(self._build, choice, scope, table.device))
            for choice in itertools.chain(best, fitting)
        )
        kernel: Loaded | None = first_that_builds(ways, table.device, stacklevel=5)
        if kernel is None:
            raise NoConfiguration(f"{self.family.name}: no kernel is valid at {size_text(sizes)} on {table.device.id}")
        frozen.note(look_up, kernel.space if isinstance(kernel, Kernel) else None, kernel.candidate)
        return kernel

    def _look_up(self, device: Device, scope: Scope, alignment: int) -> frozen.LookUp:
        """The look-up of a problem, by which a frozen choice is found."""
        more: dict[str, Any] = {} if self._library else {"library": False}
        more |= {"one_class": True} if self._one_class else {}
        more |= {"as_": self._deployment} if self._deployment != ISOLATED else {}
        more |= {"alignment": alignment} if alignment < MOST_ALIGNED else {}
        return frozen.LookUp("dispatch", self.family.name, device, scope, more)

    def _frozen(self, choice: frozen.FrozenChoice) -> Loaded:
        """What was chosen for a problem in another process."""
        look_up, candidate = choice.look_up, choice.candidate
        kernel: Loaded | None
        if choice.kernel == frozen.LIBRARY:
            kernel = vendor.load(self.family.spaces[0], look_up.scope, look_up.device, candidate)
        else:
            space = next((each for each in self.family.spaces if each.name == choice.kernel), None)
            instance = None if space is None else choice.instance(space)
            kernel = None if instance is None else Kernel(instance, look_up.device, candidate, self._exported.builds)
        if kernel is None:
            raise choice.missing()
        kernel.because = f"as frozen in {shown(choice.file)}"
        frozen.note(look_up, kernel.space if isinstance(kernel, Kernel) else None, candidate)
        return kernel

    def _substitute(
        self, best: Choice, table: FamilyTable, arrays: tuple[Any, ...], alignment: int
    ) -> LibraryKernel | None:
        """The library in place of a kernel that must be built first; None if it is built, or there is no library.

        A process beside this one builds the kernel. Warns if that has failed.
        """
        if not self._library or self._exported.builds or best.instance is None or table.is_built(best):
            return None
        scope, device, space = best.instance.problem, table.device, self.family.spaces[0]
        because = f"the library, until {best.name} is built by a process beside this one"
        candidate = Candidate({}, "default")
        library = vendor.load(space, scope, device, candidate, because, Substitute)
        if not isinstance(library, Substitute):
            return None
        work = beside.request(beside_worker.building(best.instance, device))
        if work.is_done and work.failure:
            label = f"{best.name}, {config_text(best.candidate.config)}, on {device.id}"
            warnings.warn(f"{label}: could not be built, so the library runs: {work.failure}", stacklevel=5)
            return vendor.load(space, scope, device, candidate, f"the library, because {best.name} could not be built")
        if work.is_done:  # the build went to another cache, or was deleted
            return None
        library.substitutes(work, functools.partial(self._reload, alignment=alignment))
        return library

    def _missed(self, best: Choice, table: FamilyTable, scope: Scope, arrays: tuple[Any, ...]) -> bool:
        """Note a miss if `best` is not an exact match. Returns whether to look up again (see `missed.note`).

        A family that other processes can find is noted as one miss; otherwise each kernel that is valid at this size is
        noted. Arrays of the wrong shape or type are not noted: the launch reports the error.
        """
        if best.candidate.is_exact or not problem.fits(self.family.operation, arrays, scope):
            return False
        if self._first_call is not None:
            is_tuned = functools.partial(self._is_tuned, table.device, scope)
            self._first_call.tune(self.family.spaces[0], scope, table.device, self._results, is_tuned)
            return True
        if self.family.address is not None:
            places = [self.family.address]
        else:
            places = [kernel_names.address(space) for space in table.spaces if is_any_valid(space, scope)]
        noted = [
            missed.note(place, scope.sizes, table.device, scope.options, scope.types, self._results) for place in places
        ]
        return any(noted)

    def _is_tuned(self, device: Device, scope: Scope) -> bool:
        """Whether the store has an exact record by now."""
        self._tables.clear()
        choice = next(iter(self._table(device, scope.types).choices(scope.sizes)), None)
        return choice is not None and choice.candidate.is_exact

    def _build(self, choice: Choice, scope: Scope, device: Device) -> Loaded | None:
        if choice.instance is None:
            return vendor.load(self.family.spaces[0], scope, device, choice.candidate)
        return Kernel(choice.instance, device, choice.candidate, self._exported.builds)

    def _table(self, device: Device, types: Mapping[str, str]) -> FamilyTable:
        forking.check(device.kind)
        op, key = self.family.operation, (device.id, types_text(types))
        if key not in self._tables:
            scope = self._scope(device, types, dict.fromkeys(op.sizes, 1))
            self._exported.check(device)
            self._tables[key] = FamilyTable(
                self.family.spaces, device, scope, self._library, self._results, self._exported, self._one_class,
                self._deployment,
            )  # fmt: skip
        return self._tables[key]

    def _scope(self, device: Device, types: Mapping[str, str], sizes: Mapping[str, int]) -> Scope:
        """A problem of the family on a device."""
        op = self.family.operation
        options = parsing.parse_options(self._options, op, types)
        return op.scope(sizes, options, device.language, device.limits, types)

    def _device_at(self, name: str) -> Device:
        if name not in self._devices:
            self._devices[name] = self._open_device(name, of_arrays=True)
        return self._devices[name]

    def _open_device(self, device: str | Device, of_arrays: bool = False) -> Device:
        """Open `device`; `of_arrays` means that it is the device of a call's arrays, not one that the caller chose.

        Raises DeviceError if no kernel of the family runs on it.
        """
        kind = device.kind if isinstance(device, Device) else devices.split(device)[0]
        if not any(kind in devices.kinds_of(space) for space in self.family.spaces):
            kinds = dict.fromkeys(kind for space in self.family.spaces for kind in devices.kinds_of(space))
            hint = ", the device of these arrays; create them on a supported device, and pass device=NAME" * of_arrays
            raise DeviceError(f"family {self.family.name} runs on {' and '.join(kinds)}, not on {kind}{hint}")
        return device if isinstance(device, Device) else devices.shared(device)


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
