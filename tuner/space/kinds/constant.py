"""Constant memory: in CUDA a `__constant__` variable of the source, elsewhere a pointer parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.space.kinds import Assembly, Kind

if TYPE_CHECKING:
    from tuner.space.model import Argument


class Constant(Kind):
    """In CUDA, the `__constant__` variable of its name in the source, into which each launch copies the caller's array
    first. OpenCL C and C take a pointer, in OpenCL C a `__constant` one."""

    name = "constant"
    languages = ("cuda", "opencl", "c")

    def is_parameter(self, language: str) -> bool:
        return language != "cuda"

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        if self.is_parameter(assembly.scope.language):
            return assembly.passed(argument.name)
        assembly.copy_to_symbol(argument.name, argument.name)
        return None
