"""`tuner.load`: look up the best configuration, build it and load it.

It does not import Kernel Tuner or Optuna. It does not import pydantic or YAML either if it finds the launch form of the
space: its parsed content, which is shipped or cached as JSON.
"""

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog, kernel_names
from tuner.devices import Build, Device, DeviceInfo, forking
from tuner.devices.builds import bundles
from tuner.devices.builds.bundles import ExportedBuild
from tuner.errors import RequestError
from tuner.launch import frozen
from tuner.launch.kernel import Kernel
from tuner.launch.preference import first_that_builds
from tuner.quoting import quoted
from tuner.space import deployments
from tuner.space.chosen import Chosen
from tuner.space.config import Value
from tuner.space.deployments import ISOLATED
from tuner.space.instance import Instance, checked
from tuner.space.model import Space
from tuner.space.parsing import Size
from tuner.space.python.space import PythonSpace
from tuner.space.scope import Scope
from tuner.space.texts import config_text, options_texts, problem_text
from tuner.store import missed, same_bits
from tuner.store.lookup import Candidate, Query
from tuner.store.store import Store


def load(
    kernel: str | Path | PythonSpace | Space,
    size: Size | None = None,
    *,
    device: str | Device | None = None,
    config: Mapping[str, Value] | None = None,
    options: Mapping[str, float] | None = None,
    types: Mapping[str, str] | None = None,
    strict: bool = False,
    same_bits_as: str | Mapping[str, Value] | None = None,
    as_: str | None = None,
    results: str | Path | None = None,
    binaries: str | Path | None = None,
) -> Kernel:
    """Build and load the best known configuration of `kernel` at `size`.

    If the best configuration does not run on this machine, the next best is loaded, with a warning. A look-up without
    an exact record is listed by `tune missed`. Nothing is tuned, except in a `tuner.warm_up` block.

    Args:
        kernel: A name from `tune list`, a unique part of one, the path of a space file, or a `tuner.Space`.
        size: The problem size, as for `tune`: 4096, "4096x2048x1024", (4096, 2048, 1024) or
            {"M": 100, "N": 37, "K": 53}. Not needed if the operation has a default for every size.
        device: A name such as "cuda:1", or an open device. Default: the first device that runs the kernel's language.
            Kernels loaded on one OpenCL device share its context, and thus its arrays.
        config: The configuration to load, by parameter name, instead of a look-up. `Kernel.match` is then "default".
        options: Values for the operation's options, such as {"alpha": 2.0}. Each launch can override them. Default:
            those of the space file.
        types: Data types for a kernel that offers several, such as {"real": "float16"}. Default: the first type
            that it offers for each name.
        strict: Load only an exact record, which is neither stale nor known to be wrong.
        same_bits_as: Load only a configuration whose outputs have the same bits as those of "default", of "record", or
            of a configuration, according to a record of this problem, device and toolchain. Without such a record, the
            default or the configuration itself is loaded. See "Equal bits" in docs/comparison.md.
        as_: How the program launches the kernel, as for `tune --as`: "isolated", "graph", "stream", "eager" or "cold".
            The result of tuning for this is preferred, and only that is an exact record. Default: "isolated".
        results: A folder of records, instead of the user's. The records that ship with tuner are read too.
        binaries: A folder written by `tune export --to cubin`. Its configuration is tried first, and needs no
            compiler. If it is loaded, `Kernel.match` is "default".

    Raises RequestError for an invalid request, if `strict` finds no exact record, and if there is no record whose bits
    `same_bits_as` asks for. Raises DeviceError if the device does not exist, or if there is neither a build nor a
    compiler. Raises the TrialError of the best configuration if none runs.

    Example::

        import numpy as np

        import tuner

        kernel = tuner.load("sgemm/01_host_blocked", 64)  # a kernel in C, which runs on the host
        A, B = np.random.default_rng(1).random((2, 1, 64, 64), dtype=np.float32)  # [batch, M, K], [batch, K, N]
        C = np.empty((1, 64, 64), dtype=np.float32)
        kernel(C, A, B)
        assert np.allclose(C, A @ B, rtol=1e-4)
    """
    _check_kinds(
        kernel,
        device,
        folders={"results": results, "binaries": binaries},
        mappings={"config": config, "options": options, "types": types},
    )
    deployment = deployments.of_program("load", as_)
    _check_together(config is not None, strict, binaries is not None, same_bits_as, as_)
    space = _space(kernel)
    chosen = Chosen.parse(space.operation, size, options, types)
    opened = device if isinstance(device, Device) else devices.shared(devices.for_space(space, device))
    forking.check(opened.kind)
    devices.for_space(space, opened.id)  # raises if an open device does not run the kernel's language
    scope = chosen.scope(opened.language, opened.limits)
    builds = _bundled_builds(Path(binaries), space, opened) if binaries else []
    given = {"same_bits_as": same_bits_as, "as_": as_}
    more = {name: value for name, value in given.items() if value is not None}
    look_up = frozen.LookUp("load", space.name, opened, scope, more)
    if config is not None:
        instance = checked(space, config, scope)
        instances = [(instance, Candidate(instance.config, "default"))]
    elif (choice := frozen.choice(look_up)) is not None:
        instances = [(choice.instance(space), choice.candidate)]
    else:
        query = replace(Query.of(space, scope, opened), deployment=deployment)
        folder = Path(results) if results else None
        if same_bits_as is not None:
            candidates = _alike(query, opened, same_bits_as, folder, strict)
        else:
            candidates = _known(query, chosen, opened, builds, folder, strict)
        instances = [(Instance(space, candidate.config, scope), candidate) for candidate in candidates]
    exported = _by_source(builds)
    choices = ((space.name, c, functools.partial(Kernel, v, opened, c, exported)) for v, c in instances)
    loaded: Kernel | None = first_that_builds(choices, opened, stacklevel=3)
    assert loaded is not None  # `choices` is not empty, so the result is a kernel
    if config is None:
        frozen.note(look_up, space, loaded.candidate)
    return loaded


