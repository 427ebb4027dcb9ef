"""Look up, build (cached), launch. Imports neither Kernel Tuner, Optuna nor, where a space has a launch form, pydantic
and YAML."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.devices import Device, build_cache
from tuner.errors import DeviceError, RequestError, TrialError
from tuner.kernel import Kernel, settled
from tuner.space import catalog, operation
from tuner.space.model import Scope, Space, Value, config_text
from tuner.store.lookup import Asked, Found
from tuner.store.store import Store


def load(
    kernel: str | Path,
    size: str | int | Mapping[str, int],
    *,
    device: str | Device | None = None,
    config: Mapping[str, Value] | None = None,
    options: Mapping[str, float] | None = None,
    strict: bool = False,
    results: str | Path | None = None,
    binaries: str | Path | None = None,
) -> Kernel:
    """The best known configuration of `kernel` at `size`, compiled and loaded.

    `kernel` is a name from `tune list`, a unique part of one, or the path of a YAML file; `size` is written as for
    `tune`: 4096, "4096x2048x1024", {"M": 100, "N": 37, "K": 53}. `device` is a name such as "cuda:1" or an open
    device; the first that speaks the kernel's language if omitted, and for one name other than cuda the same device
    each time, so that kernels share its arrays. `config` is used instead of a look-up; `strict` refuses any match but
    an exact one. `options` are those of the operation, such as alpha, that hold where a launch names no others.
    `binaries` is a folder that `tune export --to cubin` wrote: its configuration is taken before all others, and its
    cubin needs no compiler. The match of either is "default". What does not run here is passed over for the next best,
    with a warning.

    Raises RequestError for a request that cannot be met, DeviceError where there is no such device, or neither build
    nor compiler, and, where nothing runs, the TrialError of what should have been the best.
    """
    if not isinstance(kernel, str | Path) or not (device is None or isinstance(device, str | Device)):
        raise RequestError(f"load({kernel!r}, device={device!r}): a kernel and a device are given by name")
    _check_types(folders={"results": results, "binaries": binaries}, mappings={"config": config, "options": options})
    if config is not None and strict:
        raise RequestError("load(config=..., strict=True): what is given is not looked up; leave one of them out")
    space = catalog.load(str(kernel))
    sizes = operation.parse_size(size, space.operation)
    settings = operation.parse_options(options or {}, space.operation)
    opened = device if isinstance(device, Device) else devices.shared(devices.for_space(space, device))
    devices.for_space(space, opened.id)  # it must speak a language of the kernel
    scope = Scope(sizes, settings, opened.language, opened.limits)
    exported = _exported(Path(binaries), space, opened) if binaries else []
    if config is not None:
        candidates = [Found(space.checked(config, scope), "default")]
    else:
        store = Store(space.name, Path(results) if results else None)
        candidates = store.candidates(Asked.of(space, scope, opened))
        if strict:
            candidates = [one for one in candidates if _is_of_this(one, settings, settled(space))]
        else:
            candidates[:0] = [Found(one.config, "default") for one in exported if _is_valid(one, space, scope)]
    if not candidates:
        raise RequestError(f"{space.name}: no exact record at this size on {opened.name}; tune it, or drop strict=True")
    return _first_that_runs(space, scope, opened, candidates, {one.source: one.binary for one in exported})


def _check_types(folders: Mapping[str, Any], mappings: Mapping[str, Any]) -> None:
    for name, folder in folders.items():
        if not (folder is None or (isinstance(folder, str | Path) and "\0" not in str(folder))):
            raise RequestError(f"load({name}={folder!r}): write the path of a folder")
    for name, given in mappings.items():
        if not (given is None or isinstance(given, Mapping)):
            raise RequestError(f"load({name}={given!r}): write names with values, as {{'alpha': 2.0}}")


def _is_of_this(found: Found, settings: Mapping[str, float], names: Iterable[str]) -> bool:
    """Whether it was measured at this size, on this device, of this kernel, with these settings."""
    options = found.record.options if found.record else {}
    return found.match == "exact" and not found.stale and all(options.get(n) == settings[n] for n in names)


def _is_valid(exported: build_cache.ExportedBuild, space: Space, scope: Scope) -> bool:
    """Whether what was exported may be launched at this size; a warning where not."""
    if space.valid(exported.config, scope):
        return True
    warnings.warn(f"{space.name}: {config_text(exported.config)}, which was exported, is not valid here", stacklevel=3)
    return False


def _exported(folder: Path, space: Space, device: Device) -> list[build_cache.ExportedBuild]:
    """What was exported for this device's architecture; a warning where there is nothing."""
    found = build_cache.exported(folder, space.name)
    here = [one for one in found if one.architecture == device.architecture]
    if not here:
        there = ", ".join(sorted({one.architecture for one in found})) or "nothing"
        warnings.warn(f"{folder}: holds {there}; {device.id} is {device.architecture}", stacklevel=3)
    return here


def _first_that_runs(
    space: Space, scope: Scope, device: Device, candidates: Sequence[Found], binaries: Mapping[str, bytes]
) -> Kernel:
    """The first of `candidates` that builds and loads. Raises what is wrong with the very first where none does."""
    failures: list[TrialError | DeviceError] = []
    for found in candidates:
        try:
            kernel = Kernel(space, scope, device, found, binaries)
        except (TrialError, DeviceError) as error:
            failures.append(error)
            continue
        for note in found.notes:
            warnings.warn(note, stacklevel=3)
        if failures:
            why = str(failures[0]).partition("\n")[0]
            warnings.warn(f"{kernel!r}: taken because what should be better does not run here: {why}", stacklevel=3)
        return kernel
    first = failures[0]
    text = f"{space.name}, {config_text(candidates[0].config)}, on {device.id}: {first}"
    raise (DeviceError(text) if isinstance(first, DeviceError) else type(first)(text, first.reason)) from first


def find(space: Space, scope: Scope, device: Device, results: Path | None = None) -> Found:
    """The look-up for an open device. Its notes tell of lines that cannot be read, and of a stale record."""
    return Store(space.name, results).look_up(Asked.of(space, scope, device))
