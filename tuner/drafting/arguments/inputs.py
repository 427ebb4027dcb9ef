"""The inputs of a draft: the key `fill` of an array, or a question about its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.drafting.polynomials import names_in
from tuner.drafting.roles import uses
from tuner.drafting.yaml_text import listed
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.extents import DraftedExtents

_OF_INDICES = "indices are computed from it: which values may it have? such as fill: {uniform: [0, 1]}"


class DraftedInputs:
    """The values of the arrays that kernels read."""

    def __init__(self, facts: ChosenKnobs, told: DraftedExtents) -> None:
        self._facts, self._told = facts, told

    def fill(self, parameter: Parameter) -> tuple[str, list[str]]:
        """The key `fill` of an input, empty if it cannot be inferred, and questions about it."""
        found, asks = self._fill(parameter)
        dtype = (self._facts.struct_numbers(parameter) or ("",))[0]
        if not found and not asks and dtype in DTYPES and DTYPES[dtype].kind == "integer":
            such = "such as fill: {python: data.py:make}"
            asks = [f"its elements are of {parameter.type}: which numbers? {such}"]
        return found, asks

    def _fill(self, parameter: Parameter) -> tuple[str, list[str]]:
        choices = self._facts.choices
        facts, name = self._facts, parameter.name
        if facts.role(parameter)[0] == "inout" and (facts.launched.clears(name) or name in facts.with_borders):
            return "fill: zeros", []
        if choices.counts_places(parameter.name):
            return "fill: zeros", ["it counts written elements: does it start at 0?"]
        extent = self._facts.shapes.indexed_by(parameter.name)
        if extent is None or parameter.dtype is None:
            return self._fill_of_copies(parameter) or ("", self.asked(parameter))
        if DTYPES[parameter.dtype].kind != "integer":
            return "", [_OF_INDICES]
        into = {tuple(self._told.shape(array) or ()) for array in choices.plainly_into(parameter.name)}
        if not extent and len(into) == 1 and len(shape := into.pop()) == 1:
            extent = shape[0]
        if not extent:
            return "", ["it holds indices: into how many elements? such as fill: {integers: [0, n - 1]}"]
        return _fill_below(extent, parameter.dtype), []

    def _fill_of_copies(self, parameter: Parameter) -> tuple[str, list[str]] | None:
        """The `fill` or the question of an array whose elements are indices by way of a local variable, or of arrays of
        the kernels' own; else None."""
        used = self._facts.choices.indexed_by_copies(self._facts.names_of(parameter.name))
        kind = DTYPES[parameter.dtype].kind if parameter.dtype else ""
        if used and kind == "real":
            return "", [_OF_INDICES]
        if not used or kind != "integer" or self._facts.choices.is_limit(parameter.name):
            return None
        extents = {tuple(self._told.shape(array) or self._declared(array)) for array in used}
        if all(used.values()) and len(extents) == 1 and len(shape := extents.pop()) == 1:
            return _fill_below(shape[0], parameter.dtype or ""), []
        such = "such as fill: {integers: [0, n - 1]}"
        return "", [f"indices of {' and '.join(used)} follow from it: which values may it have? {such}"]

    def _declared(self, array: str) -> list[str]:
        """The extents of an array that the kernels declare, over sizes; empty if one is unknown, or follows from a
        knob."""
        extents = self._facts.choices.declared(array)
        is_fixed = self._facts.knobs.keys().isdisjoint(names_in(" ".join(extents)))
        found = [self._told.numbered(extent) for extent in extents] if is_fixed else []
        return found if all(found) else []

    def asked(self, parameter: Parameter) -> list[str]:
        """Questions about the values of an input, from how the kernel uses them."""
        body = self._facts.body
        names = uses.with_tiles(self._facts.names_of(parameter.name), body)
        kind = DTYPES[parameter.dtype or "float32"].kind
        if (kind != "boolean" and uses.is_condition(names, body)) or (kind == "real" and uses.is_compared(names, body)):
            return ["is it a mask? then fill: {choice: [0, 1]}"]
        if kind == "real" and uses.is_root_or_logarithm(names, body):
            return ["a root or a logarithm is taken of it: is it positive? then fill: {uniform: [0.5, 1.5]}"]
        if kind in ("integer", "real") and uses.is_divisor(names, body):
            fill = "{integers: [1, 8]}" if kind == "integer" else "{uniform: [0.5, 1.5]}"
            return [f"it divides: is it never 0? then fill: {fill}"]
        if kind == "integer" and uses.is_shift_count(names, body):
            return ["it is a shift count: which values may it have? such as fill: {integers: [0, 31]}"]
        if kind == "integer" and (codes := uses.codes(names, body, self._facts.constants_of_code)):
            return [f"it is compared with {listed(codes)}: which values has it? such as fill: {{choice: [0, 1]}}"]
        if kind == "integer" and self._facts.choices.is_limit(parameter.name):
            return ["indices are compared with it: which values may it have? such as fill: {python: data.py:make}"]
        return []


def _fill_below(extent: str, dtype: str) -> str:
    """The key `fill` of the whole numbers of a dtype from 0 that are less than an extent."""
    largest = min(int(extent) - 1, int(DTYPES[dtype].high)) if extent.isdecimal() else f"{extent} - 1"
    return f"fill: {{integers: [0, {largest}]}}"
