"""Dynamic local memory of OpenCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.space.argument import Assembly, Kind
from tuner.space.dtypes import DTYPES

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared


class LocalMemory(Kind):
    """Memory of a work-group, which OpenCL C takes as a `__local` pointer. CUDA has `shared_memory` for it."""

    name = "local"
    languages = ("opencl",)
    roles = (None,)

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        """Of a chosen type, the smallest counts: a device tells of each kernel what does not fit."""
        itemsize = min(DTYPES[name].itemsize for name in operation.types.get(argument.dtype, (argument.dtype,)))
        nbytes = " * ".join([str(itemsize), *(f"({extent.text})" for extent in argument.shape or ())])
        return [(f"{nbytes} <= max_shared_memory", "the device's local memory per work-group")]

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        return assembly.local(assembly.nbytes(argument.name))
