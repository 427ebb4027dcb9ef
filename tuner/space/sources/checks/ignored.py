"""Check for settings that a compiler ignores without an error: pragmas unknown to GCC, loops that NVRTC is to unroll 0
times, limits of registers, and launch bounds that cannot be kept."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from tuner.errors import ExpressionError
from tuner.space import expressions
from tuner.space.model import Restriction, Space
from tuner.space.scope import COMMON_GPU, Scope
from tuner.space.sources.checks.uses import MacroFault, key
from tuner.space.sources.preprocessor import remainder
from tuner.space.sources.prototype import Prototype
from tuner.space.sources.source_text import macro_names

UNROLL = "#define PRAGMA(text) _Pragma(#text) and #define UNROLL(n) PRAGMA(GCC unroll n)"
_REGISTERS = re.compile(r"--?maxrregcount\b=?(?:\{(\w+)\})?")
_PRAGMA = re.compile(r"\s*#\s*pragma\s+(\w+)(.*)")
_MOST_THREADS = 2048  # of a multiprocessor: no GPU has room for more
_MOST_THREADS_OF_A_BLOCK = 1024
_MOST_COMBINATIONS = 10_000
_KNOWN_TO_GCC = {"omp", "GCC", "acc", "STDC", "pack", "push_macro", "pop_macro", "redefine_extname", "weak", "message"}


def registers(space: Space, position: int, prototype: Prototype) -> Iterator[MacroFault]:
    """The fault of an option that limits registers, where the kernel of a step has launch bounds or the limit is 0."""
    for number, option in enumerate(space.compile_options.get("cuda", ())):
        if (limit := _REGISTERS.match(option)) is None:
            continue
        step = space.steps[position]
        if prototype.has_launch_bounds:
            message = (
                f"{option} has no effect on {step.kernel} in {step.source.name}, which has __launch_bounds__; give "
                "these a second argument, the least number of blocks per multiprocessor, or remove one of the two"
            )
            yield ("compile_options", "cuda", number), message
        elif 0 in space.parameters.get(limit[1], ()):
            least = "the fewest registers that it can use, such as 24 on an H100"
            message = f'0 in {option} is not "no limit": NVRTC limits to {least}; write 255, which limits nothing'
            yield ("parameters", limit[1]), message


def resident_blocks(space: Space, prototype: Prototype) -> Iterator[MacroFault]:
    """The fault of launch bounds that ask for more blocks than a multiprocessor can hold.

    It is named where the launch bounds depend on parameters alone, in a configuration that all restrictions allow that
    have to do with these parameters. A restriction on a size is taken not to.
    """
    blocks = prototype.resident
    if "cuda" not in space.languages or blocks not in space.parameters:
        return
    try:
        threads = expressions.parse(
            prototype.block[0].replace("/", "//")
        )  # C divides whole numbers without a remainder
    except ExpressionError:
        return
    names = threads.names | {blocks}
    if not names <= space.parameters.keys():
        return
    others, conditions = _related(space, names)
    scope = Scope(sizes={}, options={}, language="cuda", limits=COMMON_GPU)
    for config in _combinations(space, [*others, *sorted(names)]):
        try:
            per_block, least = threads.integer(config), config[blocks]
        except ExpressionError:
            continue
        if not isinstance(least, int) or per_block > _MOST_THREADS_OF_A_BLOCK or per_block * least <= _MOST_THREADS:
            continue
        if space.satisfies(config, scope, conditions):
            message = (
                f"__launch_bounds__ of {prototype.name} asks for {least} blocks of {per_block} threads per "
                f"multiprocessor, which has at most {_MOST_THREADS} threads: the compiler ignores it, and the kernel "
                f"gets as many registers as with {blocks}=1; add the restriction `{_factor(threads.text)} * {blocks} "
                f"<= {_MOST_THREADS}`"
            )
            yield ("parameters", blocks), message
            return


def _related(space: Space, names: frozenset[str]) -> tuple[list[str], list[Restriction]]:
    """The other parameters that restrictions relate to the parameters `names`, and these restrictions."""
    known, conditions = {*names}, list[Restriction]()
    behind = [({*space.parameters_behind(each.that.names)}, each) for each in space.restrictions]
    while more := [each for each in behind if each[1] not in conditions and each[0] & known]:
        for parameters, restriction in more:
            known |= parameters
            conditions.append(restriction)
    return sorted(known - names), conditions


def _combinations(space: Space, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    values = product(*(space.parameters[name] for name in names))
    return (dict(zip(names, each, strict=True)) for each in islice(values, _MOST_COMBINATIONS))


def _factor(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def pragmas(space: Space, codes: Sequence[str]) -> Iterator[MacroFault]:
    """Macros in pragmas that GCC does not know. `codes` are the sources without comments."""
    if "c" not in space.languages:
        return
    for name in macro_names(space):
        for word, rest in filter(None, (_certain_pragma(code, name) for code in codes)):
            cure = f"UNROLL({name}), with {UNROLL}" if word == "unroll" else "a pragma that GCC knows"
            yield (key(space, name), name), f"GCC ignores `#pragma {word}{rest}`; write {cure}"


def unrolled(space: Space, codes: Sequence[str]) -> Iterator[MacroFault]:
    """Parameters whose value NVRTC ignores in `#pragma unroll`. `codes` are the sources without comments."""
    if "cuda" not in space.languages:
        return
    for name in set(macro_names(space)).intersection(space.parameters):
        ignored = [value for value in space.parameters[name] if type(value) is int and value < 1]
        pragmas = (_certain_pragma(code, name) for code in codes if ignored)
        if any(found and found[0] == "unroll" and found[1].strip(" ()") == name for found in pragmas):
            message = (
                f"{ignored[0]}: NVRTC ignores `#pragma unroll {ignored[0]}` and may unroll the whole loop; 1 keeps the "
                f"loop as it is; remove {ignored[0]}, or write the pragma under `#if {name} > 0`"
            )
            yield (key(space, name), name), message


def _certain_pragma(code: str, name: str) -> tuple[str, str] | None:
    """The first word and the rest of a pragma with macro `name` that GCC ignores; None if none is certain to be
    reached."""
    rest, depth = remainder(code, name, name), 0
    for line in rest.lines if rest is not None else ():
        depth += line.startswith("#if ") - (line == "#endif")
        pragma = _PRAGMA.fullmatch(line)
        if depth == 0 and pragma and pragma[1] not in _KNOWN_TO_GCC and re.search(rf"\b{name}\b", pragma[2]):
            return pragma[1], pragma[2]
    return None
