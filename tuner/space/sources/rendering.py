"""Render a configuration into source text for the compiler; the only module that does."""

from __future__ import annotations

import ast
import functools
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tuner import paths
from tuner.classes import dataclass
from tuner.errors import ExpressionError, GeometryError
from tuner.space import chosen_types, dtypes, kinds, loops, snapshot
from tuner.space.argument import Argument
from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.sources import flags, source_text
from tuner.space.sources.includes import defined, without_comments, words
from tuner.space.sources.source import Source, StepSource
from tuner.space.step import Step

if TYPE_CHECKING:
    from tuner.space.computation import Operation
    from tuner.space.instance import Instance


def render(instance: Instance) -> tuple[StepSource, ...]:
    """The steps of one configuration.

    The text of a step consists of types, parameters and derived values as macros, followed by its kernel file with
    includes expanded. A macro or constant that the file defines itself has the configuration's value there instead.
    Steps of one file share one text. Macros of `unused` are left out, so that one build serves all sizes with equal
    code.

    Raises SpaceError if an include is missing, and GeometryError if a derived value, a grid or a block cannot be
    computed.
    """
    space = instance.space
    if space.python_language is not None:
        from tuner.space.sources import python_steps  # other spaces need no Python's syntax

        return python_steps.steps(instance)
    try:
        names, geometries = named(instance), instance.geometries
        macros, kernels = _macros(space, names), _kernels(space, names)
        generated = None if space.generated is None else Path(braces.filled(str(space.generated), names))
        options = tuple(braces.filled(each, names) for each in space.compile_options.get(instance.problem.language, ()))
    except ExpressionError as error:
        raise GeometryError(str(error)) from None
    sources, head = dict[Path, Source](), _prologue(instance)
    unneeded = unused(space)
    macros = {name: value for name, value in macros.items() if name not in unneeded}
    for path in space.sources:
        text = f"{head}{source_text.rendered(space, path, macros, instance.problem.sizes, generated)}"
        own = dict.fromkeys(kernel for step, kernel in zip(space.steps, kernels, strict=True) if step.source == path)
        sources[path] = Source(text, tuple(own), options, space.compiler_of(instance.problem.language))
    return tuple(
        StepSource(sources[step.source], kernel, geometry, step.arguments)
        for step, kernel, geometry in zip(space.steps, kernels, geometries, strict=True)
    )


def defines(instance: Instance) -> str:
    """The macros of one configuration, one `#define` per line: types, parameters and derived values, without those
    passed as template arguments, and without flags that are false."""
    return _prologue(instance) + defined(macros(instance))


def macros(instance: Instance) -> dict[str, str]:
    """The macros of one configuration with their values. A flag whose value is false is no macro."""
    return _macros(instance.space, named(instance))


def _prologue(instance: Instance) -> str:
    chosen = {name: dtypes.canonical(str(instance.config[name])) for name in type_parameters(instance.space)}
    return dtypes.prologue({**instance.problem.types, **chosen}, instance.problem.language)


def _macros(space: Space, names: Mapping[str, Any]) -> dict[str, str]:
    values = {name: names[name] for name in source_text.macro_names(space)}
    undefined = _flags(space, [name for name, value in values.items() if value is False])
    return {name: braces.literal(value) for name, value in values.items() if name not in undefined}


def _flags(space: Space, names: Sequence[str]) -> frozenset[str]:
    """The macros among `names` that are flags in the sources of a space."""
    if not names or space.python_language is not None:
        return frozenset()
    codes = tuple(without_comments(source_text.of(space, path)) for path in space.sources)
    return frozenset(name for name in names if flags.is_flag(codes, name))


def may_be_false(space: Space, name: str) -> bool:
    """Whether a parameter has the value false, or a derived value is the result of a condition."""
    if name in space.derived:
        return _is_condition(space, space.derived[name].tree)
    return any(value is False for value in space.parameters.get(name, ()))


def _is_condition(space: Space, tree: ast.expr) -> bool:
    """Whether an expression may be false, not only 0."""
    if isinstance(tree, ast.BoolOp):
        return any(_is_condition(space, each) for each in tree.values)
    if isinstance(tree, ast.IfExp):
        return _is_condition(space, tree.body) or _is_condition(space, tree.orelse)
    if isinstance(tree, ast.Name):
        return may_be_false(space, tree.id)
    if isinstance(tree, ast.UnaryOp):
        return isinstance(tree.op, ast.Not)
    return isinstance(tree, ast.Compare) or (isinstance(tree, ast.Constant) and tree.value is False)


def unused(space: Space) -> frozenset[str]:
    """The derived values that depend on sizes and that no text of the space mentions."""
    candidates = space.sized_names & space.derived.keys()
    if not candidates or space.python_language is not None:
        return frozenset()
    return candidates.difference(*(words(source_text.of(space, path)) for path in space.sources))


def named(instance: Instance) -> Mapping[str, Any]:
    """The value of every name that braces may contain. The value of a type is its spelling in the language."""
    space, problem = instance.space, instance.problem
    chosen = {name: dtypes.canonical(str(instance.config[name])) for name in type_parameters(space)}
    types = {n: dtypes.spelling(dtype, problem.language) for n, dtype in {**problem.types, **chosen}.items()}
    values: Any = instance.names  # values are computed lazily
    return ChainMap(types, values)


def type_parameters(space: Space) -> tuple[str, ...]:
    """The parameters whose values are dtypes of scratch arrays."""
    return tuple(name for name in space.parameters if any(a.dtype == name for a in space.operation.scratch))


def kernels_of(instance: Instance) -> tuple[str, ...]:
    """The kernel name of each step in the configuration's text. Raises ExpressionError if a name is invalid."""
    return _kernels(instance.space, named(instance))


