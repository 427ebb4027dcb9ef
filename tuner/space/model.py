"""Spaces and restrictions as frozen dataclasses.

A launch needs them, so this module imports neither YAML nor pydantic.
`file.reader` makes a `Space` from YAML; `launch_form` writes it as JSON and reads it back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.classes import cached_property, dataclass
from tuner.errors import ExpressionError
from tuner.languages import ALGORITHMS, PYTHON_LANGUAGES, PythonLanguage, compilers
from tuner.paths import relative_to_cwd
from tuner.quoting import shown
from tuner.space import chosen_types, structs
from tuner.space.argument import Argument
from tuner.space.computation import Operation
from tuner.space.config import Config, Value, contains
from tuner.space.expressions import Expression
from tuner.space.scope import LazyNames, Scope

if TYPE_CHECKING:
    from tuner.space.loops import Loop, Order
    from tuner.space.step import Extent, Step


MAX_FILE_BYTES = 1_000_000  # of a space or operation file


@dataclass(frozen=True)
class Restriction:
    """A condition that every valid configuration satisfies, and the reason for it."""

    that: Expression
    because: str = ""

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Whether it is satisfied. False if it cannot be evaluated."""
        try:
            return bool(self.that.evaluate(names))
        except ExpressionError:
            return False

    def __str__(self) -> str:
        return f"`{self.that.text}`" + (f" ({self.because})" if self.because else "")


