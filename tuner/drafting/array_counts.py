"""Decides what holds of an array: the extents that indices tell, or the number of elements that host code says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.drafting.arrays.indices import Indices
from tuner.drafting.polynomials import Polynomial, added, atom, names_in, product_of, quotient_of, times, written
from tuner.space.sources.tokens import words

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.drafted_grids import DraftedGrids
    from tuner.drafting.launched import Said

MOST_TERMS = 4  # of a shape that the host code says
LEAST_OF_HOST = 65536  # elements; so large a number in host code is that of its problem


class ArrayCounts:
    """The shapes of the arrays of the kernels with these facts, of which host code says numbers of elements.

    has_renamed: whether an array tells the host's name for a number of blocks.
    """

    def __init__(self, facts: ChosenKnobs, said: Said, grids: DraftedGrids, has_renamed: bool) -> None:
        self._facts, self._said, self._grids, self._has_renamed = facts, said, grids, has_renamed

    def shape(self, name: str) -> list[str] | None:
        """The shape of an array; None if nothing tells it, or if what indices and host code tell cannot both hold."""
        count, indexed = self._said.counts.get(name), self._facts.shapes.shape(name)
        if count is None or len(count) > MOST_TERMS:
            return indexed
        if indexed and self._agree(indexed, count):
            return indexed
        templates = self._facts.shapes.reads(name) & self._facts.templates.knobs.keys()
        if set(count) <= {()} and any(self._facts.launched.number(each) is None for each in templates):
            return indexed  # the number is that of one instance
        if (indexed and self._contradicts(count, indexed)) or self._is_of_other_grid(name, count):
            return None
        if not indexed and self._is_of_host(name, count):
            return None
        if not self._facts.shapes.is_left_over(name) and self._is_only(count, indexed):
            return indexed
        fixed = self._facts.shapes.faster(name)
        rest = quotient_of(count, product_of(fixed)) if fixed else None
        names = {each for product in count for each in product}
        if rest is None and fixed and names <= self._said.new.keys():
            return indexed  # the host has another name for a number of rows, times their length
        return [written(count)] if rest is None else [written(rest), *fixed]

    def _agree(self, indexed: list[str], count: Polynomial) -> bool:
        """Whether the host's number of elements is that of the indices, also for the sizes that all launches pass."""
        value, elements, launched = self._evaluated(count), self._elements(indexed), self._facts.launched
        passed = {size: number for size in self._facts.sizes if (number := launched.number(size)) is not None}
        names = {name for each in indexed for name in names_in(each)}
        is_passed = set(value) == {()} and names <= {*passed}
        is_same = value == elements or value == self._with_values(elements)
        return is_same or (is_passed and value[()] == _product_sum(elements, passed))

    def _with_values(self, elements: Polynomial) -> Polynomial:
        """A number of elements with the values that the host's sizes have by each other: `2 * n - 2` for m."""
        given = {name: value for name, value in self._said.values.items() if name in self._facts.sizes}
        reader = Indices((), ())
        total: Polynomial = {}
        for product, factor in elements.items():
            part: Polynomial = {(): factor}
            for name in product:
                part = times(part, reader.polynomial(words(given[name])) if name in given else atom(name))
            total = added(total, part)
        return total

    def _contradicts(self, count: Polynomial, indexed: list[str]) -> bool:
        """Whether indices and host code, in the same names, tell numbers of elements of which one is wrong."""
        count, product = self._evaluated(count), self._elements(indexed)
        names = {name for each in (*count, *product) for name in each}
        less, rows = added(count, product, -1), quotient_of(count, self._elements(indexed[1:]))
        more = {(): -1} if rows is None else added(rows, self._elements(indexed[:1]), -1)
        is_more = set(less.values()) <= {1} or quotient_of(count, product) is not None
        is_more |= {*more} <= {()} and more.get((), 0) >= 0  # so many rows behind those that are read
        return names <= {*self._facts.sizes, *self._facts.size_macros} and not is_more

    def _is_of_host(self, name: str, count: Polynomial) -> bool:
        """Whether host code tells a number that is right for its own numbers only.

        It is one of the host's constants, though the kernel takes other sizes, or lacks a knob by which indices are
        apart.
        """
        names = {each for product in count for each in product}
        new = names & self._said.new.keys()
        is_constant = bool(new) and new == names and any(self._said.new[each] is not None for each in new)
        is_constant |= set(count) == {()} and count[()] >= LEAST_OF_HOST
        if is_constant and any(self._facts.launched.number(size) is None for size in self._sizes_of_indices()):
            return True
        knobs = self._facts.knobs.keys() & self._facts.templates.knobs.keys()
        apart = {each for product in self._facts.shapes.strides(name) if len(product) > 1 for each in product}
        words = {word for each in names for word in names_in(each)}
        sizes = {*self._facts.sizes}
        if apart & sizes and not words & {*sizes, *self._said.new}:
            return True
        read = sizes if self._facts.shapes.has_others(name) else self._facts.shapes.reads(name) & sizes
        passed = (self._facts.launched.number(size) or 0 for size in read - words)
        numbers = {each: number for each, number in self._said.new.items() if number}
        factors = [
            factor * math.prod(numbers.get(each, 1) for each in product)
            for product, factor in self._evaluated(count).items()
        ]
        if any(number > 1 and factor % number == 0 for number in passed for factor in factors):
            return True  # the number that the host passes for another size
        return bool(new) and not (apart & knobs) <= names

    def _sizes_of_indices(self) -> set[str]:
        """The sizes in the indices of arrays, in what these are compared with, and in grids: all where one is unknown,
        or where no array has an index; none that differ between passes of a loop of the host."""
        read = {each for p in self._facts.parameters if p.is_pointer for each in self._facts.shapes.reads(p.name)}
        blocks, sizes = [each for grid in self._said.grids for each in grid], {*self._facts.sizes}
        sizes -= self._facts.loop_variables
        if not read or not blocks or None in blocks:
            return sizes
        return (read | {word for each in blocks if each for word in names_in(each)}) & sizes

    def _is_of_other_grid(self, name: str, count: Polynomial) -> bool:
        """Whether an array has an element for each block, but host code says another number than that of the blocks."""
        for step in range(len(self._facts.steps)):
            axis = self._facts.shapes.axis_of(name, step)
            blocks = [] if axis is None else self._grids.blocks_on(step, axis)
            if blocks not in ([], [None], [written(count)]):
                return True
        return False

    def _elements(self, extents: list[str]) -> Polynomial:
        return self._evaluated(product_of(extents))

    def _evaluated(self, value: Polynomial) -> Polynomial:
        """A polynomial with numbers in place of the source's constants that are no sizes."""
        facts, total = self._facts, dict[tuple[str, ...], int]()
        known = {name: number for name, number in facts.numbers.items() if name not in facts.size_macros}
        for product, factor in value.items():
            left = tuple(name for name in product if name not in known)
            total[left] = total.get(left, 0) + factor * math.prod(known.get(name, 1) for name in product)
        return total

    def _is_only(self, count: Polynomial, indexed: list[str] | None) -> bool:
        """Whether host code says less than indices do: a number, or sizes that no kernel takes."""
        names = {name for product in count for name in product}
        numbers = [n for n in self._facts.sizes if n in self._facts.launched.literals]
        if not names:
            return bool(indexed) or bool(numbers)
        if all(map(str.isdecimal, indexed or ["n"])):
            known = {name: number for name, number in self._said.new.items() if number is not None}
            return [*map(int, indexed or ())] == [known.get(written(count))]
        is_new = not {*(indexed or ())}.isdisjoint(self._facts.shapes.new_sizes)
        return bool(indexed) and not is_new and not names.isdisjoint(self._said.new) and not self._has_renamed


def _product_sum(value: Polynomial, numbers: Mapping[str, int]) -> int:
    """The number that a polynomial has for these numbers of its names."""
    return sum(factor * math.prod(numbers[name] for name in product) for product, factor in value.items())