def _kernels(space: Space, names: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(braces.entry(step.kernel, names) for step in space.steps)


def _contents(space: Space, argument: Argument) -> tuple[str, ...]:
    """The text about an input's contents in a signature; empty if the contents are those of the first signature
    format."""
    if argument.fill is not None:
        return (f"fill {argument.fill.text}",)
    if not argument.is_array or argument.value or argument.role == "out":
        return ()
    choices = chosen_types.choices(argument, space.operation.types)
    return ("zeros among integers",) if any(dtype.kind == "integer" for dtype in choices) else ()


_VERSION = "version"  # an attribute of a Space


@dataclass(frozen=True)
class Version:
    """The hashes of a space as it is now: `code` and `signature`, as the functions of these names return them."""

    code: str
    signature: str

    def keep(self, space: Space) -> None:
        """Let `of` return this for a space whose files are known to be those of this version."""
        vars(space)[_VERSION] = self

    @staticmethod
    def of(space: Space) -> Version:
        if (kept := vars(space).get(_VERSION)) is not None:
            return cast(Version, kept)
        # A separator, so that text cannot move from the end of one file to the next unnoticed.
        text = "\0".join(source_text.canonical(space, path) for path in space.sources)
        return Version(_hash(_code(space, text)), _hash(_meaning(space, text)))


def code(space: Space) -> str:
    """The hash of everything that determines a configuration's behaviour: code without comments, arguments, geometry.

    Launches check only this hash, because the reference and the tolerance do not change the code. Adding parameter
    values or restrictions does not change it, because earlier measurements remain valid.
    """
    return Version.of(space).code


def signature(space: Space) -> str:
    """The hash of a configuration's meaning: its code, and the declared inputs, reference and tolerance.

    It does not include the contents of files that they read: see `identity.of`.
    """
    return Version.of(space).signature


def _meaning(space: Space, text: str) -> dict[str, object]:
    op = space.operation
    comparison = {"reference": op.reference.meaning, "tolerance": _tolerances(op)}
    derive = {"derive": sorted((name, e.text) for name, e in op.derive.items())} if op.derive else {}
    return {**_code(space, text, functools.partial(_contents, space)), **comparison, **derive}


def _tolerances(op: Operation) -> str | None:
    """The tolerances of an operation, for a signature; None if there are none.

    A single `atol` for all compared outputs is its text alone, as in the first signature format.
    """
    given = set(op.tolerance.values())
    if len(given) == 1 and op.tolerance.keys() >= set(op.compared):
        (tolerance,) = given
        if list(tolerance.terms) == ["atol"]:
            return tolerance.terms["atol"].text
    terms = {name: [(term, e.text) for term, e in t.terms.items()] for name, t in op.tolerance.items()}
    return str(sorted(terms.items())) if terms else None


def _code(
    space: Space, text: str, more: Callable[[Argument], tuple[str, ...]] = lambda argument: ()
) -> dict[str, object]:
    """The parts of `code`.

    text: the sources without comments.
    more: further parts of each argument.

    A key that a space does not use adds nothing, so that older files keep their hashes when a key is added.
    """
    first, *others = space.steps
    is_plain = (
        not others and first.arguments == space.operation.taken and first.cluster is None and not first.cooperative
    )
    steps: dict[str, object] = (
        {} if is_plain else {"steps": [_step(step, space.sources.index(step.source)) for step in space.steps]}
    )
    if space.order:
        steps["order"] = [loops.to_json(space.order), [step.when and step.when.text for step in space.steps]]
    undefined = sorted(_flags(space, [name for name in source_text.macro_names(space) if may_be_false(space, name)]))
    return {
        "kernel": first.kernel,
        "text": text,
        "options": sorted(space.compile_options.items()),
        "arguments": [
            (
                a.name,
                a.dtype,
                a.shape and [e.text for e in a.shape],
                a.role,
                *(e.text for e in a.value),
                *_optional(a),
                *more(a),
            )
            for a in space.operation.arguments
        ],
        "derived": [(name, e.text) for name, e in space.derived.items()],
        "geometry": [e.text for e in (*first.grid, *first.block, first.shared_memory)],
        **steps,
        **({"flags": undefined} if undefined else {}),
        **({"compiler": space.compiler} if space.compiler else {}),
        **({"timing": "returned"} if space.returns_time else {}),
        **({"generated": _generated(space.generated)} if space.generated is not None else {}),
    }


def _generated(path: Path) -> str:
    """A digest of all texts that were generated."""
    files = sorted(path.parent.glob(re.sub(r"\{\w+\}", "*", path.name)))
    return paths.digest(*(f"{file.name} {paths.digest(snapshot.read(file))}" for file in files))


def _step(step: Step, source: int) -> tuple[object, ...]:
    programmatic = ("programmatic",) if step.programmatic else ()
    return source, step.kernel, step.arguments, [e.text for e in step.expressions], step.cooperative, *programmatic


def _optional(argument: Argument) -> tuple[str, ...]:
    """The optional properties of an argument; empty if it declares none."""
    zeroed = () if argument.zeroed == "never" else (f"zeroed {argument.zeroed}",)
    strides = (f"strides {[e.text for e in argument.strides]}",) if argument.strides else ()
    fields = (f"fields [{'; '.join(field.text for field in argument.fields)}]",) if argument.fields else ()
    compared = () if argument.compared else ("not compared",)
    properties = (*zeroed, *strides, *fields, *compared)
    return properties if argument.kind is None else (*properties, kinds.text(argument.kind))


def _hash(meaning: Mapping[str, object]) -> str:
    return paths.digest(*(f"{key}={value}" for key, value in meaning.items()))
