"""Whom an export is for: a device of this machine, one that the store knows, or an architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner import devices, paths
from tuner.errors import RequestError
from tuner.space import operation, source
from tuner.space.model import Limits, Scope, Space
from tuner.store.lookup import MATCHES, Asked, Found, normalised
from tuner.store.store import Store


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
class TargetDevice:
    """What the store knows a device by, and its limits."""

    name: str
    kind: str
    architecture: str
    limits: Limits


@dataclass(frozen=True)
class Target:
    """A problem on a device, with all that is known to be valid there, best first; the last is the default."""

    problem: Problem
    device: TargetDevice
    scope: Scope
    candidates: tuple[Found, ...]

    @property
    def found(self) -> Found:
        return self.candidates[0]


def of(problem: Problem, device: TargetDevice) -> Target:
    """The look-up for one device. Raises NoConfiguration where nothing is valid."""
    space = problem.space
    scope = Scope(problem.sizes, problem.options, devices.BACKENDS[device.kind].language, device.limits)
    asked = Asked(space, scope, device.name, device.kind, device.architecture, source.signature(space))
    return Target(problem, device, scope, tuple(Store(space.name, problem.results).candidates(asked)))


def of_architecture(kind: str, architecture: str, name: str = "") -> TargetDevice:
    """A device that is not here, with the limits that its architecture tells."""
    return TargetDevice(name, kind, architecture, devices.BACKENDS[kind].limits_of(architecture))


def stored(problem: Problem) -> list[TargetDevice]:
    """The devices that the store has records of, in languages that the kernel is written in."""
    kinds = devices.kinds_of(problem.space)
    records = Store(problem.space.name, problem.results).records
    names = dict.fromkeys((r.kind, r.architecture, r.device) for r in records if r.kind in kinds)
    return [of_architecture(*name) for name in names]


def choose(problem: Problem, name: str | None, kinds: Sequence[str] = devices.KINDS) -> Target:
    """The target that `name` means: a device of this machine (`cuda:0`), or part of the name of one in the store.

    Without a name it is the first device of this machine, or else the one in the store whose record fits the size best,
    for the first of `kinds` that speaks the kernel's language and has either. Raises RequestError, saying what there
    is, for anything else.
    """
    if name is None:
        spoken = [kind for kind in devices.kinds_of(problem.space) if kind in kinds]
        for kind in spoken:
            if devices.count(kind):
                return of(problem, at_hand(f"{kind}:0"))
            targets = [of(problem, device) for device in stored(problem) if device.kind == kind]
            if targets:
                return min(targets, key=lambda target: MATCHES.index(target.found.match))
        raise RequestError(
            f"{problem.space.name}: neither this machine nor the store has a device of kind {' or '.join(spoken)}; "
            "export where there is one, or merge its records; a bundle takes --architecture instead"
        )
    if devices.is_name(name):
        return of(problem, at_hand(devices.for_space(problem.space, name)))
    return of(problem, _only(problem, name))


def named(problem: Problem, name: str) -> list[TargetDevice]:
    """The devices in the store whose name is `name`, or else contains it. Raises RequestError where there is none."""
    all_stored = stored(problem)
    same = [d for d in all_stored if name.casefold() == d.name.casefold() or normalised(name) == normalised(d.name)]
    matches = same or [d for d in all_stored if name.casefold() in d.name.casefold()]
    if not matches:
        names = ", ".join(dict.fromkeys(d.name for d in all_stored)) or "none"
        raise RequestError(
            f"--device {paths.shown(name)}: neither a device of this machine ({', '.join(devices.KINDS)}) nor one that "
            f"the store has records of; those are: {names}"
        )
    return matches


def _only(problem: Problem, name: str) -> TargetDevice:
    matches = named(problem, name)
    exact = [d for d in matches if d.name == name] or matches
    if len(exact) > 1:
        raise RequestError(
            f"--device {paths.shown(name)} could be {', '.join(f'{d.name} ({d.kind})' for d in exact)}; write more"
        )
    return exact[0]


def at_hand(name: str) -> TargetDevice:
    """A device of this machine. Raises DeviceError."""
    device = devices.open_device(name)
    try:
        return TargetDevice(device.name, device.kind, device.architecture, device.limits)
    finally:
        device.close()
