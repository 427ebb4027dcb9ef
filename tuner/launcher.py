"""Look up, build (cached), launch. Imports neither Kernel Tuner, Optuna nor, where a space has a launch form, pydantic
and YAML."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner import catalog, devices, operation, source
from tuner.devices import Device, builds
from tuner.errors import DeviceError, RequestError, TrialError
from tuner.kernel import Kernel
from tuner.space import Scope, Space, Value
from tuner.store import Found, Store


def load(
    kernel: str,
    size: str | int | Mapping[str, int],
    *,
    device: str | Device | None = None,
    config: Mapping[str, Value] | None = None,
    strict: bool = False,
    results: str | Path | None = None,
    binaries: str | Path | None = None,
) -> Kernel:
    """The best known configuration of `kernel` at `size`, compiled and loaded.

    `kernel` is a name from `tune list`, a unique part of one, or the path of a YAML file; `size` is written as for
    `tune`: 4096, "4096x2048x1024", {"M": 100, "N": 37, "K": 53}. `device` is a name such as "cuda:1" or an open
    device; the first that speaks the kernel's language if omitted. `config` is used instead of a look-up (its match is
    then "default"); `strict` refuses any match but an exact one. `binaries` is a folder that `tune export --to cubin`
    wrote: its configuration is taken before all others, and its cubin needs no compiler. One that does not run here is
    passed over for the next best, with a warning. Raises RequestError for a request that cannot be met.
    """
    if not isinstance(kernel, str | Path) or not (device is None or isinstance(device, str | Device)):
        raise RequestError(f"load({kernel!r}, device={device!r}): a kernel and a device are given by name")
    space = catalog.load(str(kernel))
    sizes = operation.parse_size(size, space.operation)
    options = operation.parse_options({}, space.operation)
    opened = device if isinstance(device, Device) else devices.open(devices.for_space(space, device))
    devices.for_space(space, opened.id)  # it must speak a language of the kernel
    scope = Scope(sizes, options, opened.language, opened.limits)
    exported = builds.exported(Path(binaries), opened.architecture) if binaries else []
    if config is not None:
        candidates = [Found(space.checked(config, scope), "default")]
    else:
        store, signature = Store(space.name, Path(results) if results else None), source.signature(space)
        candidates = store.candidates(space, scope, opened.name, opened.kind, opened.architecture, signature)
        if strict:
            candidates = [one for one in candidates if one.match == "exact" and not one.stale]
        else:
            candidates[:0] = [Found(one.config, "default") for one in exported if space.valid(one.config, scope)]
    if not candidates:
        raise RequestError(f"{space.name}: no exact record at this size on {opened.name}; tune it, or drop strict=True")
    return _first_that_runs(space, scope, opened, candidates, {one.source: one.binary for one in exported})


def _first_that_runs(
    space: Space, scope: Scope, device: Device, candidates: Sequence[Found], binaries: Mapping[str, bytes]
) -> Kernel:
    """The first of `candidates` that builds and loads. Raises what is wrong with the very first where none does."""
    for note in candidates[0].notes:
        warnings.warn(note, stacklevel=3)
    failures: list[TrialError | DeviceError] = []
    for found in candidates:
        try:
            kernel = Kernel(space, scope, device, found, binaries)
        except (TrialError, DeviceError) as error:
            failures.append(error)
            continue
        if failures:
            why = str(failures[0]).partition("\n")[0]
            warnings.warn(f"{kernel!r}: taken because what should be better does not run here: {why}", stacklevel=3)
        return kernel
    raise failures[0]


def find(space: Space, scope: Scope, device: Device, results: Path | None = None) -> Found:
    """The look-up for an open device. Its notes tell of lines that cannot be read, and of a stale record."""
    signature = source.signature(space)
    return Store(space.name, results).look_up(space, scope, device.name, device.kind, device.architecture, signature)
