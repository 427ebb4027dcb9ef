"""The arguments of a draft that are no plain numbers, but passed by value: enumerations, vectors and structs."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting import by_value
from tuner.drafting.yaml_text import asked, name_of, word
from tuner.space.dtypes import complex_of
from tuner.space.expressions import arithmetic
from tuner.space.scope import DEVICE_NAMES
from tuner.space.sources.prototype import Parameter

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.extents import DraftedExtents

_REAL_FIELD = re.compile(r"(\s*- \{name: (\w+), dtype: float\d\d), value: 1\}")
MOST_NAMED = 12  # enumerators in a question


class DraftedValues:
    """The lines of arguments by value, and the options that real fields of structs become."""

    def __init__(self, facts: ChosenKnobs, told: DraftedExtents) -> None:
        self._facts, self._told = facts, told

    def line(self, parameter: Parameter) -> str:
        """The line of an argument by value, or its lines; empty for an array and for a plain number."""
        if parameter.is_pointer:
            return ""
        name = word(name_of(parameter))
        kind, members = self._facts.structs.enumeration(parameter.type)
        if members:
            ask = f"the number of which of {parameter.type}: {', '.join(members[:MOST_NAMED])}?"
            return f"    - {{name: {name}, dtype: {kind}, value: 0}}{asked(ask)}"
        if keys := self._keys(parameter):
            return self._filled(parameter, keys)
        ask = self._unsupported(parameter)
        return f"    - {{name: {name}, fields: []}}{asked(ask)}" if ask else ""

    def _filled(self, parameter: Parameter, keys: list[str]) -> str:
        """The lines of a vector or struct, with the numbers that the host passes, and a question about the others."""
        if by_value.is_empty(keys):
            return f"    - {{{keys[0]}, fields: [{keys[2][4:]}]}}  # {parameter.type} has no members, and one byte"
        of_host = self._facts.members(parameter, self._told.new_sizes)
        first, *others = (self._with_option(by_value.with_numbers(line, of_host)) for line in keys)
        left = [key for key in keys if by_value.is_open([key]) and not by_value.is_told(key, of_host)]
        left = [key for key in left if self._with_option(key) == key]
        which = "which values has it"
        if 0 < len(left) < sum("dtype:" in key for key in keys):  # others have the numbers of the host
            which = f"which {'value has' if len(left) == 1 else 'values have'} {by_value.names_of(left)}"
        pair = f", or is it {complex_of(str(parameter.dtype))}?" if parameter.is_pair else ""
        ask = f"{which}: sizes, options, expressions of them{pair}" if left else ""
        return "\n      ".join([f"    - {first}{asked(ask)}", *others])

    @cached_property
    def options(self) -> list[str]:
        """The real fields of structs whose numbers nothing tells: each becomes an option."""
        facts, told = self._facts, self._told
        taken = {*facts.options, *told.extents, *told.options, *facts.knobs, *facts.numbers, *keyword.kwlist}
        taken |= {*arithmetic.FUNCTIONS, *DEVICE_NAMES, *(parameter.name for parameter in facts.parameters)}
        found = list[str]()
        for parameter in facts.parameters:
            known = {} if parameter.is_pointer else facts.members(parameter, told.new_sizes)
            lines = [line for line in self._keys(parameter) or () if not by_value.is_told(line, known)]
            found += [match[2] for match in map(_REAL_FIELD.fullmatch, lines) if match]
        return [name for name in found if found.count(name) == 1 and name not in taken]

    def _with_option(self, line: str) -> str:
        """The line of a field, without a value if the draft has an option for it."""
        match = _REAL_FIELD.fullmatch(line)
        return f"{match[1]}}}" if match and match[2] in self.options else line

    def _keys(self, parameter: Parameter) -> list[str] | None:
        """The keys of a vector, or the lines of a struct; None for any other argument."""
        if parameter.is_pointer or parameter.type in self._facts.templates.types:
            return None
        name = word(name_of(parameter))
        if parameter.dtype is not None:
            keys = by_value.vector(parameter) if parameter.width > 1 else None
            return None if keys is None else [f"{{name: {name}, {keys}}}"]
        facts, arrays = self._facts, dict[tuple[str, ...], list[str]]()
        for pointer in facts.pointers:
            if pointer.parameter == parameter.name:
                arrays.setdefault(pointer.path, []).append(word(name_of(pointer.array)))
        known = None if "opencl" in facts.languages else arrays
        fields = facts.structs.fields(parameter.type, self._values(parameter), facts.constants_of_all, known)
        return fields and [f"name: {name}", "fields:", *(f"  - {field}" for field in fields)]

    def _values(self, parameter: Parameter) -> dict[str, str]:
        """The values of fields of a struct that sizes and options tell, by field; empty for what has the same name."""
        told, own = self._told, {size: f for size, f in self._facts.fields.items() if f.parameter == parameter.name}
        shared = {field.name for size, field in self._facts.fields.items() if size != field.name}
        named = {*told.extents, *told.options}
        found = dict.fromkeys(named - shared, "")
        found |= {f.name: "" if size == f.name else size for size, f in own.items() if size in named}
        return found | {f.name: word(told.values[size]) for size, f in own.items() if size in told.values}

    def _unsupported(self, parameter: Parameter) -> str:
        """Why a class cannot be passed by value, and what to do; empty for any other argument."""
        kind, facts = parameter.type, self._facts
        if not facts.is_class(parameter):
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
