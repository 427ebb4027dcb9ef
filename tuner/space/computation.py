"""What a kernel computes, as a frozen dataclass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from tuner.classes import cached_property, dataclass
from tuner.space import structs
from tuner.space.routines import ROUTINES
from tuner.space.scope import Computed, Limits, Scope, Taken

if TYPE_CHECKING:
    from tuner.space.argument import Argument
    from tuner.space.expressions import Expression
    from tuner.space.values.forms import Reference
    from tuner.space.values.function_object import FunctionObject
    from tuner.space.values.python_function import PythonFunction
    from tuner.space.values.tolerance import Tolerance


def taken(arguments: Iterable[Argument]) -> tuple[str, ...]:
    """The names of those arguments that no field of a struct points to."""
    arguments = tuple(arguments)
    held = {name for argument in arguments if argument.fields for name in argument.reaches}
    return tuple(argument.name for argument in arguments if argument.name not in held)


@dataclass(frozen=True)
class Operation:
    """What a kernel computes.

    sizes: the default of each size, or None if the size is required.
    extent: the extent of the result (x, y, z).
    arguments: in the kernel's order.
    reference: computes the answers.
    tolerance: by the name of an output or derived value; those that it lacks have the default tolerance.
    flops: the floating-point operations of a run.
    bytes: the fewest bytes that a run must move.
    library: the vendor library's routine to compare with.
    derive: values computed from outputs and compared in their place, by name.
    accept: the mutants that verification need not reject.
    types: the dtypes that each type name allows, the default first.
    loop_names: the loop variables of the space's steps, which the values of scalars may read.
    also: returns other contents of inputs. The finals verify configurations on these, too, but do not time them there.
    """

    sizes: Mapping[str, int | None]
    options: Mapping[str, float]
    extent: tuple[Expression, ...]
    arguments: tuple[Argument, ...]
    reference: Reference
    tolerance: Mapping[str, Tolerance]
    flops: Expression | None
    bytes: Expression | None
    library: str | None
    derive: Mapping[str, Expression] = field(default_factory=dict)
    accept: tuple[str, ...] = ()
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    loop_names: frozenset[str] = frozenset()
    also: PythonFunction | None = None

    @cached_property
    def looped(self) -> tuple[Argument, ...]:
        """What is passed by value and reads loop variables, and so changes from launch to launch."""
        if not self.loop_names:
            return ()
        return tuple(a for a in self.by_value if any(e.names & self.loop_names for e in structs.expressions(a)))

    @cached_property
    def arrays(self) -> tuple[Argument, ...]:
        """The arrays that the caller passes, in order."""
        return tuple(a for a in self.arguments if a.is_array and not a.value)

    @cached_property
    def transposed(self) -> frozenset[str]:
        """The arrays of the library's routine that this operation declares transposed.

        For example, B of a matrix product, if its shape is [batch, N, K]. Empty without a library.
        """
        arrays = ROUTINES[self.library].arrays if self.library else {}
        shapes = {a.name: tuple(extent.text for extent in a.shape or ())[-2:] for a in self.arrays}
        return frozenset(name for name, extents in arrays.items() if shapes.get(name) == extents[::-1])

    @cached_property
    def taken(self) -> tuple[str, ...]:
        """The arguments that a kernel takes unless its step lists others, by name: all but the arrays in structs."""
        return taken(self.arguments)

    @property
    def constants(self) -> tuple[Argument, ...]:
        """The arrays whose content the file declares as `value`."""
        return tuple(a for a in self.arguments if a.shape is not None and a.value)

    @property
    def scratch(self) -> tuple[Argument, ...]:
        """The arrays that the launching code allocates."""
        return tuple(a for a in self.arguments if a.role == "scratch")

    @property
    def by_value(self) -> tuple[Argument, ...]:
        """The numbers, structs and vectors among the arguments."""
        return tuple(a for a in self.arguments if a.shape is None and a.kind is None)

    @property
    def scalars(self) -> tuple[Argument, ...]:
        """The arguments that are numbers."""
        return tuple(a for a in self.by_value if not a.fields)

    @property
    def numbers(self) -> tuple[Argument, ...]:
        """The numbers that a launch passes: the scalars, and those in structs and vectors."""
        return tuple(number for argument in self.by_value for number in structs.numbers(argument))

    @cached_property
    def takers(self) -> Mapping[str, tuple[Argument, ...]]:
        """By the name of a size or option, the numbers that pass its value.

        These are the number of the same name, if it has no `value`, and the numbers whose `value` is that name.
        """
        names, numbers = (*self.sizes, *self.options), self.numbers
        return {name: tuple(a for a in numbers if a.passes == name) for name in names}

    def scope(
        self,
        sizes: Mapping[str, int],
        options: Mapping[str, float],
        language: str,
        limits: Limits,
        types: Mapping[str, str],
    ) -> Scope:
        """The problem of these sizes, options and chosen types, in a language, on a device with these limits."""
        return self.own(Scope(sizes, options, language, limits, types))

    def own(self, scope: Scope) -> Scope:
        """The same problem for this operation. Kernels of a family share a scope, but their arguments may take an
        option in different dtypes."""
        key = tuple(scope.types.items())
        if (binding := self._bindings.get(key)) is None:
            binding = self._bindings[key] = self._bound(scope.types)
        taken, computed = binding
        is_own = (scope.taken, scope.computed) == binding
        return scope if is_own else replace(scope, taken=taken, computed=computed)

    @cached_property
    def _bindings(self) -> dict[tuple[tuple[str, str], ...], tuple[Taken, Computed]]:
        """The results of `_bound` by chosen types, because each look-up and each configuration asks for one."""
        return {}

    def _bound(self, types: Mapping[str, str]) -> tuple[Taken, Computed]:
        """`taken` and `computed` of a Scope with these chosen types, or else the defaults."""
        chosen = {**{name: allowed[0] for name, allowed in self.types.items()}, **types}
        taken: dict[str, str] = {}
        for name, arguments in self.takers.items():
            dtypes = {chosen.get(argument.dtype, argument.dtype) for argument in arguments}
            if len(dtypes) == 1:  # a size that arguments of several dtypes take stays as it is
                (taken[name],) = dtypes
        computed = [a for a in self.scalars if a.value and a not in self.looped]
        return taken, {a.name: (a.value[0], chosen.get(a.dtype, a.dtype)) for a in computed}

    @property
    def strided(self) -> tuple[Argument, ...]:
        """The arrays with declared strides: their rows may have padding."""
        return tuple(a for a in self.arrays if a.strides)

    @property
    def leading(self) -> tuple[str, ...]:
        """The names of the leading dimensions, which are read from the arrays."""
        entries = (stride for argument in self.strided for stride in argument.strides)
        return tuple(dict.fromkeys(e.text for e in entries if e.is_name and e.text not in self.sizes))

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arrays that a kernel writes."""
        return tuple(a for a in self.arrays if a.role != "in")

    @property
    def compared(self) -> tuple[str, ...]:
        """The names of everything with an answer: derived values, and outputs from which none is computed."""
        read = {name for expression in self.derive.values() for name in expression.names}
        return (*self.derive, *(output.name for output in self.outputs if output.compared and output.name not in read))

    @property
    def has_drawn_files(self) -> bool:
        """Whether files hold inputs that a program drew at random. All runs then have this one set of inputs."""
        return any(argument.fill is not None and argument.fill.drawn for argument in self.arguments)

    @property
    def python_functions(self) -> tuple[PythonFunction | FunctionObject, ...]:
        """The Python functions that verification calls, each once."""
        reference = getattr(self.reference, "function", None)
        filling = [a.fill.function for a in self.arguments if a.fill is not None]
        deriving = [getattr(expression, "function", None) for expression in self.derive.values()]
        every = (*filling, self.also, reference, *deriving)
        return tuple(dict.fromkeys(function for function in every if function is not None))
