"""The target of an export: a problem on a device of this machine, a device in the store, or an architecture."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from tuner import devices
from tuner.classes import dataclass
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.devices.cuda.architectures import is_architecture
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space import chosen_types, parsing
from tuner.space.chosen import Chosen
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope
from tuner.space.sources.rendering import Version
from tuner.space.texts import full_problem_text, options_text, problem_text, short_size
from tuner.store import time_tables
from tuner.store.board_names import chip, names_vendor, normalised
from tuner.store.lookup import MATCHES, Candidate, Query
from tuner.store.store import Store

CUBINS = next((kind for kind, backend in devices.BACKENDS.items() if backend.binaries == ".cubin"), "")  # of devices
MOST_SIZES = 8  # that a message names


@dataclass(frozen=True)
class Problem:
    """A kernel at a size, with its options and the chosen types. `results` is the user's store (None: the default
    folder)."""

    space: Space
    sizes: Mapping[str, int]
    options: Mapping[str, float]
    types: Mapping[str, str] = field(default_factory=dict)
    results: Path | None = None

    @staticmethod
    def parse(
        space: Space,
        size: str | None,
        options: Mapping[str, float],
        types: Mapping[str, str] | None = None,
        results: Path | None = None,
    ) -> Problem:
        """The problem that the user describes. Raises RequestError for a size, option or type that the kernel does not
        have, and for a missing one: the message names sizes that were measured, if there are any."""
        if size is None:
            _check_defaults(space, results)
        chosen = Chosen.parse(space.operation, size, options, types)
        return Problem(space, chosen.sizes, chosen.options, chosen.types, results)

    @staticmethod
    def sizeless(space: Space, options: Mapping[str, float], types: Mapping[str, str], results: Path | None) -> Problem:
        """The problem without sizes, for formats that serve any size. Raises RequestError as `parse` does."""
        chosen = chosen_types.parse(types, space.operation)
        return Problem(space, {}, parsing.parse_options(options, space.operation, chosen), chosen, results)

    @property
    def text(self) -> str:
        """`M=4096, N=4096, real=float16, alpha=2`: sizes, types, and options that are not at their defaults."""
        return full_problem_text(self.sizes, self.types, self.options, self.space.operation.options)

    @property
    def code_text(self) -> str:
        """`text`, plus every option that is compiled into the code: exported code does not show the defaults."""
        op, fixed = self.space.operation, self.space.fixed_options
        defaults = {name: value for name, value in op.options.items() if name not in fixed}
        return problem_text(self.sizes, self.types) + options_text(self.options, defaults)

    @property
    def file_name(self) -> str:
        """The stem of the names of files about this problem: `axpy-4096-float16-alpha=2`."""
        stem, types = self.space.name.rpartition("/")[2], self.types.values()
        options = options_text(self.options, self.space.operation.options).split(", ")[1:]
        return "-".join([stem, short_size(self.sizes), *types, *options])

    def scope(self, language: str, limits: Limits) -> Scope:
        """The problem on a device."""
        return self.space.operation.scope(self.sizes, self.options, language, limits, self.types)


def _check_defaults(space: Space, results: Path | None) -> None:
    """Raise RequestError if a size has no default and the store knows some, newest first."""
    if None not in space.operation.sizes.values():
        return
    newest = sorted(Store.of(space, results).records, key=lambda record: record.date, reverse=True)
    known = list(dict.fromkeys(short_size(record.sizes) for record in newest))
    if known:
        more = f" and {len(known) - MOST_SIZES} more" * (len(known) > MOST_SIZES)
        measured = ", ".join(known[:MOST_SIZES]) + more
        raise RequestError(f"SIZE is missing: {space.name} was measured at {measured}; write a size")


@dataclass(frozen=True)
class TargetDevice:
    """A device by its name in the store, with its limits. `name` is empty if only the architecture is known.

    `conditions` are those of this process, for a device of this machine.
    """

    name: str
    kind: str
    architecture: str
    limits: Limits
    conditions: Conditions = DEFAULT

    @staticmethod
    def local(space: Space, name: str) -> TargetDevice:
        """The device `name` of this machine (`cuda:0`), which must run `space`. Raises DeviceError if it cannot."""
        with contextlib.closing(devices.open_device(devices.for_space(space, name))) as device:
            return TargetDevice(device.name, device.kind, device.architecture, device.limits, device.conditions)

    @staticmethod
    def remote(kind: str, architecture: str, name: str = "") -> TargetDevice:
        """A device of another machine, with the limits of its architecture."""
        return TargetDevice(name, kind, architecture, devices.BACKENDS[kind].limits_of(architecture))

    def query(self, space: Space, scope: Scope) -> Query:
        """The look-up of a problem on this device."""
        about = self.name, self.kind, self.architecture, Version.of(space)
        return Query(space, scope, *about, conditions=self.conditions)


@dataclass(frozen=True)
class Target:
    """A problem on a device. `candidates` are all known configurations that are valid for both, the best first and the
    default last."""

    problem: Problem
    device: TargetDevice
    scope: Scope
    candidates: tuple[Candidate, ...]

    @staticmethod
    def of(problem: Problem, device: TargetDevice) -> Target:
        """The target with its candidates from the store. Raises NoConfiguration if no configuration is valid."""
        scope = problem.scope(devices.BACKENDS[device.kind].language, device.limits)
        known = Store.of(problem.space, problem.results).candidates(device.query(problem.space, scope))
        return Target(problem, device, scope, tuple(known))

    @property
    def best(self) -> Candidate:
        return self.candidates[0]


def best_fit(targets: Iterable[Target]) -> Target:
    """The target whose best candidate has the best match, in the order of MATCHES."""
    return min(targets, key=lambda target: MATCHES.index(target.best.match))


def choose_target(problem: Problem, name: str | None, kinds: Sequence[str] = devices.KINDS) -> Target:
    """The target called `name`: a device of this machine (`cuda:0`), or part of the name of a device in the store.

    Without a name: the first device of this machine that has an exact record. If none has one: for the first of `kinds`
    with any device, the first device of this machine, else the device in the store with the best match. Raises
    RequestError if there is no such device, or `name` is ambiguous.
    """
    if name is not None and devices.is_name(name):
        return Target.of(problem, TargetDevice.local(problem.space, name))
    if name is not None:
        matches = stored_devices(problem, name)
        matches = [device for device in matches if device.name == name] or matches
        if len(matches) > 1:
            names = ", ".join(f"{device.name} ({device.kind})" for device in matches)
            raise RequestError(f"--device {shown(name)}: ambiguous between {names}; write more of the name")
        return Target.of(problem, matches[0])
    usable = [kind for kind in devices.kinds_of(problem.space) if kind in kinds]
    local: dict[str, Target] = {}
    for kind in filter(devices.count, usable):
        local[kind] = Target.of(problem, TargetDevice.local(problem.space, kind))
        if local[kind].best.is_exact:
            return local[kind]
    for kind in usable:
        if kind in local:
            return local[kind]
        targets = [Target.of(problem, device) for device in stored_devices(problem) if device.kind == kind]
        if targets:
            return best_fit(targets)
    raise RequestError(
        f"{problem.space.name}: neither this machine nor the store has a device of kind {' or '.join(usable)}; "
        "export on a machine with such a device, or merge its records; --to cubin and --to cu need no device with "
        "--architecture"
    )


def stored_devices(problem: Problem, name: str | None = None, tables: bool = False) -> list[TargetDevice]:
    """The devices in the store that run the kernel: those with records or, if `tables`, with time tables.

    With `name`: the devices of that name, else those whose names contain it, else a board of that name, which has the
    chip of a device in the store. A name that begins with the vendor is no part of a name of another board. Raises
    RequestError if there is none.
    """
    kinds, store = devices.kinds_of(problem.space), Store.of(problem.space, problem.results)
    heads = [stored.head for stored in time_tables.stored(store.files)[0]] if tables else []
    known = [head for head in heads if head.architecture] if tables else store.records
    keys = dict.fromkeys((k.kind, k.architecture, k.device) for k in known if k.kind in kinds)
    recorded = [TargetDevice.remote(*key) for key in keys]
    if name is None:
        return recorded
    same = [device for device in recorded if normalised(name) == normalised(device.name)]
    parts = [device for device in recorded if name.casefold() in device.name.casefold()]
    boards = {(d.kind, d.architecture): replace(d, name=name) for d in recorded if chip(name) == chip(d.name)}
    others = [*boards.values()]
    matches = same or (others or parts if names_vendor(name) else parts or others)
    if not matches:
        names = ", ".join(dict.fromkeys(d.name for d in recorded)) or "none"
        raise RequestError(
            f"--device {shown(name)}: neither a kind of device ({', '.join(devices.KINDS)}) nor a device with "
            f"{'times' if tables else 'records'} in the store; those are: {names}; "
            "`tune merge FOLDER` adds those of another machine"
        )
    return matches


def targets_of(problem: Problem, architectures: str, preferred: Sequence[TargetDevice] = ()) -> list[Target]:
    """The targets for architectures such as `sm_80,sm_90a`: each the best fit among the `preferred` devices and those
    of the store that have it, else the architecture without a device. Raises RequestError for another name."""
    names = list(dict.fromkeys(name.strip() for name in architectures.split(",")))
    for name in names:
        if not is_architecture(name):
            raise RequestError(f"--architecture {shown(name)!r}: write names such as sm_80 or sm_90a")
    known = [each for each in (*preferred, *stored_devices(problem)) if each.kind == CUBINS]
    of_name = {name: [each for each in known if each.architecture == name] for name in names}
    each = (of_name[name] or [TargetDevice.remote(CUBINS, name)] for name in names)
    return [best_fit(Target.of(problem, device) for device in same) for same in each]
