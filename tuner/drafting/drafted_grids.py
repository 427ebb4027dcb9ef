"""The grids of a draft: what host code says where that is certain, else what indices tell."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.drafting.polynomials import names_in, numbers_in

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.launched import Said

_TOKEN = re.compile(r"\w+|\S")
Shapes = Mapping[str, Sequence[str]]
_OF_BLOCKS = re.compile(r"(?i)group|block|local|thread|warp|wave|grid")  # names for what may follow from the block


class DraftedGrids:
    """The grids in a draft of the kernels with these facts.

    said: what the host code says.
    renames: the names of host code for numbers of blocks that indices tell.
    known: gives the shapes of the arrays that are told; these may follow from `blocks_on`, but not from `proved`.
    """

    def __init__(self, facts: ChosenKnobs, said: Said, renames: Mapping[str, str], known: Callable[[], Shapes]) -> None:
        self._facts, self._said, self._renames, self._known = facts, said, renames, known

    def proved(self, step: int) -> list[str | None]:
        """The grid of a step, without what is right for the host's blocks or for arrays of other extents only."""
        every = [*itertools.zip_longest(self._indexed(step), self._said_without_new(step))]
        is_partly_known = None in self._said.grids[step] and any(one for one, _ in every)
        if is_partly_known:  # launches differ: with which of them one axis goes is not known
            every = [(one, other if one else None) for one, other in every]
        indexed = [
            None if one and self._is_of_arrays(step, at, one, other) else one for at, (one, other) in enumerate(every)
        ]
        said = [
            None if indexed[at] is None and self._is_of_host_block(step, at, other) else other
            for at, (_, other) in enumerate(every)
        ]
        return self._grid(step, indexed, said)

    def _said_without_new(self, step: int) -> list[str | None]:
        """The host's grid of a step, without sizes that only the host has and no array, except arrays by blocks."""
        shapes, steps_over = self._facts.shapes, self._facts.grids.steps_over
        found = list[str | None]()
        for axis, each in enumerate(self._said_of(step)):
            by_blocks = {n for n in self._known() if shapes.axis_of(n, step) == axis and not steps_over(step, [axis])}
            found.append(self._without_new(each, by_blocks, self._threads(step, axis)))
        return found

    def _threads(self, step: int, axis: int) -> set[str]:
        """The names in the block size of a step on an axis that are no sizes."""
        block = self._facts.block_of(self._facts.steps[step])[axis : axis + 1]
        return {*names_in("".join(block))} - {*self._facts.sizes}

    def _grid(self, step: int, indexed: list[str | None], said: list[str | None]) -> list[str | None]:
        """The grid of a step from what indices and the host say."""
        if not self._said.grids[step] or (self._facts.grids.is_flat(step) and None not in indexed):
            return indexed
        if self._facts.waits(self._facts.steps[step]):
            return said  # more blocks than the host launches might wait for ever
        every = itertools.zip_longest(indexed, said)
        return [self._on_axis(step, axis, one, other) for axis, (one, other) in enumerate(every)]

    def _on_axis(self, step: int, axis: int, indexed: str | None, said: str | None) -> str | None:
        """The extent of a grid: what both say, unless the host's holds for its own numbers only."""
        if self._facts.grids.steps_over(step, [axis]):
            is_number = said is not None and said.isdecimal() and int(said) > 1
            # Any number is right; the host has chosen this one.
            return said if is_number else self._blocks(indexed, said)
        if not indexed:
            return self._blocks(indexed, said)
        is_single = said in ("1", None) and indexed != "1" and self._facts.launched.has_one_block(step, axis)
        if is_single and self._is_shared(step, axis):
            return None
        if not said:
            return self._blocks(indexed, said)
        is_same = self._with_values(indexed) == said or indexed == self._with_values(said)
        if is_same or self._with_defaults(indexed, said) == sorted(_TOKEN.findall(said)):
            return indexed
        one, other = ({*names_in(each)} for each in (indexed, said))
        sizes = {*self._facts.sizes, *self._facts.size_macros}
        if one & sizes and other & sizes and (one & sizes).isdisjoint(other) and other.isdisjoint(self._said.new):
            return None  # the host was written for two sizes that are one number
        threads = {*names_in(" ".join(self._facts.block_of(self._facts.steps[step])))} - sizes
        is_of_host = bool(one & threads) and other.isdisjoint(threads)
        is_of_numbers = bool(one & sizes) and other.isdisjoint({*sizes, *self._said.new})
        if not said.isdecimal() and (is_of_host or is_of_numbers):
            return indexed  # the host's number is right for its block, or its size
        return self._blocks(indexed, said)

    def _with_values(self, blocks: str) -> str:
        """A number of blocks with the values that the host's sizes have by each other."""
        for name in {*names_in(blocks)} & self._said.values.keys():
            blocks = re.sub(rf"\b{name}\b", self._said.values[name], blocks)
        return blocks

    def _with_defaults(self, blocks: str, said: str) -> list[str]:
        """The tokens of a number of blocks, in which knobs that the host does not name have its numbers, in order."""
        knobs = {name: str(knob.default) for name, knob in self._facts.knobs.items() if name not in names_in(said)}
        return sorted(knobs.get(word, word) for word in _TOKEN.findall(blocks))

    def _is_shared(self, step: int, axis: int) -> bool:
        """Whether all blocks along an axis would write the same elements of an array."""
        roles = self._facts.roles_in(self._facts.steps[step])
        return any(roles.get(name) != "in" for name in self._facts.grids.of_all_blocks(step, axis))

    def blocks_on(self, step: int, axis: int) -> list[str | None]:
        """The blocks of a step on an axis, if any: the host's where a grid-stride loop lets it choose."""
        indexed, said = self._indexed(step), self._said_of(step)
        if said[axis : axis + 1] not in ([], [None]) and self._facts.grids.steps_over(step, [axis]):
            return said[axis : axis + 1]
        return self._grid(step, indexed, said)[axis : axis + 1]

    def _indexed(self, step: int) -> list[str | None]:
        block = self._facts.block_of(self._facts.steps[step])
        return [self.renamed(each) if each else None for each in self._facts.grids.of(step, block)]

    def _said_of(self, step: int) -> list[str | None]:
        """The grid of a step as the host says it, without trailing axes of 1 that the kernel does not read."""
        said, count = [*self._said.grids[step]], len(self._facts.grids.of(step, ()))
        kernel = self._facts.steps[step]
        said = ["1" if self._facts.is_single_block(kernel, axis) else each for axis, each in enumerate(said)]
        while len(said) > max(1, count) and said[-1] == "1":
            said.pop()
        is_read = len(said) <= max(1, count) or not count
        return said if is_read else [None] * len(said)  # blocks that the kernel does not tell from others

    def _blocks(self, indexed: str | None, said: str | None) -> str | None:
        """The extent of a grid: as the host says it, unless indices tell it for the same number of elements."""
        if indexed and said is None and " + " in indexed:
            return None  # the host may launch less
        if indexed is None or said is None:
            return indexed or said
        if set(names_in(said)) & self._said.new.keys() and set(names_in(indexed)) & {
            *self._facts.sizes,
            *self._renames,
        }:
            return indexed
        one, other = self._with_numbers(indexed), self._with_numbers(said)
        if set(names_in(one)) == set(names_in(other)) and not numbers_in(other) <= numbers_in(one):
            return said  # fewer blocks, which take several elements each
        if not set(names_in(indexed)) <= set(names_in(said)) | {"ceil_div"} and not said.isdecimal():
            return said
        return said if " + " in said and set(names_in(said)) - set(names_in(indexed)) else indexed

    def _with_numbers(self, blocks: str) -> str:
        """A number of blocks with numbers in the place of constants that are neither sizes nor knobs."""
        facts = self._facts
        fixed = facts.numbers.keys() - facts.size_macros.keys() - facts.knobs.keys() - {*facts.sizes}
        return re.sub(r"[A-Za-z_]\w*", lambda n: str(facts.numbers[n[0]]) if n[0] in fixed else n[0], blocks)

    def has_any_grid(self, step: int) -> bool:
        """Whether any number of blocks is right, because of a grid-stride loop."""
        facts = self._facts
        every = (name for axis in range(3) for name in facts.grids.of_blocks(step, axis))
        return facts.grids.steps_over(step) and not facts.waits(facts.steps[step]) and not any(every)

    def _is_of_host_block(self, step: int, axis: int, blocks: str | None) -> bool:
        """Whether the host's number of blocks has an element for each thread of the host's block only."""
        block = self._facts.block_of(self._facts.steps[step])[axis : axis + 1]
        if self._facts.is_block_of_host(self._facts.steps[step], axis):
            return False  # the host's number is right for all values of a macro
        if blocks is None or not blocks.isdecimal() or not {*names_in("".join(block))} - {*self._facts.sizes}:
            return False
        if blocks == "1" and self._facts.threads_of_single_block(self._facts.steps[step], axis):
            return False  # the block follows from the sizes
        words, parameters = {*names_in(block[0])}, self._facts.steps[step].parameters or ()
        if not any(p.is_pointer for p in parameters) or any(p.stars > 1 for p in parameters):
            return True  # no array shows what its threads do
        if self._facts.launched.passes_parts_of_threads(step):
            return True
        if self._facts.grids.of_blocks_of_threads(step, axis):
            return True  # an array has as many elements as there are threads
        of_threads = self._facts.grids.of_threads(step, axis)
        written = [p.name for p in self._facts.parameters if p.name in of_threads and self._facts.role(p)[0] != "in"]
        return any(words.isdisjoint(names_in(" ".join(self._known().get(name, ())))) for name in written)

    def _is_of_arrays(self, step: int, axis: int, blocks: str, said: str | None) -> bool:
        """Whether the number of blocks, which may be any in a grid-stride loop, is an array's extent.

        Then the host's is right. An array of unknown shape is asked for, and may follow the blocks.
        """
        known, shapes = self._known(), self._facts.shapes
        every = self._facts.grids.of_blocks(step, axis)
        of_blocks = [name for name in every if name in known or (said and shapes.axis_of(name, step) != axis)]
        return any(blocks not in " ".join(known.get(name, ())) for name in of_blocks)

    def _without_new(self, blocks: str | None, by_blocks: Collection[str], threads: set[str]) -> str | None:
        """The extent of a grid with numbers in place of sizes that only the host has and no array, unless the host
        divides them by its block of these `threads`. None if only arrays with an element for each block have it:
        indices do not tell how many blocks there are."""
        every = {name: {word for each in shape for word in names_in(each)} for name, shape in self._known().items()}
        known = {word for name, words in every.items() if name not in by_blocks for word in words}
        of_blocks = {word for name, words in every.items() if name in by_blocks for word in words} - known
        if of_blocks & {*names_in(blocks or "")} & self._said.new.keys():
            return None
        whole = re.fullmatch(r"ceil_div\((.+), ([^,]+)\)", blocks or "")
        if whole and threads and threads <= {*names_in(whole[2])} and not _OF_BLOCKS.search(whole[1]):
            known |= {name for name in names_in(whole[1]) if not self._said.new.get(name)}  # so many elements
        for name in set(names_in(blocks or "")) & self._said.new.keys() - known:
            number = self._said.new[name]
            if not number or re.search(rf"\b{name} // [A-Za-z_]", blocks or ""):
                return None  # how many times a size fits into what the host has
            blocks = re.sub(rf"\b{name}\b", str(number), blocks or "")
        return blocks

    def renamed(self, text: str) -> str:
        """An expression with the host's names for numbers of blocks."""
        for name, other in self._renames.items():
            text = re.sub(rf"\b{name}\b", other, text)
        return text
