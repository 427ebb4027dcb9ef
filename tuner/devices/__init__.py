"""The devices on which kernels are built, loaded, launched and timed.

    cuda     an NVIDIA GPU, through NVRTC and the CUDA driver
    opencl   any OpenCL device, through pyopencl; with PoCL, a CPU too
    host     this machine's CPU, through a C compiler and OpenMP

A device's name is its kind and number: `opencl:1`. A kind alone, `cuda`, names the first device of that kind.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.devices import forking
from tuner.devices.backend import Backend
from tuner.devices.base import Device, Library
from tuner.devices.builds.build import Build
from tuner.devices.builds.compiler import Compiler
from tuner.devices.forking import ForkLock
from tuner.devices.info import DeviceInfo
from tuner.errors import DeviceError, SpaceError
from tuner.languages import KINDS, LANGUAGES
from tuner.paths import relative_to_cwd
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.space.scope import Limits
    from tuner.space.sources.source import Source

__all__ = [
    "BACKENDS", "KINDS", "Build", "Device", "DeviceInfo", "Library", "available", "cached_builds", "common_limits",
    "compiler_for", "compiler_modules", "count", "count_ahead", "elsewhere", "for_space", "forkable_packages",
    "is_name", "kinds_of", "open_apart", "open_device", "several", "shared", "split",
]  # fmt: skip

BACKENDS: Mapping[str, Backend] = {kind: importlib.import_module(f"tuner.devices.{kind}").BACKEND for kind in KINDS}


def is_name(text: str) -> bool:
    """Whether `text` has the form of this machine's device names. A store may use other names."""
    return text.partition(":")[0] in BACKENDS


def split(name: str) -> tuple[str, int]:
    """Split a device's name into kind and number (0 if omitted). Raises DeviceError for any other text."""
    kind, colon, number = name.partition(":")
    if kind not in BACKENDS or (colon and not (number.isdecimal() and len(number) < 5)):
        raise DeviceError(
            f"device {quoted(name)}: there is no such device; write one of {', '.join(KINDS)}, or one with its number, "
            f"such as {KINDS[0]}:0"
        )
    return kind, int(number or 0)


def forkable_packages(name: str) -> Sequence[str] | None:
    """The packages and modules that drive this device, to import before a fork. None for a GPU: a package that accesses
    GPUs must not be imported before a fork."""
    backend = BACKENDS[split(name)[0]]
    return (*backend.modules, f"{__name__}.{backend.kind}.device") if backend.may_be_processor else None


def compiler_modules(name: str, space: Space) -> Sequence[str]:
    """The modules with which a space is compiled for this device that may be imported before a fork."""
    return BACKENDS[split(name)[0]].compiler_modules(space)


def open_device(name: str) -> Device:
    """Open the device `name`. Raises DeviceError if the device or its software is missing."""
    kind, number = split(name)
    backend = BACKENDS[kind]
    if not backend.is_installed:
        if (lacking := backend.lacks()) is not None:
            raise DeviceError(f"device {quoted(name)}: {lacking}; use --device opencl or host")
        raise DeviceError(f"device {quoted(name)}: {backend.package} is not installed; {_installation([backend])}")
    return backend.open(number)


def open_apart(name: str) -> Device:
    """The device `name`, opened first of all in a process that times it: threads of a processor stay apart. Raises
    DeviceError."""
    backend = BACKENDS[split(name)[0]]
    if backend.is_installed:
        backend.start_apart()
    return open_device(name)


def shared(name: str) -> Device:
    """The device `name`, opened once per process so that kernels can share arrays. A device that follows the current
    context is opened on each call. Raises DeviceError."""
    kind, number = split(name)
    if BACKENDS[kind].follows_context:
        return open_device(name)
    name = f"{kind}:{number}"  # `opencl` is `opencl:0`
    with _shared_lock:
        if name not in _shared_devices:
            _shared_devices[name] = open_device(name)
        forking.check(kind)
        return _shared_devices[name]


