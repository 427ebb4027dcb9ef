"""Dynamic local memory of OpenCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.space.kinds import Assembly, Kind

if TYPE_CHECKING:
    from tuner.space.model import Argument


class LocalMemory(Kind):
    """Memory of a work-group, which OpenCL C takes as a `__local` pointer. CUDA has `shared_memory` for it."""

    name = "local"
    languages = ("opencl",)
    roles = (None,)

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        return assembly.local(assembly.nbytes(argument.name))
