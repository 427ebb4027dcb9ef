"""Constant memory: in CUDA a `__constant__` variable of the source, elsewhere a pointer parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.space.argument import Arguments, Assembly, Exported, Kind
from tuner.space.dtypes import DTYPES

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared

# Of all `__constant__` variables of a program: CUDA C++ Programming Guide, Technical Specifications.
MOST_BYTES = 1 << 16


class Constant(Kind):
    """In CUDA, the `__constant__` variable of its name in the source, into which each launch copies the caller's array
    first. OpenCL C and C take a pointer, in OpenCL C a `__constant` one."""

    name = "constant"
    languages = ("cuda", "opencl", "c")

    def is_parameter(self, language: str) -> bool:
        return language != "cuda"

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        """Of a chosen type, the smallest counts: the source declares as many elements as the largest needs."""
        every = [_bytes(each, operation) for each in operation.arguments if isinstance(each.kind, Constant)]
        return [(f"language != 'cuda' or {' + '.join(every)} <= {MOST_BYTES}", "constant memory has 64 KiB")]

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        if self.is_parameter(assembly.scope.language):
            return assembly.passed(argument.name)
        assembly.copy_to_symbol(argument.name, argument.name)
        return None

    def export(self, argument: Argument, arguments: Arguments) -> Exported:
        return Exported(symbol=argument.name)


def _bytes(argument: Argument, operation: Declared) -> str:
    itemsize = min(DTYPES[name].itemsize for name in operation.types.get(argument.dtype, (argument.dtype,)))
    return " * ".join([str(itemsize), *(f"({extent.text})" for extent in argument.shape or ())])
