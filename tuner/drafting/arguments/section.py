"""Writes the `arguments` of a draft: what the source says about each, and a question where it is unclear."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.drafting import by_value
from tuner.drafting.arguments import objects
from tuner.drafting.arguments.guessed_shapes import GuessedShapes
from tuner.drafting.arguments.inputs import DraftedInputs
from tuner.drafting.arguments.line import ArgumentLine
from tuner.drafting.arguments.values import DraftedValues
from tuner.drafting.polynomials import names_in
from tuner.drafting.yaml_text import asked, name_of, word
from tuner.space.dtypes import complex_of
from tuner.space.sources.prototype import Parameter

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.extents import DraftedExtents


class DraftedArguments:
    """The arguments section of a draft."""

    def __init__(self, facts: ChosenKnobs, told: DraftedExtents) -> None:
        self.facts, self.told, self.extents = facts, told, told.extents
        self.shapes, self.values = GuessedShapes(facts, told), DraftedValues(facts, told)
        self._inputs = DraftedInputs(facts, told)

    def lines(self) -> list[str]:
        """The lines of the key `arguments`."""
        ask = "the source does not show them; write all, as {name: x, dtype: float32, shape: [n], role: in}"
        guesses = [name_of(p) for p in self.facts.parameters if p.is_pointer and self.shapes.is_guess(p)]
        if self.facts.parameters:
            shapes = "shapes of these are guesses" if len(guesses) > 1 else "shape of this is a guess"
            ask = f"the {shapes}: {', '.join(guesses)}; slowest dimension first" if guesses else ""
        return [
            f"  arguments:{asked(ask)}",
            *map(self._argument, self.facts.parameters),
            *(self._constant(parameter, extents) for parameter, extents in self.facts.constants.values()),
        ]

    @property
    def options(self) -> list[str]:
        """All options of the draft."""
        return [*self.facts.options, *self.told.options, *self.values.options]

    def data(self) -> list[str]:
        """Comments: the beginning of a file data.py, which makes the inputs whose elements are structs."""
        dtypes, made, given = dict[str, str](), list[str](), list[str]()
        for array in self.shapes.arrays:
            own = {} if self.facts.struct_numbers(array) else self.facts.numpy_dtypes(array)
            if own and self.facts.role(array)[0] != "out":
                name, shape = name_of(array), self.shapes.shape(array.name)
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
        """The line of an argument; several lines for a struct by value."""
        if parameter.kind:
            keys, question = objects.drafted(parameter, self.extents, self.facts.body)
            return f"    - {{name: {word(name_of(parameter))}, {keys}}}{asked(question)}"
        return self.values.line(parameter) or str(self._line(parameter))

    def exchanged(self, kept: str, other: str) -> list[str]:
        """The lines of two arrays that a loop exchanges, the first of which the caller gets, and what is left open."""
        lines = {p.name: self._line(p) for p in self.facts.parameters if p.name in (kept, other)}
        shape = max((line.keys[0] for line in lines.values()), key=lambda shape: shape.count(","))
        found, (role, _) = list[str](), self.facts.role(next(p for p in self.facts.parameters if p.name == other))
        clears = role == "inout" and self.facts.launched.clears(other)
        for name, line in lines.items():
            fill = [key for key in line.keys if name == kept and key.startswith("fill:")]
            roles = ["role: inout", *fill] if name == kept else ["role: scratch", *["zeroed: each"] * clears]
            found.append(f"  - {{{', '.join([f'name: {word(line.name)}', f'dtype: {line.dtype}', shape, *roles])}}}")
        if any("fill:" in each for each in lines[kept].asks):
            found.append(f"with the `fill:` of {lines[kept].name}, for which its line asks")
        if role == "inout" and not clears:
            cure = "write them in a step before the loop, or add `zeroed: each`"
            found.append(f"{lines[other].name} keeps elements of the pass before: {cure}")
        return found

    def _line(self, parameter: Parameter) -> ArgumentLine:
        """The line of an array or a number."""
        name = parameter.name
        line = ArgumentLine(name_of(parameter), *self._dtype(parameter))
        if name not in self.told.values:
            line.asks += self._asked_of_length(name)
        if parameter.is_pointer and self.facts.is_local(parameter):
            self._local(parameter, line)
        elif parameter.is_pointer:
            self._array(parameter, line)
        if name in self.told.values:
            line.keys.append(f"value: {word(self.told.values[name])}")
        if name in self.told.rows.leading:
            line.notes.append("a leading dimension, which a launch reads from the arrays of the call")
        if line.name != name:
            line.notes.append(f"`{name}` is a Python keyword, which references cannot use")
        return line

    def _dtype(self, parameter: Parameter) -> tuple[str, list[str]]:
        """The dtype of a number or of the elements of an array, and questions about it."""
        facts, kind, asks = self.facts, parameter.type, list[str]()
        if len(types := facts.types_of(parameter.name)) > 1:
            asks.append(f"the steps declare it as {' and '.join(types)}, but a name is one argument: rename one")
        if kind in facts.templates.types:
            return kind, asks
        if parameter.stars > 1:
            return "uint64", [*asks, "pointers to pointers are not supported: use one array and offsets in the source"]
        if parameter.is_pointer:
            if numbers := facts.struct_numbers(parameter):
                return numbers[0], asks
            if facts.struct_bytes(parameter):
                return "uint8", asks
            if pointers := facts.structs.pointers(kind):
                elements = f"its elements are of {kind}, a struct with the pointer {pointers[0]}"
                write = "let a first step write them, as docs/types.md shows, or pass it by value"
                return "uint8", [*asks, f"{elements}: {write}"]
        if not parameter.is_pointer and parameter.width > 1:
            asks.append(f"{kind} cannot be passed by value: pass its members one by one")
        elif parameter.dtype is None:
            hidden = "" if parameter.is_pointer else "; if it is a pointer, add a shape and a role"
            asks.append(f"its type is {kind or 'hidden by a name'}: which dtype is it?{hidden}")
        return parameter.dtype or "float32", asks

    def _asked_of_length(self, name: str) -> list[str]:
        """Questions whether an argument is the length of an array that one step writes and a later one reads."""
        limited = [
            array.name
            for array in self.facts.parameters
            if array.is_pointer
            and self.facts.is_handed_on(array.name)
            and name in self.facts.shapes.limits_of(array.name)
        ]
        return [
            f"is it the length of {array}? then write value: {blocks[0]} here, and no size"
            for array in limited
            if (blocks := self.told.per_block(array))
        ]

    def _local(self, parameter: Parameter, line: ArgumentLine) -> None:
        """Describe local memory that the host allocates."""
        step = next(s for s in self.facts.steps if any(p.name == parameter.name for p in self.facts.taken(s)))
        if not (elements := self.told.local(parameter.name, step)):
            line.asks.append("how many elements does a work-group need? one per thread?")
            elements = " * ".join(self.facts.block)
        if "portable.h" in self.facts.code:
            line.asks.append("CUDA has no `kind: local`: declare it in the kernel, or write `languages: [opencl]`")
        parts = [str(self.facts.parts(parameter))] if parameter.width > 1 else []
        line.keys += ["kind: local", f"shape: [{', '.join([word(elements), *parts])}]"]

    def _array(self, parameter: Parameter, line: ArgumentLine) -> None:
        """Describe an array in the device's memory."""
        name, (role, asks_of_role) = parameter.name, self.facts.role(parameter)
        shape = self.shapes.shape(name)
        parts = self._parts(parameter, line, shape)
        line.keys += [f"shape: [{', '.join([*map(word, shape), *parts])}]", f"role: {role}"]
        if apart := self.told.rows.strides(name):
            line.keys.append(f"strides: [{', '.join(apart)}]")
        if role == "scratch" and self.facts.launched.clears(name):
            line.keys.append("zeroed: each")
        line.asks += asks_of_role
        if role in ("out", "inout") and self.facts.choices.is_placed(name):
            ask = "atomics return its indices, so its order varies: declare what is compared in `derive:`, or"
            line.asks.append(f"{ask} write `compared: false`")
        blocks = names_in(" ".join(self.told.per_block(name)))
        if blocks and role != "scratch" and self.facts.knobs.keys().isdisjoint(blocks):  # else `derive:` asks
            ask = "is it one element per block? then declare what is compared, such as its sum, in `derive:`"
            line.asks.append(ask)
        if role in ("in", "inout"):
            fill, asks = self._inputs.fill(parameter)
            line.keys += [fill] * bool(fill)
            line.asks += asks

    def _parts(self, parameter: Parameter, line: ArgumentLine, shape: list[str]) -> list[str]:
        """The last extent of an array whose elements have several numbers, else nothing, with what is to say of it."""
        if numbers := self.facts.struct_numbers(parameter):
            return [str(numbers[1])] if numbers[1] > 1 else []
        if number := self.facts.struct_bytes(parameter):
            if self.facts.role(parameter)[0] in ("in", "inout"):
                such = "such as fill: {python: data.py:make}, which the end of this file begins"
                line.asks.append(f"its elements are of {parameter.type}: which bytes? {such}")
            return [str(number)]
        if parameter.is_pair and self.facts.is_complex(parameter):
            line.dtype = complex_of(line.dtype)
            return []
        parts = [str(self.facts.parts(parameter))] if parameter.width > 1 else []
        if parameter.is_pair:
            line.notes.append(f"or {complex_of(line.dtype)}, of the shape [{', '.join(shape)}]")
        elif parts:
            line.notes.append(f"an element of {parameter.type} has {parts[0]} numbers")
        return parts

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
        asks += self._inputs.asked(parameter) if parameter.dtype and not asks else []
        body = f"name: {word(parameter.name)}, kind: constant, dtype: {kind}"
        return f"    - {{{body}, shape: [{', '.join(shape)}], role: in}}{asked('; '.join(asks))}"
