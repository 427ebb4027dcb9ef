"""Dynamic local memory: `__local` pointer parameters of OpenCL kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.space.argument import Assembly, Kind
from tuner.space.kinds.constant import bytes_of

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared


class LocalMemory(Kind):
    """Local memory of a work-group, passed as a `__local` pointer. In CUDA, use `shared_memory` of the step."""

    name = "local"
    languages = ("opencl",)
    roles = (None,)

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        """The device's limit."""
        return [(f"{bytes_of(argument, operation)} <= max_shared_memory", "the device's local memory per work-group")]

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        return assembly.local(assembly.instance.nbytes(argument.name))
