"""Whom an export is for: a device of this machine, one that the store knows, or an architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner import devices, paths
from tuner.errors import RequestError
from tuner.space import operation, source
from tuner.space.model import Limits, Scope, Space
from tuner.store.lookup import MATCHES, Found, normalised
from tuner.store.store import Record, Store

# Bytes of shared memory that a block may ask for: CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability".
_SHARED_KIB = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227}
_SHARED_KIB |= {120: 99, 121: 99}


@dataclass(frozen=True)
class Problem:
    """A kernel at a size."""

    space: Space
    sizes: Mapping[str, int]
    options: Mapping[str, float]
    results: Path | None = None

    @staticmethod
    def parse(space: Space, size: str, options: Mapping[str, float], results: Path | None = None) -> Problem:
        """Raises RequestError for a size or an option that the kernel does not have."""
        sizes = operation.parse_size(size, space.operation)
        return Problem(space, sizes, operation.parse_options(options, space.operation), results)


@dataclass(frozen=True)
class Identity:
    """What the store knows a device by, and its limits."""

    device: str
    kind: str
    architecture: str
    limits: Limits


@dataclass(frozen=True)
class Target:
    """A problem on a device, with all that is known to be valid there, best first; the last is the default."""

    problem: Problem
    device: Identity
    scope: Scope
    candidates: tuple[Found, ...]

    @property
    def found(self) -> Found:
        return self.candidates[0]


def of(problem: Problem, device: Identity) -> Target:
    """The look-up for one device. Raises NoConfiguration where nothing is valid."""
    space = problem.space
    scope = Scope(problem.sizes, problem.options, devices.LANGUAGES[device.kind], device.limits)
    asked = (space, scope, device.device, device.kind, device.architecture, source.signature(space))
    return Target(problem, device, scope, tuple(Store(space.name, problem.results).candidates(*asked)))


def known(problem: Problem) -> list[Identity]:
    """The devices that the store has records of, in languages that the kernel is written in."""
    spoken = [kind for kind, language in devices.LANGUAGES.items() if language in problem.space.languages]
    records = Store(problem.space.name, problem.results).records
    found = dict.fromkeys((r.device, r.kind, r.architecture) for r in records if r.kind in spoken)
    return [Identity(*names, limits_of(*names[1:])) for names in found]


def one(problem: Problem, name: str | None, kinds: tuple[str, ...] = devices.KINDS) -> Target:
    """The target that `name` means: a device of this machine (`cuda:0`), or part of the name of one in the store.

    Without a name it is the first device of this machine, or else the one in the store whose record fits the size best,
    for the first of `kinds` that speaks the kernel's language and has either. Raises RequestError, saying what there
    is, for anything else.
    """
    if name is None:
        spoken = [kind for kind in kinds if devices.LANGUAGES[kind] in problem.space.languages]
        for kind in spoken:
            if devices.count(kind):
                return of(problem, opened(f"{kind}:0"))
            stored = [of(problem, device) for device in known(problem) if device.kind == kind]
            if stored:
                return min(stored, key=lambda target: MATCHES.index(target.found.match))
        raise RequestError(
            f"{problem.space.name}: neither this machine nor the store has a device of kind {' or '.join(spoken)}; "
            "export where there is one, or merge its records; a bundle takes --architecture instead"
        )
    if name.partition(":")[0] in devices.KINDS:
        return of(problem, opened(devices.for_space(problem.space, name)))
    return of(problem, _named(problem, name))


def named(problem: Problem, name: str) -> list[Identity]:
    """The devices in the store whose name is `name`, or else contains it. Raises RequestError where there is none."""
    stored = known(problem)
    same = [d for d in stored if name.casefold() == d.device.casefold() or normalised(name) == normalised(d.device)]
    found = same or [d for d in stored if name.casefold() in d.device.casefold()]
    if not found:
        names = ", ".join(dict.fromkeys(d.device for d in stored)) or "none"
        raise RequestError(
            f"--device {paths.shown(name)}: neither a device of this machine ({', '.join(devices.KINDS)}) nor one that "
            f"the store has records of; those are: {names}"
        )
    return found


def _named(problem: Problem, name: str) -> Identity:
    found = named(problem, name)
    exact = [d for d in found if d.device == name] or found
    if len(exact) > 1:
        raise RequestError(
            f"--device {paths.shown(name)} could be {', '.join(f'{d.device} ({d.kind})' for d in exact)}; write more"
        )
    return exact[0]


def opened(name: str) -> Identity:
    """A device of this machine. Raises DeviceError."""
    device = devices.open(name)
    try:
        return Identity(device.name, device.kind, device.architecture, device.limits)
    finally:
        device.close()


def limits_of(kind: str, architecture: str) -> Limits:
    """What is known of a device that is not here: of a GPU, what its compute capability says."""
    capability = compute_capability(architecture) if kind == "cuda" else None
    if capability is None:
        return Limits()
    shared = _SHARED_KIB.get(10 * capability[0] + capability[1], 48) * 1024
    return Limits(max_shared_memory=shared, compute_capability=capability[0] + capability[1] / 10)


def widest(kind: str, architecture: str) -> Limits:
    """The most that a device may allow of which no more is known: what is not valid there is valid nowhere."""
    if kind != "cuda":
        # Intel's CPUs run 8192 work-items a group; local memory may be plain memory.
        most = (2**31 - 1,) * 3
        return Limits(max_threads=8192, max_shared_memory=1 << 30, max_block=most, max_grid=most)
    if compute_capability(architecture) is not None:
        return limits_of(kind, architecture)
    newest = max(_SHARED_KIB)
    return Limits(max_shared_memory=max(_SHARED_KIB.values()) * 1024, compute_capability=newest / 10)


def possible(space: Space, record: Record) -> bool:
    """Whether the configuration of a record may be valid on some device."""
    language = devices.LANGUAGES.get(record.kind, "")
    if language not in space.languages or record.sizes.keys() != space.operation.sizes.keys():
        return False
    options = {**space.operation.options, **record.options}
    scope = Scope(record.sizes, options, language, widest(record.kind, record.architecture))
    return space.valid(record.config, scope)


def compute_capability(architecture: str) -> tuple[int, int] | None:
    """(9, 0) of sm_90a; None for what is no such name."""
    found = re.fullmatch(r"sm_(\d{1,2})(\d)[af]?", architecture)
    return (int(found[1]), int(found[2])) if found else None
