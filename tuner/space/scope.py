"""Scopes: a problem and the limits of a device, whose values expressions use by name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from tuner.classes import cached_property, dataclass
from tuner.errors import ExpressionError
from tuner.space.dtypes import DTYPES

if TYPE_CHECKING:
    from tuner.space.expressions import Expression


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


class LazyNames(dict[str, Any]):
    """Values by name. Those of `makers` are made of the others when they are first read."""

    def __init__(self, values: Mapping[str, Any], makers: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> None:
        super().__init__(values)
        self._makers = makers

    def __missing__(self, name: str) -> Any:
        self[name] = value = self._makers[name](self)
        return value


Taken = Mapping[str, str]
Computed = Mapping[str, "tuple[Expression, str]"]
COMMON_GPU = Limits(compute_capability=8.0)


@dataclass(frozen=True)
class Scope:
    """A problem: sizes, options and types, in a language and on a device with these limits.

    `types` has the chosen dtype of each of the operation's types; expressions cannot use it. `config` has the values of
    parameters and derived values if a configuration is known (see `Instance.scope`), and is otherwise empty.

    `sizes` and `options` are as they were given. A kernel gets each in the dtype of its argument, which `taken` has by
    name, and whatever is computed for that kernel must use the same number. `computed` has the values of the arguments
    that follow from these, each with its dtype. `Operation.scope` makes such a Scope.
    """

    sizes: Mapping[str, int]
    options: Mapping[str, float]
    language: str
    limits: Limits
    types: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    taken: Taken = field(default_factory=dict)
    computed: Computed = field(default_factory=dict)

    @cached_property
    def names(self) -> Mapping[str, Any]:
        """The value of every name that an expression may use.

        Options are rounded to the dtype of their argument. Sizes are exact: arrays and grids have these extents.
        """
        return {**self.passed_options, **self.sizes, "language": self.language, **self.limits.names, **self.config}

    @cached_property
    def answer_names(self) -> Mapping[str, Any]:
        """What an expression for the kernel's answers may use: `names`, with sizes rounded, too, and scalars."""
        return {**self.names, **self.passed_sizes, **self.passed_scalars}

    @cached_property
    def passed_options(self) -> Mapping[str, float]:
        """The options as the kernel gets them: rounded to the dtype of the argument that takes them."""
        return {name: self._rounded(name, value) for name, value in self.options.items()}

    @cached_property
    def passed_sizes(self) -> Mapping[str, int]:
        """The sizes as the kernel gets them, which differ from `sizes` beyond the precision of a real argument."""
        return {name: int(self._rounded(name, value)) for name, value in self.sizes.items()}

    @cached_property
    def typed_options(self) -> Mapping[str, float]:
        """`passed_options` for a Python function: those that the kernel takes as integers are integers."""
        whole = {name for name, dtype in self.taken.items() if DTYPES[dtype].kind == "integer"}
        return {name: int(value) if name in whole else value for name, value in self.passed_options.items()}

    @cached_property
    def passed_scalars(self) -> Mapping[str, float]:
        """The values of `computed` as the kernel gets them, without those that cannot be computed or passed."""
        scalars: dict[str, float] = {}
        for name, (expression, dtype) in self.computed.items():
            with contextlib.suppress(ExpressionError):
                value = expression.evaluate(self.names)
                if isinstance(value, int | float) and math.isfinite(value) and DTYPES[dtype].holds(value):
                    scalars[name] = DTYPES[dtype].rounded(value)
        return scalars

    def _rounded(self, name: str, value: float) -> float:
        return DTYPES[self.taken[name]].rounded(value) if name in self.taken else value

    def at(self, sizes: Mapping[str, int]) -> Scope:
        """The same problem at other sizes."""
        return replace(self, sizes=sizes)


# What expressions know of the device, besides sizes and options.
DEVICE_NAMES = tuple(Scope(sizes={}, options={}, language="", limits=Limits()).names)
