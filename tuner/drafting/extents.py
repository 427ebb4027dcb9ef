"""The sizes, shapes and grids of a draft: from host code if it is unambiguous, otherwise from indices."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting.array_counts import ArrayCounts
from tuner.drafting.arrays import leading, strides
from tuner.drafting.arrays.local_memory import StoredMemory
from tuner.drafting.by_value import evaluated
from tuner.drafting.drafted_grids import DraftedGrids
from tuner.drafting.fields import SHARED
from tuner.drafting.host.kernel_names import KernelNames
from tuner.drafting.polynomials import (
    names_in,
    product_of,
    quotient_of,
    written,
)
from tuner.space.expressions import arithmetic
from tuner.space.kinds.image import AXES, type_of
from tuner.space.scope import DEVICE_NAMES

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs
    from tuner.drafting.launched import Said
    from tuner.space.sources.prototype import Prototype

ROWS_FIRST = ("depth", "height", "width")  # names for the axes of images
_IN_SUM = re.compile(r"(?<!\w)(?<![*/%] )\((\w+ // \w+)\)(?= [-+])|(?<=[-+] )\((\w+ // \w+)\)(?! [*/%])")
_PART = re.compile(r"(?<!\w)\d+\)? // \(?[A-Za-z_]")  # a number divided by a knob: the quotient may be 0


class DraftedExtents:
    """The extents in a draft of the kernels with these facts."""

    def __init__(self, facts: ChosenKnobs) -> None:
        self._facts = facts

    @cached_property
    def _said(self) -> Said:
        """What the host code says, written with the names of the kernels' sizes, of knobs and of new sizes."""
        facts = self._facts
        taken = {*arithmetic.FUNCTIONS, *DEVICE_NAMES, *keyword.kwlist, *facts.knobs, *facts.templates.types}
        taken |= {parameter.name for parameter in facts.parameters}
        blocks = [facts.block_of(step) for step in facts.steps] if facts.has_grid else [[] for _ in facts.steps]
        numbers = {*facts.numbers, *(facts.knobs.keys() & facts.reached)}
        names = KernelNames(facts.sizes, numbers, facts.templates.knobs, facts.reached, taken)
        return facts.launched.said(names, blocks)

    @cached_property
    def new_sizes(self) -> dict[str, int | None]:
        """The sizes that no kernel takes as an argument, with their values in the host code, or None."""
        used = self._used()
        found = {name: number for name, number in self._said.new.items() if name in used}
        return found | {name: None for name in self._facts.shapes.new_sizes if name in used}

    @cached_property
    def values(self) -> dict[str, str]:
        """The kernels' scalars that follow from sizes, with their values."""
        sizes = {*self._facts.sizes, *self._facts.size_macros, *self.new_sizes} - self.rows.leading
        found, used = dict[str, str](), self._used() | self.rows.leading
        knobs = self._facts.knobs.keys() & self._facts.numbers  # which the host names, too
        for name, value in self._said.values.items():
            words = set(names_in(value)) - {"ceil_div"}
            if name not in used and words & sizes and words <= sizes | knobs and not words & {*found, name}:
                sizes.discard(name)
                found[name] = re.sub(r"^\(((?:\([^()]*\)|\w+) // \w+)\)$", r"\1", value)
        launched = self._facts.launched
        begun = {
            name: "0"
            for name in sizes & {*self._facts.sizes}
            if name in launched.literals and launched.number(name) == 0
        }
        return {**self._lengths_between, **begun, **found, **self._of_blocks, **self.rows.values(self._shapes)}

    @cached_property
    def _of_blocks(self) -> dict[str, str]:
        """The scalars for which the host passes its threads on an axis, which have the same number in the draft."""
        facts, found = self._facts, dict[str, str]()
        for at, step in enumerate(facts.steps if facts.has_grid else ()):
            for axis, threads in enumerate(facts.block_of(step)):
                same = facts.launched.same_as_block(at, axis) if threads.isdecimal() else ()
                found |= dict.fromkeys(same, threads)
        return found

    @cached_property
    def _lengths_between(self) -> dict[str, str]:
        """The scalars that the host passes as lengths of certain arrays, with these lengths: arrays that one step hands
        to the next, with one element per block."""
        found = dict[str, str]()
        for array in (p.name for p in self._facts.parameters if p.is_pointer and self._facts.is_handed_on(p.name)):
            count, blocks = self._said.counts.get(array), self.per_block(array)
            same = [name for name, value in self._said.values.items() if count and value == written(count)]
            found |= dict.fromkeys(same, blocks[0]) if blocks else {}
        return found

    def per_block(self, name: str) -> list[str]:
        """The shape of an array with one element per block along one axis; empty if it is no such array, or unknown."""
        shapes = self._facts.shapes
        for step in range(len(self._facts.steps)):
            axis = shapes.axis_of(name, step)
            if axis is not None and shapes.shape(name) is None:
                return [blocks for blocks in self.grid(step)[axis : axis + 1] if blocks is not None]
        return []

    def _with_blocks(self, extent: str) -> str:
        """An expression with the numbers of those scalars that are the threads of a block."""
        for name, threads in self._of_blocks.items():
            extent = re.sub(rf"\b{name}\b", threads, extent)
        return extent

    @property
    def sizes(self) -> list[str]:
        """The names of all sizes."""
        return [name for name in self._every_size if name not in self.options]

    @property
    def _every_size(self) -> list[str]:
        """The names of all sizes, and of scalars that may be options."""
        facts = self._facts
        taken = (n for n in facts.sizes if n not in self.values and n not in self.rows.leading)
        return [*dict.fromkeys([*self.new_sizes, *taken, *facts.size_macros])]

    @cached_property
    def options(self) -> dict[str, int | None]:
        """The whole scalars that are options, with their numbers, or None: they decide neither extents, indices nor
        bounds, or all launches pass the same number and neither extents nor indices have them, as a count of
        iterations. None of the latter is if the shape of an array is unknown, and none at all is if nothing else is a
        size."""
        facts, every = self._facts, self._every_size
        arrays = [p.name for p in facts.parameters if p.is_pointer and not facts.is_local(p)]
        is_known = all(self.shape(name) is not None or self.per_block(name) for name in arrays)
        texts = [*self.values.values(), *self.restrictions(), *map(written, self._said.local.values())]
        texts += [each for name in arrays for each in facts.shapes.reads(name)]
        used = self._used() | {word for each in texts for word in names_in(each)}
        names = [n for n in every if n in facts.sizes and n not in used]
        numbers = {name: facts.launched.number(name) for name in names}
        read = {*facts.body.split(" ")} - facts.placing
        found = {name: number for name, number in numbers.items() if name in read or (is_known and number is not None)}
        return found if len(found) < len(every) else {}

    @cached_property
    def extents(self) -> list[str]:
        """The names of all sizes; if there are none, of the axes of images, or of a size that the draft asks for."""
        axes = max((AXES.get(type_of(p.type), 2) for p in self._facts.parameters if p.kind == "image"), default=0)
        taken = {*self._facts.knobs, *(parameter.name for parameter in self._facts.parameters)}
        if axes and not self.sizes and taken.isdisjoint(ROWS_FIRST):
            return [*ROWS_FIRST[-axes:]]
        return self.sizes or [next((name for name in ("n", "count", "extent") if name not in taken), "n")]

    @cached_property
    def _grids(self) -> DraftedGrids:
        return DraftedGrids(self._facts, self._said, self._renames, lambda: self._shapes)

    @cached_property
    def _counts(self) -> ArrayCounts:
        has_renamed = bool(self._renames.keys() - self._said_blocks.keys())
        return ArrayCounts(self._facts, self._said, self._grids, has_renamed)

    def has_any_grid(self, step: int) -> bool:
        """Whether any number of blocks is right, because of a grid-stride loop."""
        return self._grids.has_any_grid(step)

    def shape(self, name: str) -> list[str] | None:
        """The shape of an array; None if nothing tells it."""
        return self._shapes.get(name)

    def of_host(self, name: str) -> list[str]:
        """The number of elements of an array that host code tells, in sizes of the draft; empty if it tells none.
        Indices may contradict it."""
        count = self._said.counts.get(name)
        found = self.numbered(written(count)) if count else ""
        names = {*names_in(found)} - {"ceil_div"}
        return [found] if names and names <= {*self.extents, *self._facts.knobs} else []

    def local(self, name: str, step: Prototype) -> str:
        """The number of elements of an array in a step's local memory; empty if unknown, or known only for one block
        size."""
        return self._local_of_host(name) or self._local_of_stores(step).elements(name)

    def _local_of_stores(self, step: Prototype) -> StoredMemory:
        """The local memory of a step, as its stores tell it."""
        facts = self._facts
        names = {*facts.sizes, *facts.size_macros, *facts.knobs} - self.values.keys()
        return StoredMemory(step.body, facts.block_of(step), names, facts.numbers)

    def shared(self) -> str:
        """The bytes of dynamic shared memory that host code gives a block; empty if unknown, as for `local`."""
        return self._local_of_host(SHARED)

    def _local_of_host(self, name: str) -> str:
        count = self._said.local.get(name)
        if count is None:
            return ""
        blocks = {word for word in self._blocks_of_draft if not word.isdecimal()}
        names = {each for product in count for each in product}
        if not blocks or not blocks.isdisjoint(names):
            return self._with_blocks(written(count))
        fixed = {*self._facts.numbers} - {*self._facts.knobs}  # of sizes and these alone, it is right for all blocks
        is_of_problem = not names.isdisjoint(self._facts.sizes) and names <= {*self._facts.sizes, *fixed}
        return self.numbered(written(count)) if is_of_problem else ""

    def grid(self, step: int) -> list[str | None]:
        """The grid of a step in x, y, z; None for each unknown axis."""
        kept = {*self._facts.knobs}
        found = [self._across(self._numbered(each, kept)) if each else None for each in self._grids.proved(step)]
        return [each if each is None or (self._is_known(each) and not _PART.search(each)) else None for each in found]

    def restrictions(self) -> dict[str, str]:
        """The conditions on block sizes, with their reasons, such as a division that must have no remainder."""
        found, knobs = dict[str, str](), self._facts.knobs
        found |= dict.fromkeys(self._facts.asserted, "the source asserts it")
        for name, macro in self._facts.launched.passed_macros().items() if self._facts.program else ():
            if name in knobs and macro in knobs and name != macro:
                found[f"{name} == {macro}"] = "the host passes one for the other"
        for at, step in enumerate(self._facts.steps if self._facts.has_grid else ()):
            for axis, (block, blocks) in enumerate(zip(self._facts.block_of(step), self.grid(at), strict=False)):
                values = knobs[block].values if block in knobs else [block] * (block.isdecimal() and block != "1")
                whole = self._whole(at, axis, block, blocks) if blocks and values else ""
                is_sure = whole.isdecimal() and not any(int(whole) % int(each) for each in values)
                if whole and not is_sure:
                    found[f"{whole} % {block} == 0"] = "the host launches whole blocks only"
            for tile, rows in strides.covered(step.body, self._facts.block_of(step)):
                if tile in knobs and rows in knobs and int(knobs[tile].default) % int(knobs[rows].default) == 0:
                    found[f"{tile} % {rows} == 0"] = f"the threads of a block cover {tile} in steps of {rows}"
            found |= dict.fromkeys(self._facts.blocks_within(step), "shared memory has an element for each thread")
            found |= dict.fromkeys(self._facts.within_bounds(step), "its launch bounds ask for so many threads")
            for axis, block in enumerate(self._facts.block_of(step)):
                if quotient := re.fullmatch(r"(\w+|\([^()]*\)) // (\w+|\([^()]*\))", block):
                    found[f"{quotient[1]} % {quotient[2]} == 0"] = "the number of threads in a block is their quotient"
                needed = self._facts.threads_of_single_block(step, axis) or []
                is_single = self.grid(at)[axis : axis + 1] in ([], ["1"])
                for extents in needed if is_single and block not in self._facts.sizes and names_in(block) else []:
                    each = [self._numbered(self.values.get(name, name), {*self._facts.knobs}) for name in extents]
                    found[f"{block} >= {' * '.join(each)}"] = "one block has a thread for each element"
        return found

    def _whole(self, step: int, axis: int, block: str, blocks: str) -> str:
        """The number of threads on an axis that must be a multiple of the block size: the host's number, unless the
        kernel compares its indices with another; empty if there is none."""
        name = re.escape(block)
        match = re.fullmatch(rf"\((.+) // {name}\)", blocks)
        if match is None and self._facts.launched.is_whole(step, axis) and not self._facts.grids.is_limited(step, axis):
            match = re.fullmatch(rf"ceil_div\((.+), {name}\)", blocks)
        return "" if match is None else match[1] if re.fullmatch(r"\w+|\(.*\)", match[1]) else f"({match[1]})"

    @cached_property
    def rows(self) -> leading.Distances:
        """The arrays of rows, with the scalars that are the distances of these."""
        facts = self._facts
        plain = (p for p in facts.parameters if p.is_pointer and p.stars < 2 and facts.parts(p) == 1 and not p.kind)
        arrays = [p.name for p in plain if not facts.struct_bytes(p) and facts.role(p)[0] != "scratch"]
        scalars = [name for name in facts.sizes if name not in facts.fields]
        return leading.Distances(leading.of_arrays(facts.shapes, arrays, scalars), facts.moved.pitches)

    @property
    def knows_pitches(self) -> bool:
        """Whether each pointer that moves by bytes moves by rows, and each distance is that of rows of one length."""
        return self.rows.are_known(self._facts.moved.arrays)

    def _used(self) -> set[str]:
        """The names in shapes and grids."""
        grids = [each for step in range(len(self._facts.steps)) for each in self.grid(step) if each]
        texts = [*(extent for shape in self._shapes.values() for extent in shape), *grids]
        return {word for text in texts for word in names_in(text)}

    @cached_property
    def _shapes(self) -> dict[str, list[str]]:
        shapes = self._facts.shapes
        arrays = [parameter.name for parameter in self._facts.parameters if parameter.is_pointer]
        rows = {name: [each.count, each.length] for name, each in self.rows.of.items()}
        found = {name: rows.get(name) or self._declared(name) or self._counts.shape(name) for name in arrays}
        renamed = {
            name: [self._grids.renamed(shapes.number(each)) for each in shape] for name, shape in found.items() if shape
        }
        plain = {
            name: [self._across(self._numbered(each, self._kept(name))) for each in shape]
            for name, shape in renamed.items()
            if not self._follows_block(name, shape) and not self._is_guessed(name, shape)
        }
        known = {name: shape for name, shape in plain.items() if self._is_known(" ".join(shape))}
        return {name: shape for name, shape in known.items() if not self._doubled(known) & {*names_in(" ".join(shape))}}

    def _across(self, extent: str) -> str:
        """An extent with the values of scalars that follow from those of other steps, as somebody writes it."""
        for name, value in {**self._said.across, **self._parts_of_sizes}.items():
            extent = re.sub(rf"^{name}$|(?<=\(){name}(?=,)", value, extent)  # what has no operator beside it
            extent = re.sub(rf"\b{name}\b", f"({value})", extent)
        return _IN_SUM.sub(r"\1\2", extent)

    @cached_property
    def _parts_of_sizes(self) -> dict[str, str]:
        """The scalars for which the host passes a size of the kernels divided by a number, with these quotients."""
        sizes, every = {*self._facts.sizes} - self._facts.fields.keys() - self.rows.leading, self._said.values
        found = {n: match for n, text in every.items() if (match := re.fullmatch(r"\(?((\w+) // \d+)\)?", text))}
        return {n: m[1] for n, m in found.items() if n in sizes and m[2] in sizes and m[2] not in every}

    def numbered(self, extent: str) -> str:
        """An extent of the source in the draft's terms; empty if the draft lacks a name in it."""
        found = self._numbered(extent, set())
        return found if extent and self._is_known(found) else ""

    def _declared(self, name: str) -> list[str]:
        """The shape of an array as its parameter declares it, `C[n][4]`; empty unless it does for all axes."""
        (parameter,) = [each for each in self._facts.parameters if each.name == name]
        return [*parameter.extents] if all(map(self.numbered, parameter.extents)) else []

    def _doubled(self, shapes: Mapping[str, list[str]]) -> set[str]:
        """The new sizes in shapes that are not independent, because a scalar that is a size in other shapes follows
        from them."""
        used = {word for shape in shapes.values() for word in names_in(" ".join(shape))}
        of_used = [value for name, value in self._said.values.items() if name in used]
        return {word for value in of_used for word in names_in(value)} & self._said.new.keys() & used

    def _is_known(self, text: str) -> bool:
        """Whether a space file knows all names of a text."""
        facts = self._facts
        names = {*facts.sizes, *facts.size_macros, *facts.knobs, *self._said.new, *facts.shapes.new_sizes, "ceil_div"}
        return names.issuperset(names_in(text))

    @cached_property
    def _blocks_of_draft(self) -> set[str]:
        """The names in the block sizes of the steps, without the names of sizes."""
        facts = self._facts
        every = (each for step in facts.steps for each in facts.block_of(step)) if facts.has_grid else ()
        return {word for each in every for word in names_in(each)} - {*facts.sizes}

    def _kept(self, name: str) -> set[str]:
        """The knobs that may be in the shape of an array: any, if it is scratch between steps."""
        return {*self._facts.knobs} if self._facts.is_handed_on(name) else self._of_threads(name)

    def _of_threads(self, name: str) -> set[str]:
        """The names in block sizes, if an array is the only output: it may then have an element for each thread."""
        (parameter,) = [each for each in self._facts.parameters if each.name == name]
        if self._facts.role(parameter)[0] != "out" or self._facts.shapes.has_others(name):
            return set()
        return self._blocks_of_draft - self._blocks_of_arrays

    @cached_property
    def _blocks_of_arrays(self) -> set[str]:
        """The names in those block sizes that are factors of the host's numbers of array elements."""
        facts, found = self._facts, set[str]()
        for at, step in enumerate(facts.steps):
            for axis, block in enumerate(facts.block_of(step)):
                found |= {*names_in(block)} if facts.launched.block_is_of_arrays(at, axis) else set()
        return found

    def _is_guessed(self, name: str, shape: list[str]) -> bool:
        """Whether an extent would be a knob whose values are a guess."""
        kept = self._kept(name)
        knobs = (self._facts.knobs.get(word) for each in shape for word in names_in(each) if word not in kept)
        return any(knob is not None and knob.question for knob in knobs)

    def _follows_block(self, name: str, shape: list[str]) -> bool:
        """Whether the length of the caller's array depends on the block size without being the number of blocks."""
        of_grids = {extent for grid in self._said.grids for extent in grid}
        words = {word for each in shape if each not in of_grids for word in names_in(each)}
        return not words.isdisjoint(self._blocks_of_draft - self._of_threads(name))

    def _numbered(self, extent: str, kept: set[str]) -> str:
        """An extent with numbers in place of the source's constants and of knobs, except sizes and `kept`."""
        facts = self._facts
        extent = self._with_blocks(extent)
        for name in {*names_in(extent)} & facts.numbers.keys() - facts.size_macros.keys() - facts.knobs.keys():
            extent = re.sub(rf"\b{name}\b", str(facts.numbers[name]), extent)
        for name in {
            *names_in(extent)
        } & facts.knobs.keys() - kept:  # the caller's arrays are the same for all configurations
            extent = re.sub(rf"(?<!// )\b{name}\b(?![^(]*\))", str(facts.knobs[name].default), extent)
        return extent if names_in(extent) else evaluated(extent, {})

    @cached_property
    def _renames(self) -> dict[str, str]:
        """The host code's names for the numbers of blocks that indices imply."""
        found, shapes = dict[str, str](), self._facts.shapes
        for name, count in self._said.counts.items():
            indexed = shapes.shape(name)
            if indexed and indexed[0] in shapes.new_sizes:
                rest = quotient_of(count, product_of(indexed[1:]))
                if rest is not None and len(rest) == 1 and (only := written(rest)).isidentifier():
                    found[indexed[0]] = only
        return self._said_blocks | found

    @cached_property
    def _said_blocks(self) -> dict[str, str]:
        """The host's numbers of blocks, by the sizes that stand for them in indices."""
        axes = self._facts.shapes.axes_of_new.items()
        return {
            name: each
            for name, axis in axes
            for grid in self._said.grids
            for each in grid[axis : axis + 1]
            if each is not None
        }
