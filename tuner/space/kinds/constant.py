"""Constant memory: a `__constant__` variable of the source in CUDA, a pointer parameter in OpenCL C and C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space import chosen_types
from tuner.space.argument import Arguments, Assembly, Exported, Key, Kind

if TYPE_CHECKING:
    from tuner.space.argument import Argument, Declared
    from tuner.space.expressions import Expression
    from tuner.space.scope import Scope

# The limit for all `__constant__` variables together: CUDA C++ Programming Guide, Technical Specifications.
MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Constant(Kind):
    """An array in constant memory.

    In CUDA it is the `__constant__` variable with the argument's name. Each launch first copies the caller's array into
    it. In OpenCL C the kernel takes a `__constant` pointer, in C a plain one.

    when: the condition under which it is so, as one expression; otherwise it is a plain array. Empty for always.
    """

    when: tuple[Expression, ...] = ()

    name = "constant"
    languages = ("cuda", "opencl", "c")
    keys = {"when": Key(default=(), help="the condition under which it is constant; else it is a plain array")}  # noqa: RUF012

    def is_parameter(self, language: str) -> bool:
        return language != "cuda"

    def may_be_parameter(self, language: str) -> bool:
        return language != "cuda" or bool(self.when)

    def is_taken(self, scope: Scope) -> bool:
        return scope.language != "cuda" or self.is_plain(scope)

    def is_plain(self, scope: Scope) -> bool:
        return bool(self.when) and not self.when[0].evaluate(scope.names)

    def unconditional(self, is_taken: bool) -> Kind | None:
        return self if not self.when else None if is_taken else Constant()

    def fault(self, argument: Argument, operation: Declared) -> tuple[str, str] | None:
        if len(self.when) > 1:
            return "when", f"{len(self.when)} conditions; write one, with `and` or `or`"
        return None

    def restrictions(self, argument: Argument, operation: Declared) -> list[tuple[str, str]]:
        """The 64 KiB limit."""
        constants = [(a, a.kind) for a in operation.arguments if isinstance(a.kind, Constant)]
        nbytes = [kind._if_constant(bytes_of(each, operation)) for each, kind in constants]
        return [(f"language != 'cuda' or {' + '.join(nbytes)} <= {MOST_BYTES}", "constant memory has 64 KiB")]

    def add(self, argument: Argument, assembly: Assembly) -> Any:
        if self.is_taken(assembly.instance.scope):
            return assembly.passed(argument.name)
        assembly.copy_to_symbol(argument.name, argument.name)
        return None

    def export(self, argument: Argument, arguments: Arguments) -> Exported:
        return Exported(symbol=argument.name)

    def _if_constant(self, nbytes: str) -> str:
        return f"({nbytes} if {self.when[0].text} else 0)" if self.when else nbytes


def bytes_of(argument: Argument, operation: Declared) -> str:
    """The bytes of an array as an expression, with its smallest dtype: restrictions do not know the chosen one."""
    itemsize = min(dtype.itemsize for dtype in chosen_types.choices(argument, operation.types))
    return " * ".join([str(itemsize), *(f"({extent.text})" for extent in argument.shape or ())])
