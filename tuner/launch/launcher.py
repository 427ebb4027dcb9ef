"""Look up, build, launch: `load` looks up the best configuration and builds it; the Kernel launches it.

Imports neither Kernel Tuner nor Optuna; where a space has a launch form, neither pydantic nor YAML.
"""

import functools
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tuner import devices
from tuner.catalog import catalog, kernel_names
from tuner.devices import Build, Device, bundles
from tuner.devices.bundles import ExportedBuild
from tuner.errors import DeviceError, RequestError, TrialError
from tuner.launch.kernel import Kernel
from tuner.quoting import quoted
from tuner.space.chosen import Chosen
from tuner.space.config import Value
from tuner.space.instance import Instance, checked
from tuner.space.model import Space
from tuner.space.operation import Size
from tuner.space.scope import Scope
from tuner.space.texts import config_text, options_texts, problem_text
from tuner.store import missed
from tuner.store.lookup import Candidate, Query
from tuner.store.store import Store

T = TypeVar("T")
logger = logging.getLogger(__name__)


def load(
    kernel: str | Path,
    size: Size | None = None,
    *,
    device: str | Device | None = None,
    config: Mapping[str, Value] | None = None,
    options: Mapping[str, float] | None = None,
    types: Mapping[str, str] | None = None,
    strict: bool = False,
    results: str | Path | None = None,
    binaries: str | Path | None = None,
) -> Kernel:
    """The best known configuration of `kernel` at `size`, built and loaded on a device.

    `kernel` is a name from `tune list`, a unique part of one, or the path of a YAML file. `size` is written as for
    `tune`: 4096, "4096x2048x1024"; or (4096, 2048, 1024), {"M": 100, "N": 37, "K": 53}; it may be left out where the
    operation gives every size. `device` is a name such as
    "cuda:1", or an open device; if omitted, the first that speaks the kernel's language. Kernels loaded by one name
    other than cuda's share one open device, and so its arrays. `config` replaces the look-up. `strict` refuses all
    but an exact match. `options` are the operation's, such as alpha; a launch may override them. `types` are those
    of a kernel that has a choice, as in {"real": "float16"}. `results` is a folder of records, instead of the
    user's own. `binaries` is a folder that `tune export --to cubin` wrote: its configuration precedes all others,
    and its cubin needs no compiler. The match of `config` and of `binaries` is "default". A configuration that does
    not run here is passed over for the next best, with a warning. A look-up without an exact match is noted for
    `tune missed` (`store.missed`).

    Raises RequestError for a request that cannot be met. Raises DeviceError where there is no such device, or neither
    a build nor a compiler. Where no configuration runs, raises the TrialError of the best one.
    """
    if not isinstance(kernel, str | Path) or not (device is None or isinstance(device, str | Device)):
        raise RequestError(
            f"load({quoted(kernel)}, device={quoted(device)}): write a kernel's name or path, and a device's name"
        )
    _check_types(
        folders={"results": results, "binaries": binaries},
        mappings={"config": config, "options": options, "types": types},
    )
    if config is not None and strict:
        raise RequestError("load(config=..., strict=True): a given configuration is not looked up; leave out one")
    space = catalog.load(str(kernel))
    chosen = Chosen.parse(space.operation, size, options, types)
    opened = device if isinstance(device, Device) else devices.shared(devices.for_space(space, device))
    devices.for_space(space, opened.id)  # raises where an open device speaks no language of the kernel
    scope = chosen.scope(opened.language, opened.limits)
    builds = _bundled_builds(Path(binaries), space, opened) if binaries else []
    if config is not None:
        instance = checked(space, config, scope)
        instances = [(instance, Candidate(instance.config, "default"))]
    else:
        folder, query = Path(results) if results else None, Query.of(space, scope, opened)
        candidates = _look_up(Store.of(space, folder), query, strict, builds)
        if not builds and not (candidates and candidates[0].is_exact):
            where = kernel_names.address(space)
            if missed.note(where, chosen.sizes, opened, chosen.options, chosen.types, folder):
                candidates = _look_up(Store.of(space, folder), query, strict, builds)
        if not candidates:
            raise RequestError(_inexact(query, Store.of(space, folder).look_up(query)))
        instances = [(Instance(space, candidate.config, scope), candidate) for candidate in candidates]
    exported = _by_source(builds)
    choices = ((space.name, c, functools.partial(Kernel, v, opened, c, exported)) for v, c in instances)
    loaded: Kernel | None = first_that_builds(choices, opened, stacklevel=3)
    assert loaded is not None  # there is at least one
    return loaded


