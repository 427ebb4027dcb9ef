"""Drafts what the outputs must hold: `derive:`, `reference:` and `tolerance:`, with the choices to uncomment."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting.by_value import evaluated
from tuner.drafting.polynomials import names_in
from tuner.drafting.roles import sums
from tuner.drafting.yaml_text import asked, name_of
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter
from tuner.space.sources.tokens import matching

if TYPE_CHECKING:
    from tuner.drafting.arguments.section import DraftedArguments
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.extents import DraftedExtents

_REFERENCES = """\
  # Uncomment one of these:
{expression}  # reference: {{python: check.py:expected}}    # expected({arguments}) returns an array
{rounding}{trusted}  # reference: none    # no verification: every table says unverified"""
_EXPRESSION = """\
  # reference: {0}    # such an expression, as in NumPy; `tune schema --functions` lists the functions
"""
_TRUSTED = """\
  # reference: {config: default}    # trusts the source: other configurations must give what its own numbers give
"""
_ROUNDING = """\
  #   its arrays are {0}: compute in float64, as in {1}.astype("float64"), so that rounding errors of the
  #   reference do not fail correct results
"""


class DraftedReference:
    """The lines about expected outputs in a draft with these arguments."""

    def __init__(self, facts: ChosenKnobs, told: DraftedExtents, arguments: DraftedArguments) -> None:
        self._facts, self._told, self._arguments, self._extents = facts, told, arguments, arguments.extents
        self._shapes = arguments.shapes

    @cached_property
    def _derived(self) -> dict[str, str]:
        """The values to compare in place of outputs whose shape varies with a parameter: their sums, by output."""
        knobs, written = self._facts.knobs, [p for p in self._shapes.arrays if self._facts.role(p)[0] != "in"]
        words = {name_of(p): set(re.findall(r"\w+", " ".join(self._shapes.shape(p.name)))) for p in written}
        return {name: f"{name}_total" for name, each in words.items() if each & knobs.keys()}

    def derive(self) -> list[str]:
        if not self._derived:
            return []
        ask = "its shape varies with a parameter: which value of it does not?"
        each = ", ".join(f"{name}: sum({output})" for output, name in self._derived.items())
        return [f"  derive: {{{each}}}{asked(ask)}"]

    def reference(self) -> list[str]:
        arrays = {name_of(p): self._facts.role(p)[0] for p in self._shapes.arrays} | dict.fromkeys(
            self._facts.constants, "in"
        )
        arrays |= {name_of(p): p.access or "in" for p in self._facts.parameters if p.kind in ("image", "texture")}
        outputs = [self._derived.get(name, name) for name, role in arrays.items() if role != "in"] or ["y"]
        inputs = [name for name, role in arrays.items() if role != "out"]
        real = [p for p in self._shapes.arrays if name_of(p) in inputs and self._is_short(p)]
        expression = self._expression(inputs, outputs[0]) if inputs else self._zeros()
        choices = _REFERENCES.format(
            expression=_EXPRESSION.format(expression) if expression and len(outputs) == 1 else "",
            arguments=", ".join([*inputs, "*", *self._extents, *self._arguments.options]),
            trusted=_TRUSTED if self._facts.knobs or self._facts.languages == ["cuda"] else "",
            rounding=_ROUNDING.format(real[0].dtype, name_of(real[0])) if real else "",
        )
        ask = f"what must {' and '.join(outputs)} hold?"
        if len(outputs) == 1:
            return [f"  reference:{asked(ask)}", choices]
        choices = choices.replace("returns an array", f"returns {{{', '.join(f'{o!r}: ...' for o in outputs)}}}")
        each = ", ".join(f"{output}: ..." for output in outputs)
        return [f"  reference:{asked(ask)}", choices, f"  # or one for each output: reference: {{{each}}}"]

    def tolerance(self) -> list[str]:
        """A comment about the tolerance of sums, whose rounding errors grow with the number of terms."""
        sums = "+ = " in _without_headers(self._facts.body) and re.search(r"\b(?:for|while) \(", self._facts.body)
        if not sums or not any(self._is_short(p) for p in self._shapes.arrays if self._facts.role(p)[0] != "in"):
            return []
        size = " * ".join(self._terms or self._summed) or self._extents[-1]
        of_positive = f"{{rtol: 2 * epsilon * (4 + sqrt({size}))}}"
        return [
            f"  # tolerance: 16 * epsilon * {size}    # if each output is a sum of {size} terms; else 16 epsilon",
            f"  # tolerance: {of_positive}    # if the terms are positive, such as squares: docs/comparison.md",
        ]

    @property
    def _terms(self) -> list[str]:
        """The numbers of passes of the loops around sums, over the sizes of the draft."""
        facts, constants = self._facts, self._facts.constants_of_all
        known = {*self._extents, *constants}
        found = sums.counts(facts.body, facts.computed, known, facts.knobs.keys() - {*self._extents})
        found = [re.sub(r"\w+", lambda name: str(constants.get(name[0], name[0])), each) for each in found]
        number = math.prod(int(each) for text in found if (each := evaluated(text, {})).isdecimal())
        others = [text.removesuffix(" // 1") for text in found if names_in(text)]
        return [*[str(number)] * (number > 1), *(text if text.isidentifier() else f"({text})" for text in others)]

    @property
    def _summed(self) -> list[str]:
        """The sizes that are extents of inputs, and of no output."""
        read, written = set[str](), set[str]()
        for array in self._shapes.arrays:
            names = read if self._facts.role(array)[0] == "in" else written
            names.update(re.findall(r"\w+", " ".join(self._shapes.shape(array.name))))
        return [name for name in self._extents if name in read - written]

    @staticmethod
    def _is_short(array: Parameter) -> bool:
        """Whether an array holds real numbers of less precision than float64."""
        dtype = DTYPES.get(array.dtype or "")
        return dtype is not None and dtype.kind == "real" and dtype.itemsize < DTYPES["float64"].itemsize

    def _zeros(self) -> str:
        """An array with the shape of the first output, for a kernel without inputs."""
        written = [p for p in self._shapes.arrays if self._facts.role(p)[0] != "in"]
        shape = self._shapes.shape(written[0].name) if written else []
        extents = ", ".join(shape)
        return f"zeros(({extents}))" if len(shape) > 1 else f"zeros({extents})" if shape else ""

    def _expression(self, inputs: list[str], output: str) -> str:
        """A guess of the reference expression; empty if too little is known.

        It is `bincount` for scattered sums, `sum` for an output of one element, else the sum of the inputs that have
        the output's shape.
        """
        for array in self._shapes.arrays:
            chosen = [name for name in self._facts.choices.indices_into(array.name) if name != array.name]
            others = [name for name in inputs if name not in (*chosen, name_of(array))]
            extents = self._told.shape(array.name) or []
            if name_of(array) in inputs and chosen and self._facts.role(array)[0] == "inout":
                if len(chosen) > 1 or len(extents) != 1 or len(others) > 1:
                    return ""
                weights = f"weights={others[0]}, " if others else ""
                return f"{name_of(array)} + bincount({chosen[0]}, {weights}minlength={extents[0]})"
        shapes = {name_of(array): self._shapes.shape(array.name) for array in self._shapes.arrays}
        single = {name for name, shape in shapes.items() if shape == ["1"]}
        if output in shapes and output not in single:  # others cannot be added
            inputs = [name for name in inputs if shapes.get(name, shapes[output]) == shapes[output]] or inputs[:1]
        return " + ".join(f"sum({name})" if output in single and name not in single else name for name in inputs)


def _without_headers(body: str) -> str:
    """A body, tokens joined by blanks, without the headers of its loops, whose steps are no sums."""
    words, kept, at = body.split(), list[str](), 0
    while at < len(words):
        kept.append(words[at])
        is_header = words[at] == "for" and words[at + 1 : at + 2] == ["("]
        at = matching(words, at + 1) + 1 if is_header else at + 1
    return " ".join(kept) + " "