def _space(kernel: str | Path | PythonSpace | Space) -> Space:
    if isinstance(kernel, PythonSpace):
        return kernel.model
    return kernel if isinstance(kernel, Space) else catalog.load(str(kernel))


def _by_source(builds: Sequence[ExportedBuild]) -> dict[str, Build]:
    """The binaries of exported builds, by the digests of their sources."""
    return {b.source: Build(b.binary, entries=b.entries, needs=b.needs) for build in builds for b in build.binaries}


def find(space: Space, scope: Scope, device: Device | DeviceInfo, results: Path | None = None) -> Candidate:
    """The best candidate for a problem, without building it. Its notes report unreadable lines and a stale record."""
    return Store.of(space, results).look_up(Query.of(space, scope, device))


def _check_kinds(kernel: object, device: object, folders: Mapping[str, object], mappings: Mapping[str, object]) -> None:
    """Raise RequestError for an argument of `load` that is of another kind than it takes."""
    if not isinstance(kernel, str | Path | PythonSpace | Space) or not (
        device is None or isinstance(device, str | Device)
    ):
        raise RequestError(
            f"load({quoted(kernel)}, device={quoted(device)}): write a kernel's name, its path or a tuner.Space, and a "
            "device's name"
        )
    for name, folder in folders.items():
        if not (folder is None or (isinstance(folder, str | Path) and "\0" not in str(folder))):
            raise RequestError(f"load({name}={quoted(folder)}): write the path of a folder")
    for name, mapping in mappings.items():
        if not (mapping is None or isinstance(mapping, Mapping)):
            raise RequestError(f"load({name}={quoted(mapping)}): write names with values, as {{'alpha': 2.0}}")


def _check_together(has_config: bool, strict: bool, has_binaries: bool, same_bits_as: object, as_: str | None) -> None:
    """Raise RequestError for arguments of `load` that exclude each other."""
    if has_config and strict:
        raise RequestError("load(config=..., strict=True): `config` replaces the look-up; drop one of the two")
    for name, given in (("same_bits_as", same_bits_as), ("as_", as_)):
        if given is not None and (has_config or has_binaries):
            raise RequestError(f"load({name}=...): `config` and `binaries` replace the look-up; drop one of the two")
    if same_bits_as is not None and as_ not in (None, ISOLATED):
        raise RequestError(
            "load(same_bits_as=..., as_=...): bits are known only of isolated launches; drop one of the two"
        )


