"""Check that `__launch_bounds__` asks for no more blocks than a multiprocessor can hold, which compilers ignore."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from tuner.errors import ExpressionError
from tuner.space import expressions
from tuner.space.expressions import Expression
from tuner.space.model import Restriction, Space
from tuner.space.scope import Limits, Scope
from tuner.space.sources.checks.uses import MacroFault
from tuner.space.sources.prototype import Prototype

# Maximum number of resident threads per multiprocessor, by compute capability: NVRTC 13 keeps launch bounds of 512
# threads and 2, 3 or 4 blocks up to these.
_THREADS = {7.5: 1024, 8.0: 2048, 8.6: 1536, 8.7: 1536, 8.8: 1536, 8.9: 1536, 9.0: 2048, 10.0: 2048, 10.3: 2048}
_THREADS |= {11.0: 1536, 12.0: 1536, 12.1: 1536}
MOST_THREADS = max(_THREADS.values())
_THREADS_OF_A_BLOCK = 1024
_MOST_COMBINATIONS, _MOST_DEPTH = 10_000, 12
_OF_GRIDS = frozenset(f"max_grid_{axis}" for axis in "xyz")  # small sizes are within what a device's grids may have
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[ \t]+(.*))?$", re.MULTILINE)


def faults(space: Space, prototype: Prototype, code: str) -> Iterator[MacroFault]:
    """The fault of launch bounds that ask for more blocks than a multiprocessor of any GPU that the space allows holds.

    It is named where the launch bounds depend on parameters alone, in a configuration that all restrictions allow that
    have to do with these parameters. A restriction on a size is taken not to. `code` is the source without comments.
    """
    if "cuda" not in space.languages or len(prototype.bounds) < 2:
        return
    macros = _macros(space, code)
    try:
        threads, blocks = (_expression(text, macros) for text in prototype.bounds[:2])
    except ExpressionError:
        return
    names = threads.names | blocks.names
    if not names or not _are_parameters(space, names):
        return
    known = space.parameters_behind(names)
    others, conditions = _related(space, frozenset(known))
    scope = space.operation.own(Scope(sizes={}, options={}, language="cuda", limits=_largest(space)))
    most = _THREADS[scope.limits.compute_capability]
    alone = [each for each in conditions if {*space.parameters_behind(each.that.names)} <= {*known}]
    found = _excessive(space, scope, known, (threads, blocks), most)
    excessive = [each for each in found if space.satisfies(each[0], scope, alone)]
    if not excessive:
        return
    tried = ((config, *asked) for config in _combinations(space, others) for asked in excessive)
    for other, own, per_block, least in islice(tried, _MOST_COMBINATIONS):
        if space.satisfies({**other, **own}, scope, conditions):
            message = (
                f"__launch_bounds__ of {prototype.name} asks for {least} blocks of {per_block} threads per "
                f"multiprocessor, which has at most {most} threads: the compiler ignores it, and does not limit "
                f"registers; add the restriction `{_factor(threads.text)} * {_factor(blocks.text)} <= {most}`"
            )
            yield ("parameters", (space.parameters_behind(blocks.names) or known)[0]), message
            return


def _excessive(
    space: Space, scope: Scope, known: Sequence[str], bounds: tuple[Expression, Expression], most: int
) -> Iterator[tuple[Mapping[str, Any], int, int]]:
    """The values of the parameters `known` with more threads than `most`: threads per block, and blocks."""
    for config in _combinations(space, known):
        values = space.names(config, scope)
        try:
            per_block, least = (bound.integer(values) for bound in bounds)
        except ExpressionError:
            continue
        if per_block <= _THREADS_OF_A_BLOCK and per_block * least > most:
            yield config, per_block, least


def _largest(space: Space) -> Limits:
    """Of the GPUs that the space allows, the one whose multiprocessors hold most threads."""
    required = [each for each in space.restrictions if each.that.names - {"language"} == {"compute_capability"}]
    gpus = [Limits(compute_capability=each) for each in sorted(_THREADS, key=lambda each: -_THREADS[each])]
    scopes = (Scope(sizes={}, options={}, language="cuda", limits=gpu) for gpu in gpus)
    return next((each.limits for each in scopes if space.satisfies({}, each, required)), gpus[0])


def _macros(space: Space, code: str) -> Mapping[str, str]:
    """The macros without parameters that `code` defines once, and that no configuration defines."""
    found = [(name, text) for name, text in _MACRO.findall(code) if text]
    counts = Counter(name for name, _ in found)
    options = " ".join(space.compile_options.get("cuda", ()))
    others = {*space.parameters, *space.derived, *re.findall(r"-D\s*(\w+)", options)}
    return {name: text for name, text in found if counts[name] == 1 and name not in others}


def _expression(text: str, macros: Mapping[str, str]) -> Expression:
    """The number that `text` is in C, with its macros expanded. Raises ExpressionError if it is none."""
    for _ in range(_MOST_DEPTH):
        text = re.sub(r"[A-Za-z_]\w*", lambda name: _factor(macros.get(name[0], name[0])), text)
    return expressions.parse(text.replace("/", "//"))  # C divides whole numbers without a remainder


def _are_parameters(space: Space, names: frozenset[str]) -> bool:
    """Whether `names` are parameters, or derived values that depend on parameters alone."""
    return all(
        name in space.parameters or (name in space.derived and _are_parameters(space, space.derived[name].names))
        for name in names
    )


def _related(space: Space, names: frozenset[str]) -> tuple[list[str], list[Restriction]]:
    """The other parameters that restrictions relate to the parameters `names`, and these restrictions."""
    known, conditions = {*names}, list[Restriction]()
    restrictions = [each for each in space.restrictions if each.that.names.isdisjoint(_OF_GRIDS)]
    behind = [({*space.parameters_behind(each.that.names)}, each) for each in restrictions]
    while more := [each for each in behind if each[1] not in conditions and each[0] & known]:
        for parameters, restriction in more:
            known |= parameters
            conditions.append(restriction)
    return sorted(known - names), conditions


def _combinations(space: Space, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    values = product(*(space.parameters[name] for name in names))
    return (dict(zip(names, each, strict=True)) for each in islice(values, _MOST_COMBINATIONS))


def _factor(text: str) -> str:
    return text if re.fullmatch(r"\w+|\([^()]*\)", text) else f"({text})"
