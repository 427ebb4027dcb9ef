"""Writes the `arguments` of a draft: what the source says about each, and a question where it is unclear."""

from __future__ import annotations

import keyword
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting import by_value, objects
from tuner.drafting.polynomials import names_in
from tuner.drafting.roles import uses
from tuner.drafting.yaml_text import asked, name_of, remark, word
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import arithmetic
from tuner.space.scope import DEVICE_NAMES
from tuner.space.sources.prototype import Parameter

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.extents import DraftedExtents

_REAL_FIELD = re.compile(r"(\s*- \{name: (\w+), dtype: float\d\d), value: 1\}")
_OF_INDICES = "indices are computed from it: which values may it have? such as fill: {uniform: [0, 1]}"
MOST_NAMED = 12  # enumerators in a question
MOST_GUESSED = 3  # extents of a guessed shape


class DraftedArguments:
    """The arguments section of a draft."""

    def __init__(self, facts: ChosenKnobs, told: DraftedExtents) -> None:
        self.facts, self.told, self.extents = facts, told, told.extents

    def lines(self) -> list[str]:
        """The lines of the key `arguments`."""
        ask = "the source does not show them; write all, as {name: x, dtype: float32, shape: [n], role: in}"
        guesses = [name_of(p) for p in self.facts.parameters if p.is_pointer and self._is_guess(p)]
        if self.facts.parameters:
            shapes = "shapes of these are guesses" if len(guesses) > 1 else "shape of this is a guess"
            ask = f"the {shapes}: {', '.join(guesses)}; slowest dimension first" if guesses else ""
        return [
            f"  arguments:{asked(ask)}",
            *map(self._argument, self.facts.parameters),
            *(self._constant(parameter, extents) for parameter, extents in self.facts.constants.values()),
        ]

    def data(self) -> list[str]:
        """Comments: the beginning of a file data.py, which makes the inputs whose elements are structs."""
        dtypes, made, given = dict[str, str](), list[str](), list[str]()
        for array in self.arrays:
            own = {} if self.facts.struct_numbers(array) else self.facts.numpy_dtypes(array)
            if own and self.facts.role(array)[0] != "out":
                name, shape = name_of(array), self.shape(array.name)
                extents = f"({', '.join(shape)})" if len(shape) > 1 else shape[0]
                made.append(f"    {name} = np.zeros({extents}, {[*own][-1]})  # set its fields, such as by rng")
                given.append(f'"{name}": {name}.view(("uint8", {self.facts.struct_bytes(array)}))')
                dtypes |= own
        if not made:
            return []
        lines = ["import numpy as np", "", *(f"{name} = {text}" for name, text in dtypes.items()), ""]
        lines += [f"def make(rng, *, {', '.join(self.extents)}, **_):", *made, f"    return {{{', '.join(given)}}}"]
        head = "# The beginning of data.py, for `fill: {python: data.py:make}`, with the compiler's offsets:"
        return [head, *(f"#   {line}".rstrip() for line in lines)]

    def _argument(self, parameter: Parameter) -> str:
        if parameter.kind:
            own, question = self._object(parameter)
            return f"    - {{name: {word(name_of(parameter))}, {own}}}{asked(question)}"
        kind, members = ("", []) if parameter.is_pointer else self.facts.structs.enumeration(parameter.type)
        if members:
            ask = f"the number of which of {parameter.type}: {', '.join(members[:MOST_NAMED])}?"
            return f"    - {{name: {word(name_of(parameter))}, dtype: {kind}, value: 0}}{asked(ask)}"
        if (keys := self._by_value(parameter)) is None and (ask := self._unsupported(parameter)):
            return f"    - {{name: {word(name_of(parameter))}, fields: []}}{asked(ask)}"
        if keys is not None:
            pair = f", or is it {_complex(str(parameter.dtype))}?" if parameter.is_pair else ""
            ask = f"which values has it: sizes, options, expressions of them{pair}"
            if by_value.is_empty(keys):
                return f"    - {{{keys[0]}, fields: [{keys[2][4:]}]}}  # {parameter.type} has no members, and one byte"
            of_host = self.facts.members(parameter)
            told = [self._with_option(by_value.with_numbers(line, of_host)) for line in keys]
            left = [key for key in keys if by_value.is_open([key]) and not by_value.is_told(key, of_host)]
            left = [key for key in left if self._with_option(key) == key]
            if 0 < len(left) < sum("dtype:" in key for key in keys):  # others have the numbers of the host
                has = "value has" if len(left) == 1 else "values have"
                ask = ask.replace("values has it", f"{has} {by_value.listed(left)}")
            return f"    - {told[0]}{asked(ask) if left else ''}" + "".join(f"\n      {line}" for line in told[1:])
        dtype, asks, notes = parameter.dtype or "float32", list[str](), list[str]()
        if len(types := self.facts.types_of(parameter.name)) > 1:
            asks.append(f"the steps declare it as {' and '.join(types)}, but a name is one argument: rename one")
        if parameter.type in self.facts.templates.types:
            dtype = parameter.type
        elif parameter.stars > 1:
            dtype = "uint64"
            asks.append("pointers to pointers are not supported: use one array and offsets in the source")
        elif not parameter.is_pointer and parameter.width > 1:
            asks.append(f"{parameter.type} cannot be passed by value: pass its members one by one")
        elif parameter.is_pointer and (numbers := self.facts.struct_numbers(parameter)):
            dtype = numbers[0]
        elif parameter.is_pointer and self.facts.struct_bytes(parameter):
            dtype = "uint8"
        elif parameter.is_pointer and (pointers := self.facts.structs.pointers(parameter.type)):
            dtype = "uint8"
            elements = f"its elements are of {parameter.type}, a struct with the pointer {pointers[0]}"
            asks.append(f"{elements}: let a first step write them, as docs/types.md shows, or pass it by value")
        elif parameter.dtype is None:
            hidden = "" if parameter.is_pointer else "; if it is a pointer, add a shape and a role"
            asks.append(f"its type is {parameter.type or 'hidden by a name'}: which dtype is it?{hidden}")
        for array in self.arrays_between:
            is_open = parameter.name not in self.told.values
            if (
                is_open
                and parameter.name in self.facts.shapes.limits_of(array)
                and (blocks := self.told.per_block(array))
            ):
                asks.append(f"is it the length of {array}? then write value: {blocks[0]} here, and no size")
        body = f"name: {word(name_of(parameter))}, dtype: {dtype}"
        parts = [str(self.facts.parts(parameter))] if parameter.width > 1 else []
        if parameter.is_pointer and self.facts.is_local(parameter):
            names = ([each.name for each in self.facts.taken(step)] for step in self.facts.steps)
            step = next(s for s, taken in zip(self.facts.steps, names, strict=True) if parameter.name in taken)
            if not (elements := self.told.local(parameter.name, step)):
                asks.append("how many elements does a work-group need? one per thread?")
                elements = " * ".join(self.facts.block)
            if "portable.h" in self.facts.code:
                asks.append("CUDA has no `kind: local`: declare it in the kernel, or write `languages: [opencl]`")
            body += f", kind: local, shape: [{', '.join([word(elements), *parts])}]"
        elif parameter.is_pointer:
            role, more = self.facts.role(parameter)
            shape = self.shape(parameter.name)
            if numbers := self.facts.struct_numbers(parameter):
                parts = [str(numbers[1])] if numbers[1] > 1 else []
            elif number := self.facts.struct_bytes(parameter):
                parts = [str(number)]
                if role in ("in", "inout"):
                    asks.append(
                        f"its elements are of {parameter.type}: which bytes? such as fill: {{python: data.py:make}}, "
                        "which the end of this file begins"
                    )
            elif parameter.is_pair and self.facts.is_complex(parameter):
                body, parts = body.removesuffix(dtype) + _complex(dtype), []
            elif parameter.is_pair:
                notes.append(f"or {_complex(dtype)}, of the shape [{', '.join(shape)}]")
            elif parts:
                notes.append(f"an element of {parameter.type} has {parts[0]} numbers")
            body += f", shape: [{', '.join([*map(word, shape), *parts])}], role: {role}"
            if apart := self.told.strides(parameter.name):
                body += f", strides: [{', '.join(apart)}]"
            body += ", zeroed: each" * (role == "scratch" and self.facts.launched.clears(parameter.name))
            asks += more
            if role in ("out", "inout") and self.facts.choices.is_placed(parameter.name):
                ask = "atomics return its indices, so its order varies: declare what is compared in `derive:`, or"
                asks.append(f"{ask} write `compared: false`")
            if self.told.per_block(parameter.name) and role != "scratch":
                asks.append("is it one element per block? then declare what is compared, such as its sum, in `derive:`")
            if role in ("in", "inout"):
                fill, more = self._fill(parameter)
                is_whole = bool(numbers and numbers[0] in DTYPES and DTYPES[numbers[0]].kind == "integer")
                if is_whole and not fill and not more:
                    such = "such as fill: {python: data.py:make}"
                    more = [f"its elements are of {parameter.type}: which numbers? {such}"]
                body, asks = body + fill, asks + more
        if parameter.name in self.told.values:
            body += f", value: {word(self.told.values[parameter.name])}"
        if parameter.name in self.told.leading_dimensions:
            notes.append("a leading dimension, which a launch reads from the arrays of the call")
        if name_of(parameter) != parameter.name:
            notes.append(f"`{parameter.name}` is a Python keyword, which references cannot use")
        return f"    - {{{body}}}{remark('; '.join(notes))}{asked('; '.join(asks))}"

    @property
    def options(self) -> list[str]:
        """All options of the draft."""
        return [*self.facts.options, *self.told.options, *self._open_fields]

    @cached_property
    def _open_fields(self) -> list[str]:
        """The real fields of structs by value whose numbers nothing tells."""
        facts = self.facts
        taken = {
            *facts.options,
            *self.extents,
            *self.told.options,
            *facts.knobs,
            *facts.numbers,
            *arithmetic.FUNCTIONS,
            *DEVICE_NAMES,
        }
        taken |= {*keyword.kwlist, *(parameter.name for parameter in facts.parameters)}
        found = list[str]()
        for parameter in facts.parameters:
            known = {} if parameter.is_pointer else facts.members(parameter)
            lines = [line for line in self._by_value(parameter) or () if not by_value.is_told(line, known)]
            found += [match[2] for match in map(_REAL_FIELD.fullmatch, lines) if match]
        return [name for name in found if found.count(name) == 1 and name not in taken]

    def _with_option(self, line: str) -> str:
        """The line of a field, without a value if the draft has an option for it."""
        match = _REAL_FIELD.fullmatch(line)
        return f"{match[1]}}}" if match and match[2] in self._open_fields else line

    def _object(self, parameter: Parameter) -> tuple[str, str]:
        """The keys of an image, a sampler or a texture, and the question."""
        if parameter.kind == "texture":
            return objects.texture(parameter, self.extents, self.facts.body)
        return objects.image(parameter, self.extents) if parameter.kind == "image" else objects.sampler()

    def _by_value(self, parameter: Parameter) -> list[str] | None:
        """The lines of a vector or struct that is passed by value; None for any other argument."""
        if parameter.is_pointer or parameter.type in self.facts.templates.types:
            return None
        name = word(name_of(parameter))
        if parameter.dtype is not None:
            keys = by_value.vector(parameter) if parameter.width > 1 else None
            return None if keys is None else [f"{{name: {name}, {keys}}}"]
        facts, arrays = self.facts, dict[tuple[str, ...], list[str]]()
        for pointer in facts.pointers:
            if pointer.parameter == parameter.name:
                arrays.setdefault(pointer.path, []).append(word(name_of(pointer.array)))
        known = None if "opencl" in facts.languages else arrays
        named = {*self.extents, *self.told.options}
        fields = facts.structs.fields(parameter.type, named, facts.constants_of_all, known)
        return fields and [f"name: {name}", "fields:", *(f"  - {field}" for field in fields)]

    def _unsupported(self, parameter: Parameter) -> str:
        """Why a class cannot be passed by value, and what to do; empty for any other argument."""
        kind, facts = parameter.type, self.facts
        if parameter.is_pointer or not facts.is_class(parameter):
            return ""
        if kind in facts.templates.classes:
            return f"{kind} is a class, not a number: which? list its `fields:`"
        whole = f"{parameter.name} is of {kind}"
        if pointers := facts.structs.pointers(kind):
            which = f"the pointer {pointers[0]}" if len(pointers) == 1 else f"the pointers {' and '.join(pointers)}"
            if "opencl" in facts.languages:
                return f"{whole}, a struct with {which}: OpenCL cannot pass it; let the kernel take the arrays"
            return f"{whole}, a struct with {which}, whose members are not all known: list its `fields:`"
        return f"{whole}, whose members are not all known: list its `fields:`, or pass its members one by one"

    def _is_guess(self, array: Parameter) -> bool:
        """Whether nothing in the source tells the shape of an array."""
        is_known = self.told.shape(array.name) is not None or bool(self.told.per_block(array.name))
        return not is_known and not self.facts.is_local(array)

    def shape(self, name: str) -> list[str]:
        """The shape of an array: as the source indexes it, one element per block, or `guess`."""
        told = self.told.shape(name) or self.told.per_block(name)
        known = told or self._of_rows(name) or self._of_macros(name) or self.told.of_host(name) or self._likely(name)
        length = 0 if known else self.facts.shapes.length_of_records(name)
        guess = self.guess[:1] if self.facts.shapes.is_plain(name) else self.guess
        return known or [*guess, *[str(length)] * bool(length)]

    def _likely(self, name: str) -> list[str]:
        """A shape for which something speaks; empty if nothing does."""
        found = [self.told.numbered(each) for each in self.facts.shapes.likely(name)]
        return found if found and all(found) else self._of_struct(name)

    def _of_struct(self, name: str) -> list[str]:
        """The only size in the struct that has the pointer to an array; empty if there is none, or several."""
        owners = {each.parameter for each in self.facts.pointers if each.array.name == name}
        found = [size for size, field in self.facts.fields.items() if field.parameter in owners]
        return found if len(found) == 1 else []

    def _of_rows(self, name: str) -> list[str]:
        """The shape of an array whose type tells all extents but the first, as `float (*x)[4]`; empty if none does."""
        rows = [self.told.numbered(extent) for p in self.facts.parameters if p.name == name for extent in p.extents[1:]]
        return [*self.guess[:1], *rows] if rows and all(rows) else []

    def _of_macros(self, name: str) -> list[str]:
        """The shape of an array whose rows are as long as a size that the source defines; empty if there is none."""
        macros = self.facts.size_macros
        pattern = rf"\b{re.escape(name)} (?:\[ ([^\[\]]*) \]|\+ ([^;\[\]]*?) \))"
        for index in ("".join(each) for each in re.findall(pattern, self.facts.body)):
            strides = [stride for stride in re.findall(r"\* (\w+)", index) if stride in macros]
            if strides:
                others = [size for size in macros if size not in strides]
                return [*(others or strides)[:1], strides[0]]
        return []

    @cached_property
    def guess(self) -> list[str]:
        """The shape assumed for an array whose shape cannot be inferred.

        It is the shape of another array that has all sizes, else all sizes. If there are more than MOST_GUESSED, it is
        that of the array with most sizes, or only the first size. Sizes that no index and no extent has do not count.
        """
        every = [self.told.shape(array.name) or [] for array in self.arrays]
        read = {name for array in self.arrays for name in self.facts.shapes.reads(array.name)}
        read |= {name for shape in every for extent in shape for name in names_in(extent)}
        sizes = [size for size in self.extents if size in read] or self.extents
        like = next((shape for shape in every if sorted(shape) == sorted(sizes)), None)
        if like or len(sizes) <= MOST_GUESSED:
            return like or sizes
        longest = max(every, key=lambda shape: len(names_in(" ".join(shape))), default=[])
        return longest if len(names_in(" ".join(longest))) > MOST_GUESSED else sizes[:1]

    def _fill(self, parameter: Parameter) -> tuple[str, list[str]]:
        """The `fill` of an input, empty if it cannot be inferred, and questions about it."""
        if self.facts.role(parameter)[0] == "inout" and self.facts.launched.clears(parameter.name):
            return ", fill: zeros", []
        if self.facts.choices.counts_places(parameter.name):
            return ", fill: zeros", ["it counts written elements: does it start at 0?"]
        extent = self.facts.shapes.indexed_by(parameter.name)
        if extent is None or parameter.dtype is None:
            return self._fill_of_copies(parameter) or ("", self._inputs_asked(parameter))
        if DTYPES[parameter.dtype].kind != "integer":
            return "", [_OF_INDICES]
        into = {tuple(self.told.shape(array) or ()) for array in self.facts.choices.plainly_into(parameter.name)}
        if not extent and len(into) == 1 and len(shape := into.pop()) == 1:
            extent = shape[0]
        if not extent:
            return "", ["it holds indices: into how many elements? such as fill: {integers: [0, n - 1]}"]
        return _fill_below(extent, parameter.dtype), []

    def _fill_of_copies(self, parameter: Parameter) -> tuple[str, list[str]] | None:
        """The `fill` or the question of an array whose elements are indices by way of a local variable, or of arrays of
        the kernels' own; else None."""
        used = self.facts.choices.indexed_by_copies(self._names(parameter))
        kind = DTYPES[parameter.dtype].kind if parameter.dtype else ""
        if used and kind == "real":
            return "", [_OF_INDICES]
        if not used or kind != "integer" or self.facts.choices.is_limit(parameter.name):
            return None
        extents = {tuple(self.told.shape(array) or self._declared(array)) for array in used}
        if all(used.values()) and len(extents) == 1 and len(shape := extents.pop()) == 1:
            return _fill_below(shape[0], parameter.dtype or ""), []
        into = " and ".join(used)
        return "", [
            f"indices of {into} follow from it: which values may it have? such as fill: {{integers: [0, n - 1]}}"
        ]

    def _declared(self, array: str) -> list[str]:
        """The extents of an array that the kernels declare, over sizes; empty if one is unknown, or follows from a
        knob."""
        extents = self.facts.choices.declared(array)
        is_fixed = self.facts.knobs.keys().isdisjoint(names_in(" ".join(extents)))
        found = [self.told.numbered(extent) for extent in extents] if is_fixed else []
        return found if all(found) else []

    def _names(self, parameter: Parameter) -> set[str]:
        """The names that the kernels have for an array."""
        return {parameter.name}.union(*(i.aliases.get(parameter.name, ()) for i in self.facts.shapes.indices))

    def _inputs_asked(self, parameter: Parameter) -> list[str]:
        """Questions about the values of an input, from how the kernel uses them."""
        names = self._names(parameter)
        kind = DTYPES[parameter.dtype or "float32"].kind
        if kind != "boolean" and uses.is_condition(names, self.facts.body):
            return ["is it a mask? then fill: {choice: [0, 1]}"]
        if kind == "real" and uses.is_compared(names, self.facts.body):
            return ["is it a mask? then fill: {choice: [0, 1]}"]
        if kind == "integer" and uses.is_divisor(names, self.facts.body):
            return ["it divides: is it never 0? then fill: {integers: [1, 8]}"]
        if kind == "real" and uses.is_root_or_logarithm(names, self.facts.body):
            return ["a root or a logarithm is taken of it: is it positive? then fill: {uniform: [0.5, 1.5]}"]
        if kind == "real" and uses.is_divisor(names, self.facts.body):
            return ["it divides: is it never 0? then fill: {uniform: [0.5, 1.5]}"]
        if kind == "integer" and self.facts.choices.is_limit(parameter.name):
            return ["indices are compared with it: which values may it have? such as fill: {python: data.py:make}"]
        return []

    def _constant(self, parameter: Parameter, extents: list[str]) -> str:
        """The line of a `__constant__` variable, which each launch fills from an array of the caller."""
        asks = [] if parameter.dtype else [f"its type is {parameter.type}: which dtype is it?"]
        kind, structs = parameter.dtype or "float32", self.facts.structs
        if pointers := structs.pointers(parameter.type):
            asks = [
                f"it is of {parameter.type}, a struct with the pointer {pointers[0]}: let the kernel take it by value"
            ]
        elif number := structs.nbytes(replace(parameter, stars=1)):
            asks, kind = [f"it is of {parameter.type}: which bytes? such as fill: {{python: data.py:make}}"], "uint8"
            extents = [*extents, str(number)]
        elif parameter.width > 1:
            extents = [*extents, str(self.facts.parts(parameter))]
        extents = [structs.evaluated(by_value.evaluated(extent, self.facts.constants_of_all)) for extent in extents]
        shape = [extent if extent.isdecimal() else word(self.extents[-1]) for extent in extents] or ["1"]
        if not all(extent.isdecimal() for extent in extents):
            asks.append(f"the source declares [{', '.join(extents)}]: how many are filled, by sizes?")
            indexed = self.facts.shape_of_constant(parameter.name) if len(extents) == 1 else []
            shape = [*map(word, indexed)] if indexed and {*indexed} <= {*self.extents} else shape
        body = f"name: {word(parameter.name)}, kind: constant, dtype: {kind}"
        return f"    - {{{body}, shape: [{', '.join(shape)}], role: in}}{asked('; '.join(asks))}"

    @property
    def arrays_between(self) -> list[str]:
        """The names of arrays that one step writes and a later one reads."""
        return [p.name for p in self.facts.parameters if p.is_pointer and self.facts.is_handed_on(p.name)]

    @property
    def arrays(self) -> list[Parameter]:
        """The arrays that the caller most likely passes: no local memory, no scratch."""
        facts = self.facts
        pointers = [p for p in facts.parameters if p.is_pointer and not facts.is_local(p)]
        return [p for p in pointers if facts.role(p)[0] != "scratch"]


def _fill_below(extent: str, dtype: str) -> str:
    """The key `fill` of the whole numbers of a dtype from 0 that are less than an extent."""
    largest = min(int(extent) - 1, int(DTYPES[dtype].high)) if extent.isdecimal() else f"{extent} - 1"
    return f", fill: {{integers: [0, {largest}]}}"


def _complex(part: str) -> str:
    """The complex dtype whose real and imaginary parts have the dtype `part`."""
    return next(dtype.name for dtype in DTYPES.values() if dtype.part == part)
