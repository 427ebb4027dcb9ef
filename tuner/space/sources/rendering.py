"""A configuration as the text that a compiler reads. Nothing else makes such text."""

from __future__ import annotations

import functools
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.errors import ExpressionError, GeometryError
from tuner.space import dtypes, kinds
from tuner.space.argument import Argument
from tuner.space.expressions import braces
from tuner.space.model import Space, Step
from tuner.space.sources.includes import defined, inlined, without_comments, words
from tuner.space.sources.source import Source, StepSource

if TYPE_CHECKING:
    from tuner.space.model import Operation

if TYPE_CHECKING:
    from tuner.space.instance import Instance


def render(instance: Instance) -> tuple[StepSource, ...]:
    """The steps of one configuration. A text consists of types, parameters and derived values as macros, then a kernel
    file with its includes expanded; steps of one file share it. It has no macros of `unused`, so that one build serves
    all sizes where the code is the same.

    Raises SpaceError if an include is missing, GeometryError if a derived value, a grid or a block cannot be computed.
    """
    space = instance.space
    try:
        names, geometries = named(instance), instance.geometries
        macros, kernels = _macros(space, names), _kernels(space, names)
        options = tuple(braces.filled(each, names) for each in space.compile_options.get(instance.problem.language, ()))
    except ExpressionError as error:
        raise GeometryError(str(error)) from None
    sources, head = dict[Path, Source](), _prologue(instance)
    needless = unused(space)
    macros = {name: value for name, value in macros.items() if name not in needless}
    for path in space.sources:
        text = f'{head}{defined(macros)}#line 1 "{path.name}"\n{inlined(path, space.include, macros)}'
        own = dict.fromkeys(kernel for step, kernel in zip(space.steps, kernels, strict=True) if step.source == path)
        sources[path] = Source(text, tuple(own), options)
    return tuple(
        StepSource(sources[step.source], kernel, geometry, step.arguments)
        for step, kernel, geometry in zip(space.steps, kernels, geometries, strict=True)
    )


def defines(instance: Instance) -> str:
    """The macros of one configuration, one `#define` per line: types, parameters and derived values, but not those
    that a template takes."""
    return _prologue(instance) + defined(_macros(instance.space, named(instance)))


def _prologue(instance: Instance) -> str:
    chosen = {name: dtypes.canonical(str(instance.config[name])) for name in type_parameters(instance.space)}
    return dtypes.prologue({**instance.problem.types, **chosen}, instance.problem.language)


def _macros(space: Space, names: Mapping[str, Any]) -> dict[str, str]:
    return {name: braces.literal(names[name]) for name in macro_names(space)}


def unused(space: Space) -> frozenset[str]:
    """The derived values that depend on sizes, and that no text of the space names."""
    candidates = space.sized_names & space.derived.keys()
    if not candidates:
        return candidates
    return candidates.difference(*(words(inlined(path, space.include)) for path in space.sources))


def macro_names(space: Space) -> tuple[str, ...]:
    """The names of the macros: what a template takes is none, because the source uses these names."""
    template = set[str]().union(*(braces.template_names(step.kernel) for step in space.steps))
    names = (*space.operation.types, *space.parameters, *space.derived)
    return tuple(name for name in names if name not in template)


def named(instance: Instance) -> Mapping[str, Any]:
    """The value of every name that braces may hold; of a type, what the language calls it."""
    space, problem = instance.space, instance.problem
    chosen = {name: dtypes.canonical(str(instance.config[name])) for name in type_parameters(space)}
    types = {n: dtypes.spelling(dtype, problem.language) for n, dtype in {**problem.types, **chosen}.items()}
    values: Any = instance.names  # computed when they are read
    return ChainMap(types, values)


def type_parameters(space: Space) -> tuple[str, ...]:
    """The parameters whose values are the types of scratch."""
    return tuple(name for name in space.parameters if any(a.dtype == name for a in space.operation.scratch))


def kernels_of(instance: Instance) -> tuple[str, ...]:
    """The name of each step's kernel in the text of a configuration. Raises ExpressionError if one has none."""
    return _kernels(instance.space, named(instance))


def _kernels(space: Space, names: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(braces.entry(step.kernel, names) for step in space.steps)


def _contents(space: Space, argument: Argument) -> tuple[str, ...]:
    """What an input holds, where that is not what inputs have held since there are signatures."""
    if argument.fill is not None:
        return (f"fill {argument.fill.text}",)
    if not argument.is_array or argument.value or argument.role == "out":
        return ()
    types = space.operation.types.get(argument.dtype, (argument.dtype,))
    return ("zeros among integers",) if any(dtypes.DTYPES[name].kind == "integer" for name in types) else ()


@dataclass(frozen=True)
class Version:
    """The names of a space as it is now: of its `code`, and of what it means."""

    code: str
    signature: str

    @staticmethod
    def of(space: Space) -> Version:
        # Each file is a program of its own: what stands at the end of one is not the beginning of the next.
        text = "\0".join(without_comments(inlined(path, space.include)) for path in space.sources)
        return Version(_name(_code(space, text)), _name(_meaning(space, text)))


def code(space: Space) -> str:
    """The name of what a configuration of this space is: code without comments, arguments, geometry.

    A launcher asks for no more: what the answers were compared with changes no code. Adding values or restrictions does
    not change it, because earlier measurements stay true.
    """
    return Version.of(space).code


def signature(space: Space) -> str:
    """The name of what a configuration of this space means: its code, and what inputs, reference and tolerance say.

    The contents of files that these read are no part of it: see `identity.of`.
    """
    return Version.of(space).signature


def _meaning(space: Space, text: str) -> dict[str, object]:
    op = space.operation
    comparison = {"reference": op.reference.meaning, "tolerance": _tolerances(op)}
    derive = {"derive": sorted((name, e.text) for name, e in op.derive.items())} if op.derive else {}
    return {**_code(space, text, functools.partial(_contents, space)), **comparison, **derive}


def _tolerances(op: Operation) -> str | None:
    """The tolerances of an operation as a signature has them: a bare expression as itself, None where there is none."""
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
    """What code consists of, whose `text` has no comments, with `more` about each argument. What a file does not use is
    no part of it, so that files which are older than a key keep their names."""
    first, *others = space.steps
    every = tuple(a.name for a in space.operation.arguments)
    is_plain = not others and first.arguments == every and first.cluster is None and not first.cooperative
    steps = {} if is_plain else {"steps": [_step(step, space.sources.index(step.source)) for step in space.steps]}
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
                *_own(a),
                *more(a),
            )
            for a in space.operation.arguments
        ],
        "derived": [(name, e.text) for name, e in space.derived.items()],
        "geometry": [e.text for e in (*first.grid, *first.block, first.shared_memory)],
        **steps,
    }


def _step(step: Step, source: int) -> tuple[object, ...]:
    return source, step.kernel, step.arguments, [e.text for e in step.expressions], step.cooperative


def _own(argument: Argument) -> tuple[str, ...]:
    """What an argument says that plain ones do not."""
    zeroed = () if argument.zeroed == "never" else (f"zeroed {argument.zeroed}",)
    strides = (f"strides {[e.text for e in argument.strides]}",) if argument.strides else ()
    own = (*zeroed, *strides)
    return own if argument.kind is None else (*own, kinds.text(argument.kind))


def _name(meaning: Mapping[str, object]) -> str:
    return paths.digest(*(f"{key}={value}" for key, value in meaning.items()))