@dataclass(frozen=True)
class Space:
    """Everything that a space file declares: the operation, the steps, the parameters and their restrictions.

    Arrays are aligned to `alignment` bytes and to their element size. `compile_options` may contain names in braces;
    see `braces`. `compiler` is the one that the file chooses for the language that has several (see
    `Language.compilers`); empty for the default. If `returns_time` is set, a kernel is a function in C that returns
    its own time in ms as a float; this time replaces that of the clock. `order` lists steps, by their index, and
    loops of steps; it is empty if each step is launched once. `generated` is set if a program makes the source of each
    configuration. It is a path with names of parameters in braces: their values make it the path of a configuration's
    source. The step's own source is one of these files.
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
    compiler: str = ""
    returns_time: bool = False
    alignment: int = 1
    source_note: str = ""
    files: tuple[Path, ...] = ()  # the YAML files it was read from
    include: tuple[Path, ...] = ()  # folders of the user's own headers
    order: Order = ()
    generated: Path | None = None

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All loops of its steps."""
        if not self.order:
            return ()
        from tuner.space.loops import loops_in  # imported only for loops

        return tuple(loops_in(self.order))

    @cached_property
    def loop_names(self) -> frozenset[str]:
        """The loop variables."""
        return self.operation.loop_names

    @cached_property
    def loop_expressions(self) -> tuple[Expression, ...]:
        """The expressions that decide which launches there are, besides grids: those of loops, and conditions."""
        conditions = [step.when for step in self.steps if step.when is not None]
        return (*(e for loop in self.loops for e in loop.expressions), *conditions)

    @property
    def origin(self) -> str:
        """Its file, relative to the current folder, for messages; its name if it was made in Python."""
        return relative_to_cwd(self.files[0]) if self.files else self.name

    @property
    def operation_origin(self) -> str:
        """The file of its operation, for messages; its name if it was made in Python."""
        return shown(self.files[-1]) if self.files else self.name

    def alignment_of(self, argument: str) -> int:
        """The required alignment of the caller's array `argument`, in bytes, apart from its element size."""
        own = [a.kind.alignments(a).get(argument, 1) for a in self.operation.arguments if a.kind is not None]
        return max(self.alignment, *own, 1)

    def compiler_of(self, language: str) -> str:
        """The compiler that the file chooses for a language; empty for the language's default."""
        return self.compiler if self.compiler in compilers(language)[1:] else ""

    @property
    def is_of_library(self) -> bool:
        """Whether its configurations are algorithms of the vendor's library: numbers that hold for one problem on one
        device and one version of the library."""
        return self.compiler == ALGORITHMS

    @property
    def python_language(self) -> PythonLanguage | None:
        """The language of its kernels if they are functions of Python files, else None."""
        return next((each for each in PYTHON_LANGUAGES.values() if each.compiler == self.compiler), None)

    @property
    def written_in(self) -> tuple[str, ...]:
        """The names of its languages, as a space file has them."""
        return self.languages if self.python_language is None else (self.python_language.name,)

    @property
    def most_aligned(self) -> int:
        """The largest alignment that an array of the caller needs, in bytes, apart from its element size."""
        return max(self.alignment_of(a.name) for a in self.operation.arrays)

    @property
    def kernels(self) -> str:
        """The names of its kernels, for display and for other tuners' files."""
        return ", ".join(dict.fromkeys(step.kernel for step in self.steps))

    @property
    def sources(self) -> tuple[Path, ...]:
        """Its kernel files, each once."""
        return tuple(dict.fromkeys(step.source for step in self.steps))

    def names(self, config: Mapping[str, Value], scope: Scope) -> dict[str, Any]:
        """The value of every name that an expression of this space may use: scope, configuration, derived values.

        A derived value is computed when it is first read, which raises ExpressionError if it cannot be computed.
        """
        return LazyNames({**self.operation.own(scope).names, **config}, self._derivations)

    @cached_property
    def _derivations(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        return {name: expression.evaluate for name, expression in self.derived.items()}

    @cached_property
    def computed(self) -> Mapping[str, Expression]:
        """The derived values that functions of this program compute (see `computed_numbers`)."""
        return {name: expression for name, expression in self.derived.items() if expression.is_python}

    def completed(self, config: Config) -> Config:
        """The configuration as other processes need it: with the values that only this process can compute.

        Raises ExpressionError if one of them cannot be computed.
        """
        return {**config, **{name: expression.evaluate(config) for name, expression in self.computed.items()}}

    @cached_property
    def sized_names(self) -> frozenset[str]:
        """The sizes, and the derived values that depend on them."""
        sized = {*self.operation.sizes}
        for name, expression in self.derived.items():  # in order of dependence
            if expression.names & sized:
                sized.add(name)
        return frozenset(sized)

    @cached_property
    def restrictions_of_sizes(self) -> tuple[Restriction, ...]:
        """The restrictions that depend on sizes."""
        return tuple(each for each in self.restrictions if each.that.names & self.sized_names)

    @cached_property
    def fixed_options(self) -> frozenset[str]:
        """The options that code, geometry, restrictions or shapes depend on, so that loading a kernel fixes them."""
        arguments = self.operation.arguments
        shapes = [extent for argument in arguments for extent in argument.shape or ()]
        conditions = [restriction.that for restriction in self.restrictions]
        kinds = [e for a in arguments if a.kind for values in a.kind.expressions.values() for e in values]
        geometry = [expression for step in self.steps for expression in step.expressions]
        looped = [*self.loop_expressions, *(e for a in self.operation.looped for e in structs.expressions(a))]
        expressions = (*self.derived.values(), *geometry, *conditions, *shapes, *kinds, *looped)
        names = frozenset(name for each in expressions for name in each.names)
        if self.python_language is not None:
            # An option stays free if the kernel takes it only as a real number. The code depends on every other option:
            # it is a constant of the code, or a whole number for whose divisibility the code is specialised.
            real = {name for a in self.operation.scalars if self._is_real(a) for name in (*self._valued(a), a.name)}
            whole = {name for a in self.operation.scalars if not self._is_real(a) for name in self._valued(a)}
            names |= self.operation.options.keys() - (real - whole)
        return names & self.operation.options.keys()

    def _is_real(self, argument: Argument) -> bool:
        """Whether a scalar is a real number, whichever type is chosen."""
        return all(dtype.kind == "real" for dtype in chosen_types.choices(argument, self.operation.types))

    @staticmethod
    def _valued(argument: Argument) -> set[str]:
        """The names that the `value` of a scalar reads."""
        return {name for expression in argument.value for name in expression.names}

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
        """The parameters that `names` contain, or on which the derived values among them depend, in declared order."""
        queue, visited = list(names), set[str]()
        while queue:
            name = queue.pop()
            if name not in visited:
                visited.add(name)
                queue += self.derived[name].names if name in self.derived else ()
        return [name for name in self.parameters if name in visited]

    @cached_property
    def _fixed_extents(self) -> list[Extent]:
        """The numbers of its geometries that depend on sizes, options or the device, but on no configuration."""
        steps = [step for step in self.steps if step.when is None]
        extents = [extent for step in steps for extent in step.extents if extent.expression.names]
        extents = [extent for extent in extents if not extent.expression.names & self.loop_names]
        return [extent for extent in extents if not self.parameters_behind(extent.expression.names)]

    def unlaunchable(self, scope: Scope) -> str | None:
        """Why no configuration can be launched at this size; None if the geometry of one may be possible."""
        names = self.names({}, scope)
        for extent in self._fixed_extents:
            try:
                fault = extent.fault(names)
            except ExpressionError as error:
                fault = f"{extent.where}: {error}"
            if fault is not None:
                return fault
        return None

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
        """Whether `config` satisfies these restrictions of this space."""
        names = self.names(config, scope)
        return all(restriction.holds(names) for restriction in restrictions)

    def walk(self) -> Iterator[Config]:
        """Every combination of declared values in the order of the file, valid or not."""
        for values in itertools.product(*self.parameters.values()):
            yield dict(zip(self.parameters, values, strict=True))