_shared_devices: dict[str, Device] = {}
_shared_lock = ForkLock()


def compiler_for(kind: str, architecture: str) -> Compiler:
    """The compiler for an architecture. Opens no device; raises DeviceError for a kind that compiles on an open
    device."""
    factory = BACKENDS[kind].compiler
    if factory is None:
        raise DeviceError(f"{kind}: compiling needs an open device of this kind")
    return factory(architecture)


def cached_builds(device: DeviceInfo) -> Callable[[Source], Build | None]:
    """The builds for a device that the cache has, by source; none if this machine cannot compile for it."""
    try:
        compiler = compiler_for(device.kind, device.architecture)
    except DeviceError:
        return lambda source: None
    return functools.cache(compiler.cached)


def count(kind: str) -> int:
    """The number of devices of a kind on this machine; 0 if their software is missing."""
    return BACKENDS[kind].count() if BACKENDS[kind].is_installed else 0


def count_ahead(space: Space, names: str | None) -> None:
    """Begin to count the GPUs among which `several` will choose, in a thread, as a driver takes a while to start."""
    kind = kinds_of(space)[0] if names in (None, "all") else names.partition(":")[0]
    if kind in BACKENDS and not BACKENDS[kind].may_be_processor:
        threading.Thread(target=_count_quietly, args=(kind,)).start()  # no daemon: the process must not end meanwhile


def _count_quietly(kind: str) -> None:
    with contextlib.suppress(DeviceError):  # whoever chooses a device meets the same error, and reports it
        count(kind)


def available() -> list[str]:
    """The names of all devices on this machine."""
    return [f"{kind}:{number}" for kind in KINDS for number in range(count(kind))]


def kinds_of(space: Space) -> list[str]:
    """The kinds of device that compile a language of `space`."""
    return [kind for kind, backend in BACKENDS.items() if backend.language in space.languages]


def common_limits() -> list[Limits]:
    """The limits of the common architectures, for use when no device is present."""
    return [backend.limits_of(name) for backend in BACKENDS.values() for name in backend.common if name]


def for_space(space: Space, name: str | None) -> str:
    """The name of the device for `space`: `name`, or the first device that compiles a language of the space. Raises
    DeviceError if there is none, or if `name` does not compile one of its languages."""
    chosen = _named(space, name)
    _check_present(space, name or chosen)
    return chosen


def _named(space: Space, name: str | None) -> str:
    """The same, of a device that this machine may lack."""
    kinds = kinds_of(space)
    if name is None:
        name = next((f"{kind}:0" for kind in kinds if count(kind)), None)
        if name is None:
            raise DeviceError(
                f"{space.name} runs on {' or '.join(kinds)}, which this machine does not have; {_remedy(kinds)}see "
                f"`tune devices`{_portable(space, KINDS) or _without_device(space)}"
            )
    kind, number = split(name)
    if kind not in kinds:
        raise DeviceError(
            f"device {quoted(name)}: {space.name} is written in {_and(space.written_in)}: it runs on {_and(kinds)}, "
            f"not on {kind}{_portable(space, [kind]) or _without_device(space)}"
        )
    return f"{kind}:{number}"


def _check_present(space: Space, name: str) -> None:
    """Raise DeviceError if this machine lacks what devices of this kind need, other than a Python package."""
    kind, _ = split(name)
    if (lacking := BACKENDS[kind].lacks()) is None:
        return
    kinds = kinds_of(space)
    others = " or ".join(other for other in kinds if count(other) and other != kind)  # a wrong TUNER_CUDA raises
    advice = f"; use --device {others}" if others else _without_device(space)
    alone = f"; {space.name} runs on {_and(kinds)} alone: see `tune devices`"
    raise DeviceError(f"device {quoted(name)}: {lacking}{advice or alone}")


