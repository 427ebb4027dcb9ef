"""Scopes: problems on a device with its limits, whose values expressions may use by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.lockless import cached_property


@dataclass(frozen=True)
class Limits:
    """The limits of a device. Shared memory is in bytes per block; blocks and grids are (x, y, z).

    The last six are 0 if unknown.
    """

    max_threads: int = 1024
    max_shared_memory: int = 48 * 1024
    warp_size: int = 32
    compute_capability: float = 0.0
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    max_registers: int = 0  # per block
    multiprocessor_threads: int = 0
    multiprocessor_blocks: int = 0
    multiprocessor_registers: int = 0
    multiprocessor_shared_memory: int = 0  # bytes
    reserved_shared_memory: int = 0  # bytes per block that the system reserves

    @cached_property
    def names(self) -> Mapping[str, Any]:
        """The limits that expressions may use, by name."""
        return {
            "compute_capability": self.compute_capability,
            "warp_size": self.warp_size,
            "max_threads": self.max_threads,
            "max_shared_memory": self.max_shared_memory,
            **{f"max_grid_{axis}": most for axis, most in zip("xyz", self.max_grid, strict=True)},
            **{f"max_block_{axis}": most for axis, most in zip("xyz", self.max_block, strict=True)},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Limits:
        """The Limits that `dataclasses.asdict` wrote, after a round trip through JSON."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        return Limits(**values)


COMMON_GPU = Limits(compute_capability=8.0)


@dataclass(frozen=True)
class Scope:
    """A problem: sizes, options and types, in a language and on a device with these limits.

    `types` has the chosen dtype of each of the operation's types; expressions cannot use it. `config` has the values of
    parameters and derived values if a configuration is known (see `Instance.scope`), and is otherwise empty.
    """

    sizes: Mapping[str, int]
    options: Mapping[str, float]
    language: str
    limits: Limits
    types: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def names(self) -> Mapping[str, Any]:
        """The value of every name that an expression may use."""
        return {**self.options, **self.sizes, "language": self.language, **self.limits.names, **self.config}

    def at(self, sizes: Mapping[str, int]) -> Scope:
        """The same problem at other sizes."""
        return Scope(sizes, self.options, self.language, self.limits, self.types, self.config)
