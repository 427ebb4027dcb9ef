"""The sizes, options and types that a user chooses, completed by the operation's defaults."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.space import chosen_types, parsing
from tuner.space.chosen_types import Types
from tuner.space.computation import Operation
from tuner.space.parsing import Size
from tuner.space.scope import Limits, Scope

COMMON = 1024


@dataclass(frozen=True)
class Chosen:
    """Every size, option and type of an operation, by name."""

    operation: Operation
    sizes: dict[str, int]
    options: dict[str, float]
    types: dict[str, str]

    @staticmethod
    def parse(
        operation: Operation,
        size: Size | None,
        options: Mapping[str, float] | None = None,
        types: Mapping[str, str] | None = None,
    ) -> Chosen:
        """The choice of a user; `size` has a form that `parsing.parse_size` accepts.

        Raises RequestError for an unknown size, option or type, and for a missing size that has no default.
        """
        chosen = chosen_types.parse(types or {}, operation)
        sizes = size_of(size, operation, chosen)
        return Chosen(operation, sizes, parsing.parse_options(options or {}, operation, chosen), chosen)

    def scope(self, language: str, limits: Limits) -> Scope:
        """The problem on a device with these limits."""
        return self.operation.scope(self.sizes, self.options, language, limits, self.types)


def size_of(size: Size | None, operation: Operation, types: Types | None = None) -> dict[str, int]:
    """The sizes by name: those of `size`, or the operation's defaults if it is None.

    Raises RequestError if a default is missing, or if `parsing.parse_size` does.
    """
    if size is not None:
        return parsing.parse_size(size, operation, types)
    missing = [name for name, default in operation.sizes.items() if default is None]
    if missing:
        names, example = ", ".join(missing), "x".join(["1024"] * len(missing))
        raise RequestError(f"SIZE is missing: there is no default for {names}; write a size, such as {example}")
    return parsing.parse_size(defaults(operation), operation, types)


def common(operation: Operation) -> dict[str, int]:
    """The default sizes, with COMMON for each size that has no default."""
    return {name: COMMON if default is None else default for name, default in operation.sizes.items()}


def defaults(operation: Operation) -> Mapping[str, int]:
    """The sizes that have a default, by name."""
    return {name: default for name, default in operation.sizes.items() if default is not None}
