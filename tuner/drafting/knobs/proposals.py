"""Proposes knobs: template parameters, integer macros and constants, and undefined names, each with likely values."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.classes import dataclass
from tuner.space.sources.definitions import is_outside

MOST_OF_A_FILTER = 32  # elements along an axis
MOST_AROUND = 1024  # the largest power of two proposed around a smaller value
_MACRO = re.compile(
    r"(?P<guard>^[ \t]*#[ \t]*if(?:ndef[ \t]+(?P<a>\w+)|[ \t]+!\s*defined\s*\(?\s*(?P<b>\w+)\s*\)?)[ \t]*\n)?"
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+\(?(?P<value>\d+)[uUlL]*\)?[ \t]*$",
    re.MULTILINE,
)
_CONSTANT = re.compile(
    r"^[ \t]*(?=[^;\n]*\bconst)(?:(?:static|inline|constexpr|const|__device__|unsigned|signed|long|short|int|size_t"
    r"|auto|uint|u?int\d+_t)\s+)+(?P<name>\w+)\s*=\s*(?P<value>\d+)[uUlL]*\s*;"
    r"|^[ \t]*enum\s*\{\s*(?P<enumerator>\w+)\s*=\s*(?P<number>\d+)\s*,?\s*\}\s*;",
    re.MULTILINE,
)
_COMPARED_WITH_NUMBER = re.compile(r"\b([A-Za-z_]\w*)\s*[=!]=\s*\d")
_BLOCK = (64, 128, 256, 512)  # guessed threads of a block along one axis
_OTHER = (1, 2, 4, 8)  # guessed values of anything else
_FACTOR = r"(?:\w+(?:\s*\.\s*\w+)?|\([^()]*\)|\w+\s*\([^()]*\))"
_PRODUCT = rf"{_FACTOR}(?:\s*\*\s*{_FACTOR})+"
_NEAR = 200  # characters between related tokens; bounds the time of a match
_IN_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_OF_LAUNCH = re.compile(r"\bblockDim\b|\bget_local_size\b")  # other factors are elements of a thread
_BLOCK_NAME = re.compile(
    r"(?i)k?_?(block|threads?|n_?threads|num_?threads|tpb|wg|work_?group|local|bdim)(_?(size|dim|items))?_?([xyz]?)"
)


_SIZE_NAME = re.compile(
    r"(?i)(?:^|_)(?:n|m|k|n[xyzijk]|width|height|rows?|cols?|columns|dim[xyz]?|length|len|count|size|points|num_\w+)(?:_|$)"
)
_OF_A_TILE = re.compile(
    r"(?i)block|thread|tile|warp|wave|group|wg|unroll|step|chunk|vec|radius|local|bins|batch|stage|items|per_|coarse|pad"
)


@dataclass(frozen=True)
class Knob:
    """A proposed parameter: its values, the source's value as default, a question and a remark (empty if none)."""

    values: tuple[int | bool | str, ...]
    default: int | bool | str
    question: str = ""
    remark: str = ""


def of_template(
    kinds: Mapping[str, str], defaults: Mapping[str, str], words: Mapping[str, Sequence[str]]
) -> dict[str, Knob]:
    """Knobs for non-type template parameters.

    kinds, defaults: their types, and their defaults in the source.
    words: the enumerators of each parameter whose type is an enumeration.
    """
    return {name: _template_knob(name, kind, defaults.get(name), words.get(name)) for name, kind in kinds.items()}


def _template_knob(name: str, kind: str, default: str | None, words: Sequence[str] | None) -> Knob:
    if words:
        return Knob(tuple(words), next((word for word in words if word == default), words[0]))
    if kind == "bool":
        values = {"true": True, "1": True, "false": False, "0": False}
        return Knob((False, True), values.get(default or "", False))
    terms = re.fullmatch(r"(\d+)[uUlL]*(?: ([*/]) (\d+))?", default or "")
    if terms and terms[3] != "0":
        first, other = int(terms[1]), int(terms[3] or "1")
        number = first // other if terms[2] == "/" else first * other
        return Knob(around(number), number)
    return guessed(name, f"its default is `{default}`" if default else "it has no default in the source")


