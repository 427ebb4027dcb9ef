"""The shapes of arrays in a draft: as the source tells them, or guessed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting.polynomials import names_in
from tuner.space.sources.prototype import Parameter

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.extents import DraftedExtents

MOST_GUESSED = 3  # extents of a guessed shape


class GuessedShapes:
    """The shapes of the arrays that kernels take."""

    def __init__(self, facts: ChosenKnobs, told: DraftedExtents) -> None:
        self._facts, self._told = facts, told

    @property
    def arrays(self) -> list[Parameter]:
        """The arrays that the caller most likely passes: no local memory, no scratch."""
        facts = self._facts
        pointers = [p for p in facts.parameters if p.is_pointer and not facts.is_local(p)]
        return [p for p in pointers if facts.role(p)[0] != "scratch"]

    def is_guess(self, array: Parameter) -> bool:
        """Whether nothing in the source tells the shape of an array."""
        is_known = self._told.shape(array.name) is not None or bool(self._told.per_block(array.name))
        return not is_known and not self._facts.is_local(array)

    def shape(self, name: str) -> list[str]:
        """The shape of an array: as the source indexes it, one element per block, or `guess`."""
        told = self._told.shape(name) or self._told.per_block(name)
        known = told or self._of_rows(name) or self._of_macros(name) or self._told.of_host(name) or self._likely(name)
        length = 0 if known else self._facts.shapes.length_of_records(name)
        is_plain = self._facts.shapes.is_plain(name) and self._told.sizes  # the axes of images are all of a buffer
        guess = self.guess[:1] if is_plain else self.guess
        return known or [*guess, *[str(length)] * bool(length)]

    @cached_property
    def guess(self) -> list[str]:
        """The shape assumed for an array whose shape cannot be inferred.

        It is the shape of another array that has all sizes, else all sizes. If there are more than MOST_GUESSED, it is
        that of the array with most sizes, or only the first size. Sizes that no index and no extent has do not count.
        """
        every = [self._told.shape(array.name) or [] for array in self.arrays]
        read = {name for array in self.arrays for name in self._facts.shapes.reads(array.name)}
        read |= {name for shape in every for extent in shape for name in names_in(extent)}
        sizes = [size for size in self._told.extents if size in read] or self._told.extents
        like = next((shape for shape in every if sorted(shape) == sorted(sizes)), None)
        if like or len(sizes) <= MOST_GUESSED:
            return like or sizes
        longest = max(every, key=lambda shape: len(names_in(" ".join(shape))), default=[])
        return longest if len(names_in(" ".join(longest))) > MOST_GUESSED else sizes[:1]

    def _likely(self, name: str) -> list[str]:
        """A shape for which something speaks; empty if nothing does."""
        found = [self._told.numbered(each) for each in self._facts.shapes.likely(name)]
        return found if found and all(found) else self._of_struct(name)

    def _of_struct(self, name: str) -> list[str]:
        """The only size in the struct that has the pointer to an array; empty if there is none, or several."""
        owners = {each.parameter for each in self._facts.pointers if each.array.name == name}
        found = [size for size, field in self._facts.fields.items() if field.parameter in owners]
        return found if len(found) == 1 else []

    def _of_rows(self, name: str) -> list[str]:
        """The shape of an array whose type tells all extents but the first, as `float (*x)[4]`; empty if none does."""
        extents = (extent for p in self._facts.parameters if p.name == name for extent in p.extents[1:])
        rows = [self._told.numbered(extent) for extent in extents]
        return [*self.guess[:1], *rows] if rows and all(rows) else []

    def _of_macros(self, name: str) -> list[str]:
        """The shape of an array whose rows are as long as a size that the source defines; empty if there is none."""
        macros = self._facts.size_macros
        pattern = rf"\b{re.escape(name)} (?:\[ ([^\[\]]*) \]|\+ ([^;\[\]]*?) \))"
        for index in ("".join(each) for each in re.findall(pattern, self._facts.body)):
            strides = [stride for stride in re.findall(r"\* (\w+)", index) if stride in macros]
            if strides:
                others = [size for size in macros if size not in strides]
                return [*(others or strides)[:1], strides[0]]
        return []
