"""What a space file says, as frozen values: no YAML, no pydantic, nothing that a launch does not need.

`reader` makes a `Space` from YAML; `launch_form` writes it as JSON and reads it back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import ExpressionError
from tuner.lockless import cached_property
from tuner.space.argument import Argument
from tuner.space.config import Config, Value, contains
from tuner.space.expressions import Expression
from tuner.space.routines import ROUTINES
from tuner.space.values.tolerance import Tolerance

if TYPE_CHECKING:
    from tuner.space.scope import Scope
    from tuner.space.values.forms import Reference
    from tuner.space.values.python_function import PythonFunction


MAX_VALUES = 10_000  # of a parameter
MAX_FILE_BYTES = 1_000_000  # of a space or operation file


@dataclass(frozen=True)
class Operation:
    """What a kernel computes.

    `sizes` have defaults, or None if a size is required. `arguments` are in the kernel's order; `extent` is that of the
    result (x, y, z). `reference` says what is right. Expressions give the floating-point operations and the least bytes
    moved. `library` names the vendor routine to compare with. `types` are names of dtypes, each with the dtypes that it
    may stand for, the default first.

    `tolerance` is by the name of what is compared: an output, or a value that `derive` computes from outputs. Where it
    has none, the default holds. `accept` names the mutants that the check need not reject.
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

    @cached_property
    def arrays(self) -> tuple[Argument, ...]:
        """The arrays that the caller passes, in order."""
        return tuple(a for a in self.arguments if a.is_array and not a.value)

    @cached_property
    def transposed(self) -> frozenset[str]:
        """The arrays of its library's routine that it stores transposed, as the file says: `shape: [batch, N, K]` for
        the B of a product. Empty without a library."""
        arrays = ROUTINES[self.library].arrays if self.library else {}
        shapes = {a.name: tuple(extent.text for extent in a.shape or ())[-2:] for a in self.arrays}
        return frozenset(name for name, extents in arrays.items() if shapes.get(name) == extents[::-1])

    @property
    def constants(self) -> tuple[Argument, ...]:
        """The arrays that have a value."""
        return tuple(a for a in self.arguments if a.shape is not None and a.value)

    @property
    def scratch(self) -> tuple[Argument, ...]:
        """The arrays that whoever launches allocates."""
        return tuple(a for a in self.arguments if a.role == "scratch")

    @property
    def scalars(self) -> tuple[Argument, ...]:
        """The arguments that are numbers."""
        return tuple(a for a in self.arguments if a.shape is None and a.kind is None)

    @property
    def strided(self) -> tuple[Argument, ...]:
        """The arrays whose rows may lie apart."""
        return tuple(a for a in self.arrays if a.strides)

    @property
    def leading(self) -> tuple[str, ...]:
        """The leading dimensions: numbers that are read from the arrays."""
        entries = (stride for argument in self.strided for stride in argument.strides)
        return tuple(dict.fromkeys(e.text for e in entries if e.is_name and e.text not in self.sizes))

    @property
    def outputs(self) -> tuple[Argument, ...]:
        """The arrays that a kernel writes."""
        return tuple(a for a in self.arrays if a.role != "in")

    @property
    def compared(self) -> tuple[str, ...]:
        """The names of what has an answer: derived values, and outputs that none of them reads."""
        read = {name for expression in self.derive.values() for name in expression.names}
        return (*self.derive, *(output.name for output in self.outputs if output.name not in read))

    @property
    def python_functions(self) -> tuple[PythonFunction, ...]:
        """The functions in Python that verifying runs, each once."""
        reference = getattr(self.reference, "function", None)
        filling = [a.fill.function for a in self.arguments if a.fill is not None]
        return tuple(dict.fromkeys(function for function in (*filling, reference) if function is not None))


@dataclass(frozen=True)
class Restriction:
    """A condition that every valid configuration satisfies, and the reason for it."""

    that: Expression
    because: str = ""

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether it is satisfied; not where it has no value."""
        try:
            return bool(self.that.evaluate(names))
        except ExpressionError:
            return False

    def __str__(self) -> str:
        return f"`{self.that.text}`" + (f" ({self.because})" if self.because else "")


@dataclass(frozen=True)
class Geometry:
    """How a step is launched: blocks and threads per block (x, y, z), dynamic shared memory in bytes, the blocks of a
    cluster, and whether all blocks must run at once."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_memory: int
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False


Extents = tuple[Expression, Expression, Expression]


