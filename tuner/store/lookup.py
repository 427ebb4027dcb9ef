"""Which record serves a device at a size: when two names are one device, and the order of a look-up's answers."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.devices import Device, DeviceInfo
from tuner.space import source
from tuner.space.default import first_valid
from tuner.space.model import Config, ConfigKey, Scope, Space, config_key
from tuner.store.record import Record

Match = Literal["exact", "nearest_size", "architecture", "other_device", "default"]
MATCHES: tuple[Match, ...] = ("exact", "nearest_size", "architecture", "other_device", "default")


@dataclass(frozen=True)
class Asked:
    """What a look-up is asked: a kernel, its problem, the device by its name, and the signature of the kernel now."""

    space: Space
    scope: Scope
    device: str
    kind: str
    architecture: str
    signature: str

    @staticmethod
    def of(space: Space, scope: Scope, device: Device | DeviceInfo) -> Asked:
        """What is asked for a device of this machine."""
        return Asked(space, scope, device.name, device.kind, device.architecture, source.signature(space))


@dataclass(frozen=True)
class Found:
    """A look-up's answer: the configuration, how well it fits, and the record it is from (None for the default).

    `variant`: the record is of another variant of the device, so its match is at best `nearest_size`. `rank`: 0 for
    the record's best, n for its n-th runner-up. `notes` are warnings for the user.
    """

    config: Config
    match: Match
    record: Record | None = None
    stale: bool = False
    notes: tuple[str, ...] = ()
    variant: bool = False
    rank: int = 0


@dataclass(frozen=True)
class Ranked:
    """A record and how it fits."""

    record: Record
    match: Match
    variant: bool
    stale: bool


_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_VENDORS = {"nvidia", "amd", "intel", "corporation", "geforce", "tesla", "quadro"}
_FORMS = re.compile(r"pcie?|sxm\d?|nvl|\d+g(?:i?b)?|(?:hbm|g?ddr)\d\w*")


@functools.lru_cache(maxsize=1024)
def normalised(device: str) -> str:
    """A device's name without what its variants differ in: two with one normalised name and one architecture (compute
    capability) are variants of one device.

    Left out, besides case and punctuation, are marks ((R), (TM)), makers and brands (NVIDIA, GeForce, Tesla, Quadro),
    form factors (PCIe, SXM4, NVL) and memory (80GB, HBM3): H200 is H200 NVL, A100-SXM4-40GB is A100 80GB PCIe. All
    else stays, because it names another chip, or a part of one: Ti, SUPER, Ada Generation, Laptop GPU, Max-Q, a MIG
    slice (`1g.10gb`), a virtual GPU's profile (`40C`), the number of a host's cores.
    """
    words = re.findall(r"[^\s,;:()/_-]+", _MARKS.sub(" ", device.casefold()))
    kept = [word for word in words if word not in _VENDORS and not _FORMS.fullmatch(word)]
    return " ".join(kept or words)


def ranked(records: Iterable[Record], asked: Asked) -> list[Ranked]:
    """The records of this operation, those that fit best first, whether they are valid at this size or not."""
    scope, found = asked.scope, []
    for position, record in enumerate(records):
        if record.sizes.keys() != scope.sizes.keys():
            continue
        distance = _distance(record.sizes, scope.sizes)
        fit = _fit(record, asked, distance)
        level = MATCHES.index(fit.match)
        if not record.is_verified:
            level = max(level, MATCHES.index("architecture"))
        worth = (
            fit.stale,
            not record.is_plain,
            level,
            not record.is_verified,
            record.kind != asked.kind,
            distance,
            fit.variant,
            record.options != scope.options,
            position,
        )
        found.append((worth, fit))
    return [fit for _, fit in sorted(found, key=lambda entry: entry[0])]


def answers(records: Iterable[Record], asked: Asked) -> Iterator[Found]:
    """What is valid at this size on this device, best first: of each record its best and its runners-up, then the
    default. Raises NoConfiguration where nothing is."""
    space, scope = asked.space, asked.scope
    seen: set[ConfigKey] = set()
    for fit in ranked(records, asked):
        for rank, config in enumerate(fit.record.configs):
            if config_key(config) not in seen and space.valid(config, scope):
                seen.add(config_key(config))
                yield Found(config, fit.match, fit.record, fit.stale, _notes(fit, space), fit.variant, rank)
    default = first_valid(space, scope)
    if config_key(default) not in seen:
        yield Found(default, "default")


def _fit(record: Record, asked: Asked, distance: float) -> Ranked:
    own = (record.kind, record.device) == (asked.kind, asked.device)
    relative = (record.kind, record.architecture) == (asked.kind, asked.architecture)
    akin = record.kind == asked.kind and record.architecture in (asked.architecture, "")  # unknown where imported
    variant = akin and not own and normalised(record.device) == normalised(asked.device)
    match: Match = "architecture" if relative else "other_device"
    if own or variant:
        exact = own and distance == 0 and record.is_verified
        match = "exact" if exact else "nearest_size"
    return Ranked(record, match, variant, record.signature != asked.signature)


def _notes(fit: Ranked, space: Space) -> tuple[str, ...]:
    if fit.stale:
        told = "the record is of an earlier version of the kernel, which strict=True refuses; tune it again"
        return (f"{space.name}: {told}",)
    if not fit.record.is_verified:
        return (f"{space.name}: the record was imported and has not been verified here; tune it",)
    return ()


def _distance(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """Euclidean distance of the logarithms of the sizes."""
    return math.sqrt(sum(math.log(a[name] / b[name]) ** 2 for name in a))
