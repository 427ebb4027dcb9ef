"""Constant memory: a `__constant__` variable of the source in CUDA, a pointer parameter in OpenCL C and C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.space.argument import Arguments, Assembly, Exported, Kind
from tuner.space.dtypes import DTYPES

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared

# The limit for all `__constant__` variables together: CUDA C++ Programming Guide, Technical Specifications.
MOST_BYTES = 1 << 16


class Constant(Kind):
    """An array in constant memory.

    In CUDA it is the `__constant__` variable with the argument's name. Each launch first copies the caller's array into
    it. In OpenCL C the kernel takes a `__constant` pointer, in C a plain one.
    """

    name = "constant"
    languages = ("cuda", "opencl", "c")

    def is_parameter(self, language: str) -> bool:
        return language != "cuda"

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        """The 64 KiB limit. The smallest allowed dtype counts, because restrictions do not know the chosen one."""
        nbytes = [_bytes(each, operation) for each in operation.arguments if isinstance(each.kind, Constant)]
        return [(f"language != 'cuda' or {' + '.join(nbytes)} <= {MOST_BYTES}", "constant memory has 64 KiB")]

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        if self.is_parameter(assembly.instance.scope.language):
            return assembly.passed(argument.name)
        assembly.copy_to_symbol(argument.name, argument.name)
        return None

    def export(self, argument: Argument, arguments: Arguments) -> Exported:
        return Exported(symbol=argument.name)


def _bytes(argument: Argument, operation: Declared) -> str:
    itemsize = min(DTYPES[name].itemsize for name in operation.types.get(argument.dtype, (argument.dtype,)))
    return " * ".join([str(itemsize), *(f"({extent.text})" for extent in argument.shape or ())])
