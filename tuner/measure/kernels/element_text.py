"""The C text that our own kernels use for elements of a type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.space.dtypes import DType

STORED = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned int",
    8: "unsigned long",
}  # unsigned C types by size in bytes
_SIGNED = {1: "signed char", 2: "short", 4: "int", 8: "long"}  # signed ones


def value_text(dtype: DType, element: str) -> str:
    """The C text of a real number or integer as a double, given that of its bits."""
    if not dtype.is_exact:
        return f"(double){dtype.name}_value({element})"  # floats would be added as floats
    return f"(double)({_SIGNED[dtype.itemsize]}){element}" if dtype.low < 0 else f"(double){element}"
