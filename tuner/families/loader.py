"""`tuner.dispatch`: a family of kernels as one handle, and the loader that chooses and loads what runs at a size."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.catalog import kernel_names
from tuner.devices import Device, forking
from tuner.errors import ArgumentError, DeviceError, NoConfiguration, RequestError
from tuner.families import beside, beside_worker, problem, products, vendor
from tuner.families.bundles import Binaries
from tuner.families.choice import Choice, FamilyTable
from tuner.families.dispatcher import MOST_ALIGNED, Dispatcher, Loaded, Loading, Reload
from tuner.families.family import Family, Kernels, check_no_images, find
from tuner.families.first_call import FirstCall
from tuner.families.places import device_name
from tuner.families.vendor import LibraryKernel, Substitute
from tuner.launch import frozen
from tuner.launch.kernel import Kernel
from tuner.launch.preference import first_that_builds
from tuner.quoting import quoted, shown
from tuner.space import deployments, parsing
from tuner.space.default import is_any_valid
from tuner.space.deployments import ISOLATED, Deployment
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import config_text, size_text, types_text
from tuner.store import missed
from tuner.store.lookup import Candidate


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
            candidate. See docs/comparison.md.
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
    loader = Loader(
        find(kernels), device, library and not one_class, sizes or {}, options or {},
        Path(results) if results else None, Path(binaries) if binaries else None, wait,
        one_class=one_class, deployment=deployment,
    )  # fmt: skip
    return Dispatcher(loader)


class Loader(Loading):
    """The look-ups of a family: by problem, the fastest of its kernels and of the library."""

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
        self._exported = Binaries.read(binaries) if binaries else Binaries()
        self._exported.check_kernels(family.name, family.spaces)
        self._results = results or self._exported.records
        self.fixed = None if device is None else self._open_device(device)
        self._devices: dict[str, Device] = {}
        self._tables: dict[tuple[str, str], FamilyTable] = {}

    def with_sizes(self, sizes: Mapping[str, int]) -> Loader:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._given = {**self._given, **sizes}
        return other

    def shortest_ms(self, arrays: tuple[Any, ...], place: int | str) -> float | None:
        types = problem.types_of(self.family.operation, arrays)
        return self._table(self._device_of(place), types).shortest_ms(self._sizes_of(arrays))

    def load(
        self, arrays: tuple[Any, ...], place: int | str, alignment: int, reload: Reload, wait: bool = False
    ) -> Loaded:
        op = self.family.operation
        sizes = self._sizes_of(arrays)
        types = problem.types_of(op, arrays)
        if min(sizes.values(), default=1) < 1:
            raise ArgumentError(
                f"arrays of {size_text(sizes)}: each size must be at least 1; skip the call for empty arrays"
            )
        parsing.parse_size(sizes, op, types)
        device = self._device_of(place)
        look_up = self._look_up(device, self._scope(device, types, sizes), alignment)
        if (frozen_choice := frozen.choice(look_up)) is not None:
            return self._frozen(frozen_choice)
        if self._library and (device.id, types_text(types)) not in self._tables:
            products.ask_ahead(self.family.spaces[0], self._scope(device, types, sizes), device)
        table, wait = self._table(device, types), wait or self._wait
        choices, scope = self._choices(table, sizes, wait), table.scope(sizes)
        best = next(choices, None)
        if best is not None and not self._exported.builds and self._missed(best, table, scope, arrays):
            self._tables.clear()  # this size has just been tuned
            table = self._table(device, types)
            choices = table.choices(sizes)
        elif best is not None:
            choices = itertools.chain([best], choices)
        for note in table.notes:
            warnings.warn(note, stacklevel=4)
        fitting = (each for each in choices if each.space is None or each.space.most_aligned <= alignment)
        best = next(fitting, None)
        if best is not None and not wait and (library := self._substitute(best, table, reload)) is not None:
            frozen.note(look_up, best.space, best.candidate)  # what runs as soon as it is built
            return library
        ways = (
            (choice.name, choice.candidate, functools.partial(self._build, choice, scope, table.device))
            for choice in itertools.chain([] if best is None else [best], fitting)
        )
        kernel: Loaded | None = first_that_builds(ways, table.device, stacklevel=5)
        if kernel is None:
            raise NoConfiguration(f"{self.family.name}: no kernel is valid at {size_text(sizes)} on {table.device.id}")
        kernel.besides = table.passed_over(sizes)
        frozen.note(look_up, _space_of(kernel), kernel.candidate)
        return kernel

    def _choices(self, table: FamilyTable, sizes: Mapping[str, int], wait: bool) -> Iterator[Choice]:
        """What may run at these sizes, best first.

        A time model that lacks many measured times is trained again: now if `wait`, else by a process beside this one.
        """
        choices = table.choices(sizes)
        best = [*itertools.islice(choices, 1)]  # finds the model
        if not table.is_outdated or self._exported.builds:
            return itertools.chain(best, choices)
        if wait:
            table.train()
            return table.choices(sizes)
        training = beside.request(beside_worker.training(table.spaces, table.scope(sizes), table.device, self._results))
        if training.is_done and training.failure:
            label = f"{self.family.name} on {table.device.id}"
            warnings.warn(f"{label}: no time model could be trained: {training.failure}", stacklevel=5)
        return itertools.chain(best, choices)

    def _sizes_of(self, arrays: tuple[Any, ...]) -> dict[str, int]:
        """The sizes of the problem of these arrays. Raises ArgumentError if no sizes match their shapes."""
        return problem.sizes_of(self.family.operation, [problem.shape_of(array) or () for array in arrays], self._given)

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
            kernel = None if instance is None else self._loaded(instance, look_up.device, candidate)
        if kernel is None:
            raise choice.missing()
        kernel.because = f"as frozen in {shown(choice.file)}"
        frozen.note(look_up, _space_of(kernel), candidate)
        return kernel

    def _substitute(self, best: Choice, table: FamilyTable, reload: Reload) -> LibraryKernel | None:
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
        library.substitutes(work, reload)
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
        return self._loaded(choice.instance, device, choice.candidate)

    def _loaded(self, instance: Instance, device: Device, candidate: Candidate) -> Loaded | None:
        """A configuration, loaded; None if it is an algorithm of the library, which is not installed."""
        if instance.space.is_of_library:
            return vendor.load(instance.space, instance.problem, device, candidate)
        return Kernel(instance, device, candidate, self._exported.builds)

    def _table(self, device: Device, types: Mapping[str, str]) -> FamilyTable:
        """What is known of the family on a device, for arrays of these types."""
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

    def _device_of(self, place: int | str) -> Device:
        """The device of a call whose arrays are at `place`. Raises DeviceError if the family does not run on it."""
        if self.fixed is not None:
            return self.fixed
        name = device_name(place)
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


def _space_of(kernel: Loaded) -> Space | None:
    """The space of which a configuration runs; None if it is the library with an algorithm of its own choice."""
    return kernel.space if isinstance(kernel, Kernel) or kernel.config else None