def guessed(name: str, why: str) -> Knob:
    """A knob with guessed values, and a question that says `why`."""
    values, default = (_BLOCK, 256) if axis_of(name) else (_OTHER, 1)
    return Knob(values, default, f"which values may it have? {why}")


def launchable(knobs: Mapping[str, Knob], block: Sequence[str] = ()) -> dict[str, Knob]:
    """Knobs whose guessed values are small enough that a block of several axes can be launched.

    block: the extents of the block. A knob that is one of them is a block size, whatever its name.
    """
    of_block = [name for name, knob in knobs.items() if name in block and knob.values == _OTHER and knob.question]
    guesses = [name for name, knob in knobs.items() if axis_of(name) and knob.values == _BLOCK] + of_block
    if not of_block and len(guesses) < 2:
        return dict(knobs)
    values, default = (_BLOCK, 256) if len(guesses) < 2 else ((8, 16, 32), 16) if len(guesses) == 2 else ((4, 8, 16), 8)
    return {**knobs, **{name: replace(knobs[name], values=values, default=default) for name in guesses}}


def within_limit(found: Mapping[str, Knob], block: Sequence[str]) -> dict[str, Knob]:
    """Knobs with smaller values where the defaults make a `block` that no device launches."""
    found, names = dict(found), [name for extent in block for name in re.findall(r"[A-Za-z_]\w*", extent)]
    while (threads := _threads(found, block)) > MOST_AROUND:
        largest = max((n for n in names if n in found), key=lambda name: int(found[name].default), default=None)
        if largest is None or int(found[largest].default) < 2:
            break
        half = int(found[largest].default) // 2
        ask = f"a block has at most {MOST_AROUND} threads, but with the source's numbers {threads}: which are right?"
        found[largest] = Knob(around(half), half, found[largest].question or ask)
    return found


def _threads(found: Mapping[str, Knob], block: Sequence[str]) -> int:
    """The threads of a block with the defaults of its knobs; 0 if an extent is no product of knobs and numbers."""
    factors = [factor.strip() for extent in block for factor in extent.split("*")]
    numbers = [
        int(factor) if factor.isdecimal() else found[factor].default
        for factor in factors
        if factor in found or factor.isdecimal()
    ]
    return math.prod(map(int, numbers)) if len(numbers) == len(factors) else 0


def of_code(code: str, taken: Collection[str]) -> Iterator[tuple[str, Knob]]:
    """Knobs for the integer macros and constants that `code` defines and uses, except for the names `taken`."""
    for macro in _MACRO.finditer(code):
        name, value = macro["name"], int(macro["value"])
        if name not in taken and _words(code)[name] > (2 if macro["guard"] else 1):
            yield name, Knob((0, 1) if value == 1 and _is_condition(code, name) else _likely(code, name, value), value)
    for constant in _CONSTANT.finditer(code):
        name, value = constant["name"] or constant["enumerator"], int(constant["value"] or constant["number"])
        if name not in taken and _words(code)[name] > 1 and is_outside(code, constant.start()):
            rest = f"{code[: constant.start()]}\n{code[constant.end() :]}"
            yield name, Knob(_likely(rest, name, value), value)


def _is_condition(code: str, name: str) -> bool:
    """Whether a code uses a macro only as a condition, as in `#if USE_SHARED` or `if (USE_SHARED)`."""
    uses = re.sub(rf"^[ \t]*#[ \t]*(?:define|undef|ifn?def)[ \t]+{name}\b.*$", "", code, flags=re.MULTILINE)
    before, after = r"(?:\bif\b\s*(?:constexpr\b)?\s*\(?|&&|\|\||!)\s*", r"\s*(?:$|\)|\?|&&|\|\|)"
    rest = re.sub(rf"{before}\b{name}\b(?={after})|\b{name}\b(?=\s*\?)", "", uses, flags=re.MULTILINE)
    return re.search(rf"\b{name}\b", rest) is None