@dataclass(frozen=True)
class Step:
    """One launch of a configuration: a kernel of a source, the names of the arguments that it takes, in its order, and
    its geometry. `kernel` may hold names in braces; see `braces`."""

    kernel: str
    source: Path
    arguments: tuple[str, ...]
    grid: Extents
    block: Extents
    shared_memory: Expression
    cluster: Extents | None = None
    cooperative: bool = False

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that its geometry says."""
        return (*self.grid, *self.block, self.shared_memory, *(self.cluster or ()))

    def geometry(self, names: Mapping[str, Any]) -> Geometry:
        """Its geometry with these values of names. Raises ExpressionError unless it can be launched."""
        grid, block, cluster = (_extents(extents, names) for extents in (self.grid, self.block, self.cluster or ()))
        shared = self.shared_memory.integer(names)
        if min(grid + block + cluster) < 1 or shared < 0:
            raise ExpressionError(
                f"{self.kernel}: grid {grid}, block {block}, shared memory {shared} cannot be launched"
            )
        return Geometry(grid, block, shared, cluster, self.cooperative)


def _extents(expressions: tuple[Expression, ...], names: Mapping[str, Any]) -> tuple[int, int, int]:
    x, y, z = (e.integer(names) for e in expressions) if expressions else (1, 1, 1)
    return x, y, z


@dataclass(frozen=True)
class Space:
    """One stage: the steps of a launch, what they compute, and the configurations that they can be compiled with.

    Arrays begin at multiples of `alignment` bytes, and of the size of their elements. `compile_options` may hold names
    in braces; see `braces`.
    """

    name: str
    title: str
    operation: Operation
    steps: tuple[Step, ...]
    languages: tuple[str, ...]
    parameters: Mapping[str, tuple[Value, ...]]
    restrictions: tuple[Restriction, ...]
    derived: Mapping[str, Expression]
    default: Mapping[str, Value]
    compile_options: Mapping[str, tuple[str, ...]]
    alignment: int = 1
    source_note: str = ""
    files: tuple[Path, ...] = ()  # the YAML files it was read from
    include: tuple[Path, ...] = ()  # folders of the user's own headers

    def alignment_of(self, argument: str) -> int:
        """The bytes at whose multiples a caller's array begins."""
        own = [a.kind.alignments(a).get(argument, 1) for a in self.operation.arguments if a.kind is not None]
        return max(self.alignment, *own, 1)

    @property
    def most_aligned(self) -> int:
        """The most bytes at whose multiples an array of the caller's must begin, but for the size of its elements."""
        return max(self.alignment_of(a.name) for a in self.operation.arrays)

    @property
    def kernels(self) -> str:
        """The names of its kernels, for people and for files of others."""
        return ", ".join(dict.fromkeys(step.kernel for step in self.steps))

    @property
    def sources(self) -> tuple[Path, ...]:
        """Its kernel files, each once."""
        return tuple(dict.fromkeys(step.source for step in self.steps))

    def names(self, config: Mapping[str, Value], scope: Scope) -> Mapping[str, Any]:
        """The value of every name that an expression of this space may use: scope, configuration, derived values.

        A derived value is computed when it is first read, which raises ExpressionError if it cannot be computed.
        """
        return _Names({**scope.names, **config}, self.derived)

    @cached_property
    def sized_names(self) -> frozenset[str]:
        """The sizes, and the derived values that depend on them."""
        found = {*self.operation.sizes}
        for name, expression in self.derived.items():  # each stands behind those that it needs
            if expression.names & found:
                found.add(name)
        return frozenset(found)

    @cached_property
    def restrictions_of_sizes(self) -> tuple[Restriction, ...]:
        """The restrictions that depend on sizes."""
        return tuple(each for each in self.restrictions if each.that.names & self.sized_names)

    @cached_property
    def fixed_options(self) -> frozenset[str]:
        """The options that code, geometry, restrictions or shapes depend on: they are fixed when a kernel is loaded."""
        arguments = self.operation.arguments
        shapes = [extent for argument in arguments for extent in argument.shape or ()]
        conditions = [restriction.that for restriction in self.restrictions]
        kinds = [e for a in arguments if a.kind for values in a.kind.expressions.values() for e in values]
        geometry = [expression for step in self.steps for expression in step.expressions]
        expressions = (*self.derived.values(), *geometry, *conditions, *shapes, *kinds)
        return frozenset(name for each in expressions for name in each.names) & self.operation.options.keys()

    @property
    def varying(self) -> frozenset[str]:
        """The arrays whose shapes or types depend on the configuration."""
        chosen = {*self.parameters, *self.derived}
        return frozenset(
            a.name
            for a in self.operation.arguments
            if a.dtype in chosen or any(extent.names & chosen for extent in a.shape or ())
        )

    def parameters_behind(self, names: Iterable[str]) -> list[str]:
        """The parameters among these names, and those that the derived values among them depend on, in order."""
        queue, visited = list(names), set[str]()
        while queue:
            name = queue.pop()
            if name not in visited:
                visited.add(name)
                queue += self.derived[name].names if name in self.derived else ()
        return [name for name in self.parameters if name in visited]

    def declares(self, config: Mapping[str, Value]) -> bool:
        """Whether `config` has exactly the declared parameters, each with one of its declared values."""
        if config.keys() != self.parameters.keys():
            return False
        return all(contains(values, config[name]) for name, values in self.parameters.items())

    def valid(self, config: Mapping[str, Value], scope: Scope) -> bool:
        """Whether `config` is declared and satisfies every restriction."""
        return self.declares(config) and self.satisfies(config, scope, self.restrictions)

    def possible(self, config: Mapping[str, Value], scope: Scope) -> bool:
        """Whether `config` is declared and satisfies every restriction that does not depend on sizes."""
        others = (each for each in self.restrictions if not each.that.names & self.sized_names)
        return self.declares(config) and self.satisfies(config, scope, others)

    def satisfies(self, config: Mapping[str, Value], scope: Scope, restrictions: Iterable[Restriction]) -> bool:
        """Whether `config` satisfies these restrictions, which are the space's."""
        names = self.names(config, scope)
        return all(restriction.holds(names) for restriction in restrictions)

    def walk(self) -> Iterator[Config]:
        """Every combination of declared values in the order of the file, valid or not."""
        for values in itertools.product(*self.parameters.values()):
            yield dict(zip(self.parameters, values, strict=True))


class _Names(dict[str, Any]):
    """The values of names; a derived one is evaluated when it is first read."""

    def __init__(self, values: Mapping[str, Any], derived: Mapping[str, Expression]) -> None:
        super().__init__(values)
        self._derived = derived

    def __missing__(self, name: str) -> Any:
        self[name] = value = self._derived[name].evaluate(self)
        return value
