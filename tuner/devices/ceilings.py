"""Measured ceilings of a device: the highest rates that tuner's benchmark kernels reached on it.

The theoretical rate is `tuner.devices.info.Peak`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tuner.classes import dataclass
from tuner.devices.conditions import DEFAULT, Conditions

COPY, READ, WRITE, FMA, TENSOR = "copy", "read", "write", "FMA", "tensor"
MEMORY = (COPY, READ, WRITE)  # in GB/s; the others are in GFLOP/s
NAMES = (*MEMORY, FMA, TENSOR)
CACHES = 4  # arrays smaller than this many last-level caches may never reach memory
MOST_RATE = 1e12  # the highest plausible rate, in GB/s or GFLOP/s


@dataclass(frozen=True)
class Ceiling:
    """The rate of the fastest of several benchmark kernels, in GB/s or GFLOP/s.

    `rate` is the median over `rounds` rounds; `spread` is their interquartile range divided by the median. `kernel`
    describes the fastest kernel.
    """

    rate: float
    spread: float
    rounds: int
    kernel: str

    @staticmethod
    def from_json(data: Any) -> Ceiling:
        """The ceiling that `dataclasses.asdict` serialised to `data`. Raises ValueError if `data` is invalid."""
        if not isinstance(data, dict):
            raise ValueError("not an object")
        rate, spread, rounds = (_number(data, name) for name in ("rate", "spread", "rounds"))
        if not 0 < rate <= MOST_RATE:
            raise ValueError(f"rate is {rate:g}; allowed: above 0, up to {MOST_RATE:g}")
        return Ceiling(rate, spread, int(rounds), _text(data, "kernel"))


@dataclass(frozen=True)
class Ceilings:
    """The measured ceilings of a device.

    `rates` maps names in NAMES to ceilings; a ceiling that was not measured is absent. `device`, `kind`,
    `architecture`, `toolchain` and `conditions` are as in a record. `cache` is the size of the last-level cache in
    bytes, None if unknown: arrays that fit into it do not measure memory bandwidth.
    """

    device: str
    kind: str
    architecture: str
    toolchain: str
    date: str
    version: str
    cache: int | None
    rates: Mapping[str, Ceiling]
    conditions: Conditions = DEFAULT

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies what was measured: ceilings with equal keys describe the same device, toolchain and conditions."""
        return self.kind, self.device, f"{self.toolchain}{self.conditions.identity}"

    def to_json(self) -> dict[str, Any]:
        data = {**vars(self), "rates": {name: asdict(ceiling) for name, ceiling in self.rates.items()}}
        conditions = data.pop("conditions")
        return {**data, "conditions": dict(conditions.values)} if conditions else data

    @staticmethod
    def from_json(data: Any) -> Ceilings:
        """The ceilings that `to_json` serialised to `data`, which is untrusted. Raises ValueError with the reason."""
        if not isinstance(data, dict):
            raise ValueError("not an object")
        texts = {name: _text(data, name) for name in _TEXTS}
        cache, rates = data.get("cache"), data.get("rates")
        if cache is not None and (not isinstance(cache, int) or cache < 0):
            raise ValueError("cache: neither a number of bytes nor null")
        if not isinstance(rates, dict):
            raise ValueError("rates: not an object")
        ceilings = {}
        for name in NAMES:
            if name in rates:
                try:
                    ceilings[name] = Ceiling.from_json(rates[name])
                except ValueError as error:
                    raise ValueError(f"rates: {name}: {error}") from None
        conditions = data.get("conditions", {})
        if not isinstance(conditions, dict) or not all(isinstance(v, int | float | str) for v in conditions.values()):
            raise ValueError("conditions: not numbers and texts by name")
        return Ceilings(**texts, cache=cache, rates=ceilings, conditions=Conditions(conditions))


_TEXTS = ("device", "kind", "architecture", "toolchain", "date", "version")


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not (isinstance(value, str) and value.isprintable() and len(value) < 1000):
        raise ValueError(f"{name}: not a line of text")
    return value


def _number(data: Mapping[str, Any], name: str) -> float:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
        raise ValueError(f"{name}: not a number of at least 0")
    return value