def _likely(code: str, name: str, value: int) -> tuple[int, ...]:
    """The numbers with which a code compares a name, as in `#if METHOD == 2`, if it only chooses among codes; else
    values around that of the source."""
    if name not in _COMPARED_WITH_NUMBER.findall(code):
        return around(value)
    uses = re.sub(rf"^[ \t]*#[ \t]*(?:define|undef|ifn?def)[ \t]+{name}\b.*$", "", code, flags=re.MULTILINE)
    compared = rf"(?<![-+*/%<>] )(?<![-+*/%<>])\b{name}\s*[=!]=\s*(\d+)[uU]?\b(?![.\w])"
    numbers = {value, *map(int, re.findall(compared, uses))}
    is_choice = len(numbers) > 1 and re.search(rf"\b{name}\b", re.sub(compared, "", uses)) is None
    return tuple(sorted(numbers)) if is_choice else around(value)


@functools.lru_cache(maxsize=8)
def _words(code: str) -> Counter[str]:
    """How often each word is in a code."""
    return Counter(re.findall(r"\w+", code))


def axis_of(name: str) -> str:
    """The axis (x, y or z) if this name looks like a block size, such as `block_size_y`; else empty."""
    match = _BLOCK_NAME.fullmatch(name)
    return (match[4].lower() or "x") if match else ""


def is_large(name: str, value: int) -> bool:
    """Whether a number that is an extent is probably a size of the problem, not of a filter or a tile."""
    return _OF_A_TILE.search(name) is None and value > MOST_OF_A_FILTER


def is_size(name: str, value: int) -> bool:
    """Whether a number is probably a size of the problem: by its name, or because no block is as large."""
    return _OF_A_TILE.search(name) is None and (value > MOST_AROUND or _SIZE_NAME.search(name) is not None)


def asked_as_size(name: str, knob: Knob, text: str) -> Knob:
    """A knob with a question if it has the name of a size, and no tile or step of a loop is made of it."""
    is_tile = re.search(rf"(?:\*|[-+] =|\bschedule\s*\(\w+\s*,) *{name}\b|\b{name} \*", text) is not None
    if is_tile or knob.question or int(knob.default) < 2 or not _SIZE_NAME.fullmatch(name):
        return knob
    return replace(knob, question="is it a size of the problem? then keep only its value, or write it under sizes:")


def named_block(knobs: Collection[str], dimensions: int) -> list[str]:
    """The knobs that are block sizes by their names, in x, y, z; empty unless every axis has one."""
    axes = {axis: name for name in knobs if (axis := axis_of(name))}
    names = [axes.get(axis, "") for axis in "xyz"[:dimensions]]
    return names if all(names) else []


def spaced(code: str, knobs: Collection[str], axis: int) -> str:
    """The knob that is the block size of an axis, from textual patterns; empty if there is none.

    The patterns are products added to the thread index, as in `blockIdx.x * BX * ITEMS + threadIdx.x`, and the steps
    of loops that start at the thread index. Of several knobs, one with the name of a block size is preferred.
    """
    thread = rf"(?:threadIdx\s*\.\s*{'xyz'[axis]}|get_local_id\s*\(\s*{axis}\s*\))"
    strides = re.findall(
        rf"=\s*(?:\(\w+\)\s*)?{thread}\s*;[^;{{}}]{{,{_NEAR}}};[^;{{}}]{{,{_NEAR}}}?\+=\s*(\w+)\s*[,)]", code
    )
    found = list[str]()
    for match in re.finditer(thread, code):
        before, after = code[max(0, match.start() - _NEAR) : match.start()], code[match.end() : match.end() + _NEAR]
        products = re.search(rf"({_PRODUCT})\s*\+\s*$", before), re.match(rf"\s*\+\s*({_PRODUCT})", after)
        found += [product[1] for product in products if product and not _OF_LAUNCH.search(product[1])]
    factors = (re.findall(r"[A-Za-z_]\w*", re.sub(r"\([^()]*[-+/%][^()]*\)", "", text)) for text in found)
    for stride in strides:
        if stride in knobs or stride.isdecimal():
            return str(stride)
    for candidates in factors:
        known = [str(name) for name in candidates if name in knobs]
        if known:
            return min(known, key=lambda name: (not axis_of(name), re.search(rf"\+=\s*{name}\b", code) is None))
    return ""