def _bundled_builds(folder: Path, space: Space, device: Device) -> list[ExportedBuild]:
    """The exported builds for this device's architecture. Warns if there is none."""
    builds = bundles.read(folder, space.name)
    usable = [build for build in builds if build.architecture == device.architecture]
    if not usable:
        architectures = ", ".join(sorted({build.architecture for build in builds})) or "nothing"
        warnings.warn(
            f"{folder}: has builds for {architectures}; {device.id} is {device.architecture}, so they are not used",
            stacklevel=3,
        )
    return usable


def _alike(
    query: Query, device: Device, same_bits_as: str | Mapping[str, Value], folder: Path | None, strict: bool
) -> Sequence[Candidate]:
    """Candidates whose outputs have the same bits as `same_bits_as`, best first. `folder` is that of `load(results=)`.

    Raises RequestError if there is none, and if `strict` and there is no record of them.
    """
    toolchain = device.toolchain_of(query.space.compiler_of(device.language))
    found = same_bits.candidates(Store.of(query.space, folder).records, query, toolchain, same_bits_as)
    if strict and found[0].record is None:
        raise RequestError(_no_exact_record(query, found[0]))
    return found


def _known(
    query: Query, chosen: Chosen, device: Device, builds: Sequence[ExportedBuild], folder: Path | None, strict: bool
) -> Sequence[Candidate]:
    """Candidates of the look-up, best first: exported ones, then the store's. `folder` is that of `load(results=)`.

    A look-up without an exact record is noted for `tune missed`; in a `tuner.warm_up` block that tunes, and what it has
    found counts. Raises RequestError if `strict` and there is no exact record.
    """
    space = query.space
    candidates = _look_up(Store.of(space, folder), query, strict, builds)
    is_usual = not builds and space.files and query.deployment == ISOLATED
    if is_usual and not (candidates and candidates[0].is_exact):
        address = kernel_names.address(space)
        if missed.note(address, chosen.sizes, device, chosen.options, chosen.types, folder):
            candidates = _look_up(Store.of(space, folder), query, strict, builds)
    if not candidates:
        raise RequestError(_no_exact_record(query, Store.of(space, folder).look_up(query)))
    return candidates


def _look_up(store: Store, query: Query, strict: bool, builds: Sequence[ExportedBuild]) -> list[Candidate]:
    """Candidates for a launch, best first: exported configurations, then the store's. If `strict`, only exact ones."""
    candidates = store.candidates(query)
    if strict:
        wrong = [candidate.notes[-1] for candidate in candidates if candidate.match == "exact" and candidate.rejected]
        exact = [candidate for candidate in candidates if candidate.is_exact]
        if wrong and not exact:
            raise RequestError(wrong[0])
        return exact
    defaults = []
    for build in builds:
        if query.space.valid(build.config, query.scope):
            defaults.append(Candidate(build.config, "default"))
        else:
            config = config_text(build.config)
            warnings.warn(
                f"{query.space.name}: {config}: this exported configuration is not valid for this problem; skipped",
                stacklevel=4,
            )
    return [*defaults, *candidates]


def _no_exact_record(query: Query, best: Candidate) -> str:
    """The error message if there is no exact record. It says where `best`, found without `strict`, was measured."""
    space, scope, record = query.space, query.scope, best.record
    others = scope.options if record is None else record.options
    options, record_options = options_texts(scope.options, others, space.operation.options)
    why = ""
    if record is not None and best.match == "exact":
        why = "; the record is of an earlier version of the kernel"
    elif record is not None and not record.is_of_deployment(query.deployment):
        why = f"; the best known was not measured as {query.deployment!r}"
    elif record is not None:
        measured = f"{problem_text(record.sizes, record.types)}{record_options}"
        conditions = f" with {best.conditions}" if best.conditions else ""
        why = f"; the best known was measured on {record.device} at {measured}{conditions}"
    problem = f"{problem_text(scope.sizes, scope.types)}{options}"
    return f"{space.name}: no exact record at {problem} on {query.device}{why}; tune it, or drop strict=True"