def _by_source(builds: Sequence[ExportedBuild]) -> dict[str, Build]:
    return {b.source: Build(b.binary, entries=b.entries) for build in builds for b in build.binaries}


def find(space: Space, scope: Scope, device: Device, results: Path | None = None) -> Candidate:
    """The look-up alone. Its notes report lines that cannot be read, and a stale record."""
    return Store.of(space, results).look_up(Query.of(space, scope, device))


def _check_types(folders: Mapping[str, Any], mappings: Mapping[str, Any]) -> None:
    for name, folder in folders.items():
        if not (folder is None or (isinstance(folder, str | Path) and "\0" not in str(folder))):
            raise RequestError(f"load({name}={quoted(folder)}): write the path of a folder")
    for name, mapping in mappings.items():
        if not (mapping is None or isinstance(mapping, Mapping)):
            raise RequestError(f"load({name}={quoted(mapping)}): write names with values, as {{'alpha': 2.0}}")


def _bundled_builds(folder: Path, space: Space, device: Device) -> list[ExportedBuild]:
    """The exported builds for this device's architecture; a warning where there is none."""
    builds = bundles.read(folder, space.name)
    usable = [build for build in builds if build.architecture == device.architecture]
    if not usable:
        architectures = ", ".join(sorted({build.architecture for build in builds})) or "nothing"
        warnings.warn(f"{folder}: holds {architectures}; {device.id} is {device.architecture}", stacklevel=3)
    return usable


def _look_up(store: Store, query: Query, strict: bool, builds: Sequence[ExportedBuild]) -> list[Candidate]:
    """What may be launched, best first: exported configurations, then the store's. If `strict`, exact matches alone."""
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
            warnings.warn(f"{query.space.name}: {config}, which was exported, is not valid here", stacklevel=3)
    return [*defaults, *candidates]


def _inexact(query: Query, best: Candidate) -> str:
    """The message where there is no exact record. It names what `best`, taken without `strict`, was measured for."""
    space, scope, record = query.space, query.scope, best.record
    others = scope.options if record is None else record.options
    set_here, set_there = options_texts(scope.options, others, space.operation.options)
    why = ""
    if record is not None and best.match == "exact":
        why = "; the record is of an earlier version of the kernel"
    elif record is not None:
        at = f"{problem_text(record.sizes, record.types)}{set_there}"
        why = f"; the best known was measured on {record.device} at {at}"
    here = f"{problem_text(scope.sizes, scope.types)}{set_here}"
    return f"{space.name}: no exact record at {here} on {query.device}{why}; tune it, or drop strict=True"


def first_that_builds(
    choices: Iterable[tuple[str, Candidate, Callable[[], T]]], device: Device, stacklevel: int
) -> T | None:
    """What the first of `choices` that builds and loads gives: each has a kernel's name, a candidate, and a function
    that builds it, or gives None where that is not there. None where there is nothing to try.

    Its notes are warnings, and so is why a better one was passed over. Raises the error of the very first where none
    builds.
    """
    failure: TrialError | DeviceError | None = None
    for name, candidate, build in choices:
        where = f"{name}, {config_text(candidate.config)}, on {device.id}"
        try:
            kernel = build()
        except (TrialError, DeviceError) as error:
            failure = failure or _placed(error, where)
            continue
        if kernel is None:
            continue
        logger.debug("%s: match %s", where, candidate.match)
        for note in candidate.notes:
            warnings.warn(note, stacklevel=stacklevel)
        if failure is not None:
            reason = str(failure).partition("\n")[0]
            warnings.warn(f"{kernel!r}: taken because a better one does not run here: {reason}", stacklevel=stacklevel)
        return kernel
    if failure is not None:
        raise failure
    return None


def _placed(error: TrialError | DeviceError, where: str) -> TrialError | DeviceError:
    """The same error, which says where it is from."""
    text = f"{where}: {error}"
    placed = DeviceError(text) if isinstance(error, DeviceError) else type(error)(text, error.reason)
    placed.__cause__ = error
    return placed