def shared_block(code: str, knobs: Collection[str], dimensions: int) -> list[str]:
    """The knobs that are block sizes because they are extents of shared arrays indexed by thread indices, perhaps with
    a margin on both sides, as in `tile[BX + 2]` with `threadIdx.x + 1`.

    In x, y, z; empty unless every axis has one.
    """
    found, offsets = dict[int, str](), [_thread_offsets(code, axis) for axis in range(dimensions)]
    for size, more, index in _shared_indices(code):
        axis = next((axis for axis in range(dimensions) if _fits(offsets[axis].get(index, "?"), more)), None)
        if axis is not None and size in knobs:
            found.setdefault(axis, size)
    return [found[axis] for axis in range(dimensions)] if len(found) == dimensions else []


def _fits(offset: str, more: str) -> bool:
    """Whether thread indices from an offset on leave a margin of as much behind the block, or one element of padding,
    in an extent of so much more than the block."""
    if not offset:
        return more in ("", "1")
    is_twice = more.isdecimal() and offset.isdecimal() and int(more) == 2 * int(offset)
    return is_twice or more in (f"2 * {offset}", f"{offset} * 2")


def _thread(axis: int) -> str:
    """A pattern of the thread index of an axis."""
    return rf"(?:threadIdx\s*\.\s*{'xyz'[axis]}|get_local_id\s*\(\s*{axis}\s*\))"


def _thread_offsets(code: str, axis: int) -> dict[str, str]:
    """The expressions that are the thread index of an axis plus an offset, and the names that are assigned to such,
    each with the offset: an empty text, a number or a name. Variables of loops, which have bounds, are none of them."""
    code = re.sub(rf"\bfor\s*\(\s*(?:\w+\s+)*\w+\s*=\s*{_thread(axis)}\s*(?=[;,])", "for (", code)
    every = re.findall(rf"(?:\b(\w+)\s*=\s*)?({_thread(axis)}(?:\s*\+\s*(\w+))?)(?=\s*([;,\]]))", code)
    return {each: offset for name, text, offset, _ in every for each in (name, text) if each}


def _shared_indices(code: str) -> Iterator[tuple[str, str, str]]:
    """The extents of shared arrays that are single words, perhaps and more, each with each of its indices."""
    for name, extents in re.findall(
        r"\b(?:__shared__|__local|SHARED|LOCAL)\b[^;{}()]*?\b(\w+)\s*((?:\[[^\]]*\]\s*)+);", code
    ):
        sizes = [
            re.fullmatch(r"\s*(\w+)(?:\s*\+\s*(\w+(?: \* \w+)?))?\s*", each) for each in _IN_BRACKETS.findall(extents)
        ]
        for indices in re.findall(rf"\b{name}\s*((?:\[[^\[\]]*\]\s*)+)", code):
            for size, index in zip(sizes, _IN_BRACKETS.findall(indices), strict=False):
                if size is not None:
                    yield size[1], size[2] or "", index.strip()


def shared_extent(code: str, numbers: Mapping[str, int], axis: int) -> int:
    """The least extent of a shared array that the thread index of an axis indexes; 0 if there is none."""
    offsets = _thread_offsets(code, axis)
    found = [
        int(size) if size.isdecimal() else numbers[size]
        for size, more, index in _shared_indices(code)
        if (size.isdecimal() or size in numbers) and more in ("", "1") and offsets.get(index) == ""
    ]
    return min(found, default=0)


def within_shared(code: str, axis: int) -> dict[str, int]:
    """The names that are extents of shared arrays, each with how much more it must be than the threads on an axis that
    index it: 2 for `t[threadIdx.x + 2]`."""
    offsets, found = _thread_offsets(code, axis), dict[str, int]()
    for size, more, index in _shared_indices(code):
        first, _, second = (part.strip() for part in index.partition("+"))
        numbers = [offsets.get(first), second] if first in offsets else [offsets.get(index)]
        if (
            more in ("", "1")
            and not size.isdecimal()
            and all(each == "" or (each or "?").isdecimal() for each in numbers)
        ):
            found[size] = max(found.get(size, 0), sum(int(each or 0) for each in numbers))
    return found


def around(value: int) -> tuple[int, ...]:
    """A value and the powers of two around it: 16 gives 4, 8, 16, 32, 64; 0 gives 0 and 1."""
    if value == 0:
        return (0, 1)
    exponent = value.bit_length() - 1
    near = {1 << e for e in range(max(0, exponent - 2), exponent + 3)}
    return tuple(sorted({n for n in near if n <= max(MOST_AROUND, value)} | {value}))
