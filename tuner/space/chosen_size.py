"""Sizes that a user chooses, or leaves to the operation."""

from collections.abc import Mapping

from tuner.errors import RequestError
from tuner.space import operation as operations
from tuner.space.chosen_types import Types
from tuner.space.model import Operation
from tuner.space.operation import Size

COMMON = 1024


def parse(size: Size | None, operation: Operation, types: Types | None = None) -> dict[str, int]:
    """The sizes by name: those of `size`, or where it is None the operation's defaults. Raises RequestError where these
    are not all there, and as `parse_size` does."""
    if size is not None:
        return operations.parse_size(size, operation, types)
    missing = [name for name, default in operation.sizes.items() if default is None]
    if missing:
        example = "x".join(["1024"] * len(missing))
        raise RequestError(f"SIZE is missing: there is no default for {', '.join(missing)}; write one, as {example}")
    return operations.parse_size(defaults(operation), operation, types)


def common(operation: Operation) -> dict[str, int]:
    """Sizes for whoever asks for none: those that the operation gives, and COMMON of one that it requires."""
    return {name: COMMON if default is None else default for name, default in operation.sizes.items()}


def defaults(operation: Operation) -> Mapping[str, int]:
    """The sizes that the operation gives, by name."""
    return {name: default for name, default in operation.sizes.items() if default is not None}
