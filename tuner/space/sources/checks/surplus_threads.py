"""Find parameters that give a launch more threads than the kernel needs, because each thread computes one element.

A warning is given only if the text proves it: the kernel uses the indices of an axis only as the global index of a
thread, which it compares with a bound, or not at all.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.errors import NoConfiguration, SpaceError
from tuner.space import loops
from tuner.space.config import Value
from tuner.space.default import declared_or_first
from tuner.space.expressions import braces
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import compiler_macros, source_text
from tuner.space.sources.includes import without_comments
from tuner.space.sources.preprocessor import remainder
from tuner.space.sources.prototype import prototypes
from tuner.space.sources.tokens import definitions, words
from tuner.space.step import Step

GROWTH = 1.5  # threads, relative: so many more are no rounding to whole blocks
_ELSEWHERE = re.compile(  # an index may be read in ways that this module does not follow
    r"\b(?:cub|thrust|cutlass)\b|cooperative_groups|this_thread_block|this_grid|%\w*(?:tid|laneid)|get_(?:global|local|group)_linear_id"
    r"|get_(?:global|local|group|num)_\w+ \( (?![012] \))|\b(?:threadIdx|blockIdx|blockDim|gridDim)\b(?! \. [xyz]\b)"
)
_INDEX = re.compile(r"\b(?:threadIdx|blockIdx)\b|\bget_(?:global|local|group)_id\b")
_GLOBAL_ID = "global_index_of_this_axis"
_CAST = r"(?:\( (?:\w+ )+\) |static_cast < [\w ]+ > )?"


def warnings(space: Space, *scopes: Scope) -> Iterator[str]:
    """A message for each axis of a step whose threads grow with a parameter without need, for each problem."""
    if not any(extent.names for step in space.steps for extent in (*step.grid, *step.block)):
        return
    if space.python_language is not None:  # its compiler divides the elements among the threads
        return
    try:
        suspects = [*_suspects(space)]
    except SpaceError:
        return  # reported where the source is rendered
    for scope in scopes if suspects else ():
        try:
            base = declared_or_first(space, scope)
        except (SpaceError, NoConfiguration):
            continue  # reported where the search lists its configurations
        for number, axis, name, is_read in suspects:
            if (growth := _growth(_threads(space, scope, base, name, number, axis), is_read)) is not None:
                yield _message(space, number, axis, name, growth)


def _suspects(space: Space) -> Iterator[tuple[int, int, str, bool]]:
    """Each step, by its number, and axis of it whose threads depend on a parameter that the kernel does not use, that
    parameter, and whether the kernel reads the axis. Raises SpaceError if the source cannot be rendered."""
    for number, step in enumerate(space.steps):
        text = _text(space, step)
        for axis in range(3) if text and not _ELSEWHERE.search(text) else ():
            rest = _without_global_index(text, step, axis)
            names = space.parameters_behind([*step.grid[axis].names, *step.block[axis].names])
            for name in names if rest is not None else ():
                if not _is_used(space, name, str(rest)):
                    # Without any index, it is meant to be serial.
                    yield number, axis, name, rest != text or not _INDEX.search(text)


def _text(space: Space, step: Step) -> str:
    """The tokens of a step's kernel and of all functions of its source, joined by blanks; empty if unknown.

    Template parameters are replaced by the names that the kernel's name passes for them.
    """
    language = "cuda" if "cuda" in space.languages else space.languages[0]  # portable code says the same in both
    read = compiler_macros.read_by(language, source_text.device(space, step.source))
    rest = remainder(without_comments(read), "__OPENCL_VERSION__", None)
    if rest is None or "##" in "".join(rest.lines):
        return ""
    code = "\n".join(rest.lines)
    kernels = [each for each in prototypes(code) if each.is_kernel]
    own = [each for each in kernels if re.fullmatch(braces.pattern(step.kernel), each.name)]
    if len(own) != 1:
        return ""
    others = {each.body for each in kernels if each is not own[0]}
    bodies = [" ".join(body) for _, _, _, _, body in definitions(words(code)) if body not in others]
    macros = re.findall(r"^\s*#\s*define\s+\w+\(.*", code, re.MULTILINE)  # all others are expanded
    passed = [part.strip(" {}") for part in step.kernel.partition("<")[2].rpartition(">")[0].split(",")]
    text = " ; ".join([*bodies, *(" ".join(words(macro.replace("#", " "))) for macro in macros)])
    for parameter, name in zip(own[0].template or (), passed, strict=False):
        text = re.sub(rf"\b{parameter}\b", name, text)
    return _without_aliases(_with_getters(text, code))


def _with_getters(text: str, code: str) -> str:
    """`text` with the calls of functions that only return an expression replaced by it, and without these functions;
    `text` itself if it names one of them in another way."""
    getters, replaced = dict(_getters(code)), text
    for value in getters.values():
        replaced = replaced.replace(f"return {value} ;", "", 1)
    for _ in getters:
        for name, value in getters.items():
            replaced = re.sub(rf"\b{name} \( \)", f"( {value} )".replace("\\", r"\\"), replaced)
    values = [*getters.values()]
    is_unlike = len({*values}) < len(values) or any(text.count(f"return {value} ;") != 1 for value in values)
    is_left = any(re.search(rf"\b{name}\b", replaced) for name in getters)
    return text if is_unlike or is_left else replaced


def _getters(code: str) -> Iterator[tuple[str, str]]:
    """The functions without parameters that only return an expression, such as the index of a thread, and that."""
    for _, name, parameters, _, body in definitions(words(code)):
        found = re.fullmatch(r"(?:\{ )?return ([^;]+) ;(?: \})?", " ".join(body))
        if found and parameters in ([], ["void"]):
            yield name, found[1]


def _without_aliases(text: str) -> str:
    """`text` with variables that only hold an index, such as `int tx = threadIdx.x;`, replaced by that index."""
    index = r"((?:threadIdx|blockIdx|blockDim|gridDim) \. [xyz]|get_(?:local|group|global)_(?:id|size) \( [012] \))"
    for name, value in re.findall(rf"\b(\w+) = {_CAST}{index} [;,]", text):
        if len(re.findall(rf"\b{name} (?:[-+*/%&|^]|<<|>>)?= (?!=)", text)) == 1:
            text = re.sub(rf"\b{name}\b(?! = )", value, text)
            text = re.sub(rf"\b{name} = {_CAST}{re.escape(value)} ", f"{name} ", text)
    return text


def _without_global_index(text: str, step: Step, axis: int) -> str | None:
    """`text` without what reads the indices of an axis; None if anything but the global index of a thread reads them,
    or if that is compared with nothing."""
    dimension, letter = f"\\( {axis} \\)", "xyz"[axis]
    thread = _atom(rf"threadIdx \. {letter}|get_local_id {dimension}")
    block = _atom(rf"blockIdx \. {letter}|get_group_id {dimension}")
    threads = re.escape(" ".join(words(step.block[axis].text)))
    width = _atom(rf"blockDim \. {letter}|get_local_size {dimension}|{threads}")
    product = rf"(?:\( )?(?:{block} \* {width}|{width} \* {block})(?: \))?"
    index = rf"(?:{product} \+ {thread}|{thread} \+ {product}|get_global_id {dimension})(?! [*/%])"
    replaced = re.sub(index, _GLOBAL_ID, text)
    if re.search(rf"\b(?:threadIdx|blockIdx|blockDim|gridDim) \. {letter}\b|\bget_\w+ {dimension}", replaced):
        return None
    if replaced == text:
        return text
    names = [_GLOBAL_ID, *re.findall(rf"\b(\w+) = [^;]*\b{_GLOBAL_ID}\b", replaced)]
    either = "|".join(names)
    is_bounded = re.search(rf"\b(?:{either})\b \)?\s?(?:<|> =) (?!<)|(?:(?<!>) >|< =) (?:{either})\b", replaced)
    return replaced if is_bounded else None


def _atom(pattern: str) -> str:
    """`pattern` with or without a cast or parentheses."""
    return rf"{_CAST}(?:\( )?(?:{pattern})(?: \))?"


def _is_used(space: Space, name: str, text: str) -> bool:
    """Whether a parameter reaches the kernel: in its text, as an argument, in a shape, or by a compiler option."""
    of_arguments = [
        expression.names
        for argument in space.operation.arguments
        for expression in (*(argument.shape or ()), *argument.value, *argument.strides)
    ]
    options = " ".join(option for options in space.compile_options.values() for option in options)
    found = {*re.findall(r"[A-Za-z_]\w*", f"{text} {options}")}.union(*of_arguments)
    return name in space.parameters_behind(found)


def _threads(
    space: Space, scope: Scope, base: Mapping[str, Value], name: str, number: int, axis: int
) -> list[tuple[int, int, Value]]:
    """For each valid value of a parameter: the threads of an axis, those of its blocks, and the value."""
    found: list[tuple[int, int, Value]] = []
    for value in space.parameters[name]:
        config = {**base, name: value}
        with contextlib.suppress(SpaceError):  # a configuration without a geometry fails when it is tried
            if space.valid(config, scope):
                geometry = Instance(space, config, scope).geometries[number]
                found.append((geometry.grid[axis] * geometry.block[axis], geometry.block[axis], value))
    return found


def _growth(found: Sequence[tuple[int, int, Value]], is_read: bool) -> list[tuple[Value, int]] | None:
    """The values of a parameter with the fewest and the most threads of an axis, each with that number; None if these
    differ by no more than what fills whole blocks of an axis whose index the kernel reads."""
    if len(found) < 2:
        return None
    (least, _, first), (most, _, last) = min(found, key=_first), max(found, key=_first)
    if most < GROWTH * least or (is_read and most - least < max(block for _, block, _ in found)):
        return None
    return [(first, least), (last, most)]


def _first(found: tuple[int, int, Value]) -> int:
    return found[0]


def _message(space: Space, number: int, axis: int, name: str, growth: list[tuple[Value, int]]) -> str:
    (first, least), (last, most) = growth
    key = ".".join(map(str, loops.place(space.order, number)))
    place = "grid" if len(space.steps) == 1 and not space.order else f"steps.{key}.grid"
    return (
        f"{space.origin}: {place}: {most:,} threads in {'xyz'[axis]} at {name}={last}, {least:,} at "
        f"{name}={first}, but no index of {space.steps[number].kernel} uses {name}, so the others do nothing of use; "
        f"divide the blocks by {name}, as ceil_div does"
    )