def _without_device(space: Space) -> str:
    """The end of a message: what can be done without a GPU with the user's own kernel in CUDA alone; else empty."""
    if not _is_own(space) or not _is_cuda_alone(space) or count("cuda"):
        return ""
    command = f"`tune validate {shown(relative_to_cwd(space.files[0]))} SIZE --compile --answers`"
    title = LANGUAGES["cuda"].title if space.python_language is None else space.python_language.title
    only = f"the source of {space.name} is {title}, for NVIDIA GPUs alone"
    return f"; {only}: {command} compiles it and computes its answers without a GPU; tune it on a machine with one"


def _is_cuda_alone(space: Space) -> bool:
    """Whether a space runs on CUDA alone, and its source has words that portable.h does not replace."""
    from tuner.space.sources import source_text  # only error messages need it

    if [*space.languages] != ["cuda"]:
        return False
    if space.python_language is not None:
        return True
    try:
        return any(re.search(r"__global__|__device__", source_text.of(space, path)) for path in space.sources)
    except SpaceError:
        return False


def _is_own(space: Space) -> bool:
    """Whether a space is of a file that is not shipped."""
    from tuner.catalog import kernel_names  # only error messages need it

    return bool(space.files) and not kernel_names.is_shipped(Path(os.path.realpath(space.files[0])))


def _portable(space: Space, kinds: Iterable[str]) -> str:
    """The end of a message: the user's own kernel may also run on one of `kinds`. Empty for other kernels."""
    suffixes = {suffix for language in space.languages for suffix in LANGUAGES[language].suffixes}
    others = [kind for kind in kinds if suffixes & {*LANGUAGES[BACKENDS[kind].language].suffixes} and count(kind)]
    is_own = _is_own(space) and not _is_cuda_alone(space)
    return f"; a source that includes portable.h may run on {_and(others)}, too" if is_own and others else ""


def _remedy(kinds: Sequence[str]) -> str:
    """How to get a device of these kinds, followed by ", or "; empty if nothing can be installed."""
    backends = [BACKENDS[kind] for kind in kinds]
    missing = [backend for backend in backends if not backend.is_installed and not backend.lacks()]
    remedies = [backend.remedy for backend in backends if backend.remedy]
    if missing and not remedies:
        remedies = [_installation(missing)]
    return "".join(f"{remedy}, or " for remedy in remedies)


def _installation(missing: Sequence[Backend]) -> str:
    """How to install the packages of backends: as extras, which have the names of the kinds, or alone."""
    extras, packages = ",".join(each.kind for each in missing), " ".join(str(each.package) for each in missing)
    return f"pip install -e '.[{extras}]' in the checkout, or pip install {packages}"


def several(space: Space, names: str | None) -> list[str]:
    """The names of the devices for `space`: those in `names`, separated by commas; for `all`, every device of the first
    kind on this machine; for None, the first device. Raises DeviceError."""
    if names == "all":
        kind, _ = split(for_space(space, None))
        return [f"{kind}:{number}" for number in range(count(kind))]
    if names is None:
        return [for_space(space, None)]
    devices = [_named(space, name.strip()) for name in names.split(",")]
    duplicate = next((name for name in devices if devices.count(name) > 1), None)
    if duplicate:
        raise DeviceError(f"device {quoted(names)}: {duplicate} is listed twice; write it once")
    kinds = {split(name)[0] for name in devices}
    if len(kinds) > 1:
        raise DeviceError(
            f"device {quoted(names)}: devices of different kinds ({_and(sorted(kinds))}) do not share a study; tune on "
            "each kind separately"
        )
    _check_present(space, names.partition(",")[0].strip())
    return devices


def elsewhere(space: Space, names: str | None) -> list[str]:
    """The kinds of device, or devices, that machines of a cluster may use for `space`: those in `names`, separated by
    commas; for None and `all`, each kind that compiles a language of the space. Raises DeviceError."""
    kinds = kinds_of(space)
    if names in (None, "all"):
        return kinds
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if split(name)[0] not in kinds:
            raise DeviceError(
                f"device {quoted(name)}: {space.name} is written in {_and(space.written_in)}: it runs on {_and(kinds)}"
            )
    return asked


def _and(words: Sequence[str]) -> str:
    return " and ".join(words)
