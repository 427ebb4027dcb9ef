"""Decides which numbers of a kernel are knobs, and what its block sizes are."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tuner.classes import cached_property
from tuner.drafting.arrays.blocks import Blocks
from tuner.drafting.arrays.single_blocks import needed
from tuner.drafting.chosen_sizes import OF_A_WINDOW, ChosenSizes
from tuner.drafting.knobs import flags, proposals
from tuner.drafting.knobs.asserted import conditions, holds
from tuner.drafting.knobs.proposals import Knob
from tuner.drafting.polynomials import names_in
from tuner.drafting.roles import uses
from tuner.quoting import shown
from tuner.space.expressions import arithmetic
from tuner.space.sources.checks.launch_bounds import MOST_THREADS
from tuner.space.sources.prototype import Prototype, prototypes
from tuner.space.sources.source import GUARD

_OF_A_BLOCK = re.compile(r"\bcub :: Block\w+ <")  # templates whose arguments have the number of threads
_SCHEDULE = re.compile(r"\bschedule\s*\([^()]*\)")  # of OpenMP
_ASSERTED = re.compile(r"\bassert \( [^;]*;")


class ChosenKnobs(ChosenSizes):
    """The facts about kernels, with all that is chosen from them: sizes, knobs and block sizes."""

    @property
    def constants_of_all(self) -> dict[str, int]:
        """The numbers of the source that all configurations share."""
        others = {*self.knobs, *self.size_macros}
        return self.fixed | {name: number for name, number in self.numbers.items() if name not in others}

    @cached_property
    def knobs(self) -> dict[str, Knob]:
        """The proposed parameters: template parameters, macros, constants, undefined names, flags and unknown block
        sizes."""
        found = self.templates.knobs
        taken = {
            *arithmetic.FUNCTIONS,
            *(p.name for p in self.parameters),
            *self.templates.types,
            *found,
            *self.fixed,
            *self.size_macros,
        }
        of_text = self._numbers_of_text(taken).items()
        for name, knob in ((name, knob) for name, knob in of_text if name in self.numbers and self._is_used(name)):
            found[name] = proposals.asked_as_size(name, knob, f"{self.body} {' '.join(_SCHEDULE.findall(self.own))}")
            asked = "it enters what is computed" if self.enters_numbers(name) else ""
            asked = asked or "sizes are divided by it" * uses.divides_sizes(name, self.body, self.sizes)
            text = " ; ".join([self.body, *self._of_functions])
            asked = asked or "a loop repeats so often" * uses.is_repetition(name, text)
            if asked and not found[name].question:
                found[name] = replace(knob, question=f"{asked}: if others compute something else, keep one")
        for name, is_truth in self.undeclared.items():
            if name in self.of_program and name not in taken and name not in found:
                value = self.of_program[name]
                found[name] = Knob(proposals.around(value) if self.launched.is_block(name) else (value,), value)
            elif name not in taken and name not in found:
                why = "the source does not define it"
                if re.search(rf"\b(?:if|while) \( [^;{{}}]*(?:<|> =) {name} \)", self.body):
                    why += f"; if threads end at it, it is a size: derived: {{{name}: n}}, with n under sizes:"
                found[name] = (
                    Knob((0, 1), 0, why + ": may it be 0 and 1?") if is_truth else proposals.guessed(name, why)
                )
        found = proposals.launchable(found)
        for name in self.undeclared_in_others:
            if name not in taken and name not in found:
                value = self.of_program.get(name, 1)
                found[name] = Knob((value,), value, remark="no knob: only other kernels of the file read it")
        if not self.missing:  # a missing header may define them
            head = f"#define {GUARD} 1\n" if self.is_cuda else ""
            of_flags = flags.of_code(self.code, head + self.own)
            taken |= {*self.flags_of_parameters}
            found |= {name: self._as_built(name, knob) for name, knob in of_flags if name not in taken}
            taken |= {*found, *self.tested_by_parameters, *self.tested_around_types}
            found |= {name: knob for name, knob in flags.conditions(self.code, head + self.own) if name not in taken}
        found = {name: self._as_launched(name, knob) for name, knob in found.items()}
        own = {name: knob for name, knob in found.items() if name not in self.undeclared_in_others}
        extents = [self._known_block(step, own) for step in self.steps] if self.has_grid else []
        for block in extents[:1]:
            found = proposals.launchable(found, block)
        for step, block in zip(self.steps, extents, strict=False):
            for at in (at for at, extent in enumerate(block) if not extent):
                found.setdefault(self._block_size(step, at), self._knob_of_block(step, at))
        return self._as_asserted(proposals.within_limit(found, extents[0] if extents else []))

    @cached_property
    def asserted(self) -> list[str]:
        """The conditions on several knobs that the source asserts."""
        every = conditions(self.text, self.constants_of_all, self._bodies_of_others)
        found = [each for each, names in every if len(names) > 1 and self.knobs.keys() >= {*names}]
        defaults = {name: knob.default for name, knob in self.knobs.items()}
        return [each for each in found if holds(each, defaults)]

    @property
    def _bodies_of_others(self) -> list[Sequence[str]]:
        """The tokens of the kernels that are not drafted."""
        own = {step.name for step in self.steps}
        return [each.body for each in prototypes(self.text) if each.is_kernel and each.name not in own]

    def _as_asserted(self, found: dict[str, Knob]) -> dict[str, Knob]:
        """Knobs without the values that the source forbids by an assertion about one of them alone."""
        fixed = {name: number for name, number in self.numbers.items() if name not in found}
        for each, (name, *others) in conditions(self.text, fixed, self._bodies_of_others):
            knob = found.get(name) if not others else None
            values = [value for value in knob.values if holds(each, {name: value})] if knob else []
            if knob and knob.default in values and len(values) < len(knob.values):
                remark = "no knob: the source asserts its value" if len(values) == 1 else knob.remark
                found[name] = replace(knob, values=tuple(values), remark=remark)
        return found

    def blocks_within(self, step: Prototype) -> Iterator[str]:
        """The conditions on block sizes beside the extents of shared arrays that an element for each thread needs."""
        for axis, block in enumerate(self.block_of(step)):
            for name, more in proposals.within_shared(" ".join(step.body), axis).items() if block in self.knobs else ():
                extent = int(self.knobs[name].default) if name in self.knobs else self.numbers.get(name, 0)
                if name != block and int(self.knobs[block].default) + more <= extent:  # else a condition protects it
                    of_knob = f"{block} + {more} <= {name}" if more else f"{block} <= {name}"
                    yield of_knob if name in self.knobs else f"{block} <= {extent - more}"

    def within_bounds(self, step: Prototype) -> Iterator[str]:
        """The condition on knobs under which a multiprocessor holds the blocks for which launch bounds ask."""
        threads, blocks, *_ = *step.bounds, "", ""
        condition, names = f"({threads}) * ({blocks}) <= {MOST_THREADS}", {*names_in(f"{threads} {blocks}")}
        if blocks and names and names <= self.knobs.keys():
            ends = ({name: end(self.knobs[name].values) for name in names} for end in (min, max))
            defaults = {name: self.knobs[name].default for name in names}
            if holds(condition, defaults) and not all(holds(condition, each) for each in ends):
                yield re.sub(r"\((\w+)\)", r"\1", condition)

    def _knob_of_block(self, step: Prototype, at: int) -> Knob:
        """The knob of a block size that the source does not tell."""
        dimensions, number = self.dimensions_of(step), self._number_of_host(step, at)
        sides: tuple[int, ...] = (32, 64, 128, 256, 512, 1024) if dimensions == 1 else (4, 8, 16, 32)
        ask = f"the source does not read the block size: which macro or number is it in {'xyz'[at]}?"
        default = number or {1: 256, 2: 16}.get(dimensions, 8)  # a block has at most 1024 threads
        if dimensions > 1 and number and number not in sides:
            sides = proposals.around(number)
        most = proposals.shared_extent(
            " ".join(step.body), self.numbers, at
        )  # a thread has an element of shared memory
        values = tuple(value for value in sorted({*sides, default}) if value <= max(most or value, default))
        return Knob(values, default, "" if self._is_free(step, at) else ask)

    def _number_of_host(self, step: Prototype, at: int) -> int | None:
        """The number of threads that all launches of a step have on an axis."""
        return next(iter(self.launched.block(self.steps.index(step))[at : at + 1]), None)

    def _block_size(self, step: Prototype, at: int) -> str:
        """The name of the knob of a block size that the source does not tell. Steps share one if they have blocks of as
        many axes, and the host launches both with one number of threads."""
        of_step = (self.dimensions_of(step), self._number_of_host(step, at))
        first = next(each for each in self.steps if at < self.dimensions_of(each) or each is step)
        is_shared = of_step == (self.dimensions_of(first), self._number_of_host(first, at))
        return f"block_size_{'xyz'[at]}" if is_shared else f"{step.name}_block_size_{'xyz'[at]}"

    def _is_used(self, name: str) -> bool:
        """Whether the compiler's text uses a macro or constant, besides its definition."""
        text, definitions = re.subn(rf"(#[ \t]*define[ \t]+){name}\b", r"\1", self.own)
        return len(re.findall(rf"\b{name}\b", text)) >= (1 if definitions else 2)

    def _as_launched(self, name: str, knob: Knob) -> Knob:
        """A knob that asks for its values, with those around what all launches or instances have for it; a template
        parameter with its value alone if another one changes the operation."""
        is_of_template = name in self.templates.knobs
        if knob.values == (False, True) and (truth := self.launched.truth(name)) is not None:
            other = str(not truth).lower()
            return Knob((truth,), truth, remark=f"as all launches have it: add {other} if it computes the same")
        number = self.template_numbers.get(name) if is_of_template else self.launched.number(name)
        if is_of_template and name in self.shapes.fixed:
            return Knob((self.shapes.fixed[name],), self.shapes.fixed[name], remark="no knob: an extent of an argument")
        if is_of_template and self._bounds_a_window(name):
            return _of_a_window(knob, number)
        is_default = type(knob.default) is int and is_of_template  # which the launches, `f<128>`, may override
        is_open = knob.question or (is_default and number != knob.default)
        return Knob(proposals.around(number), number) if number is not None and is_open else knob

    def _as_built(self, name: str, knob: Knob) -> Knob:
        """A flag with the value that the draft assumes where types follow from it, or the host's build has it."""
        return (
            Knob((True,), True, remark="defined, as the host builds it or types need it")
            if name in self.defined
            else knob
        )

    def _block(self, step: Prototype, found: Collection[str]) -> list[str]:
        """The block size in x, y, z, in terms of the knobs `found`; an empty string for each unknown axis."""
        words = {word for extent in step.block for word in re.findall(r"[A-Za-z_]\w*", extent)}
        declared = list(step.block) if words <= {*found, *arithmetic.FUNCTIONS} else []
        dimensions = self.dimensions_of(step)
        if declared and (len(declared) > 1 or dimensions == 1):  # else launch bounds are the product of all axes
            return declared
        named = proposals.named_block(found, dimensions)
        blocks = Blocks(self.shapes.indices[self.steps.index(step)], found, self.sizes)
        indexed = [blocks.extent("xyz"[axis]) or proposals.spaced(self.code, found, axis) for axis in range(dimensions)]
        if named and not self._contradicts(step, named, indexed):
            return named
        if all(indexed) and (named or not self.reads_threads):
            return indexed
        shared = proposals.shared_block(self.code, found, dimensions)
        if declared and not all(indexed):
            return declared
        return [one or other for one, other in zip(indexed, shared or [""] * dimensions, strict=True)]

    @staticmethod
    def _contradicts(step: Prototype, named: Sequence[str], indexed: Sequence[str]) -> bool:
        """Whether indices tell other blocks than knobs with the names of blocks, which the kernel does not read."""
        pairs = zip(named, indexed, strict=False)
        return any(other and name != other and name not in step.body for name, other in pairs)

    def _known_block(self, step: Prototype, found: Collection[str]) -> list[str]:
        """The block size as `_block`, with the host code's number on an axis that the launch may not choose."""
        numbers, block = self.launched.block(self.steps.index(step)), self._block(step, found)
        if numbers:
            block += [""] * (len(numbers) - len(block))
            numbers += [1] * (len(block) - len(numbers))
        is_said = bool(numbers)
        pairs = itertools.zip_longest(block, numbers)
        every = [
            self._of_host(step, axis, found) or self._on_axis(one, number, step, axis, is_said)
            for axis, (one, number) in enumerate(pairs)
        ]
        return [one or self._of_single_block(step, axis, numbers) for axis, one in enumerate(every)]

    def _knobs_of_number(self, step: Prototype, axis: int, extent: str) -> list[str]:
        """The knobs that divide the thread index on an axis where the block has a number: it may follow from them."""
        if not extent.isdecimal() or extent == "1":
            return []
        indices, thread = self.shapes.indices[self.steps.index(step)], f"threadIdx.{'xyz'[axis]}"
        every = [*indices.remainders.values(), *indices.quotients.values()]
        divisors = [divisor for dividend, divisor in every if any(thread in product for product in dividend)]
        words = {word for divisor in divisors for product in divisor for each in product for word in names_in(each)}
        return [name for name, knob in self.knobs.items() if name in words and len(knob.values) > 1]

    def _of_host(self, step: Prototype, axis: int, found: Collection[str]) -> str:
        """The block size on an axis as the host has it, over the knobs `found`; empty if it has others."""
        extent = self.launched.block_by_macros(self.steps.index(step), axis)
        fixed = {name: number for name, number in self.fixed.items() if name not in found}
        extent = re.sub(r"[A-Za-z_]\w*", lambda name: str(fixed.get(name[0], name[0])), extent)
        names = {*re.findall(r"[A-Za-z_]\w*", extent)}
        return extent if names and names <= {*found} else ""

    def is_block_of_host(self, step: Prototype, axis: int) -> bool:
        """Whether the host has the block size on an axis over macros that kernel and host share."""
        extent = self._of_host(step, axis, self.knobs)
        return bool(extent) and [extent] == self.block_of(step)[axis : axis + 1]

    def _of_single_block(self, step: Prototype, axis: int, numbers: Sequence[int | None]) -> str:
        """The host's number of threads of a single block whose body is right for that number alone, as far as known."""
        number = next(iter(numbers[axis : axis + 1]), None)
        threads = self.threads_of_single_block(step, axis) if number else []
        return self._size_of_block(step, axis) or str(number) if threads is None else ""

    def _size_of_block(self, step: Prototype, axis: int) -> str:
        """The size that the host passes for a scalar and as the block's threads on an axis; empty if there is none."""
        is_single = self.is_single_block(step, axis)  # else it may be how a kernel hears of its block
        same = self.launched.same_as_block(self.steps.index(step), axis) if is_single else ()
        return next((name for name in self.sizes if name in same), "")

    def threads_of_single_block(self, step: Prototype, axis: int) -> list[list[str]] | None:
        """What a single block needs, see `single_blocks.needed`; empty if the step may have several."""
        at = self.steps.index(step)
        found = needed(self.shapes, at, "xyz"[axis]) if self.is_single_block(step, axis) else []
        fixed = self.numbers.keys() - self.size_macros.keys()
        return None if any(fixed >= {*each} for each in found or ()) else found

    def is_single_block(self, step: Prototype, axis: int) -> bool:
        """Whether launches have one block along an axis, and the kernel does not ask for the number of its block."""
        at, names = self.steps.index(step), (f"{name}.{'xyz'[axis]}" for name in ("blockIdx", "globalIdx", "gridDim"))
        return self.launched.has_one_block(at, axis) and self.shapes.indices[at].atoms().isdisjoint(names)

    def _is_free(self, step: Prototype, axis: int) -> bool:
        """Whether the launch may choose the block size of a step along an axis."""
        return self._reads_threads_on(step, axis) or bool(self.threads_of_single_block(step, axis))

    def _reads_threads_on(self, step: Prototype, axis: int) -> bool:
        """Whether a step, or a function that it may call, reads the number of threads along an axis, or of all."""
        opencl = rf"get_(?:local_size|global_id|enqueued_local_size) \( {axis} \)|get_local_linear_id"
        reads = re.compile(rf"\bblockDim \. {'xyz'[axis]}|{opencl}|\b(?:size|num_threads|group_dim|dim_threads) \(")
        texts = [_ASSERTED.sub("", text) for text in (" ".join(step.body), *self._of_functions)]
        return self.reads_threads and any(map(reads.search, texts)) and not any(map(_OF_A_BLOCK.search, texts))

    def _on_axis(self, extent: str, number: int | None, step: Prototype, axis: int, is_said: bool) -> str:
        """The block size on an axis: `extent` if the source tells it, unless the host has another number."""
        known = int(extent) if extent.isdecimal() else self.of_program.get(extent) or self._of_launch(extent)
        if known is not None and is_said and number != known:
            extent = ""
        if number is not None and number != self.numbers.get(extent, number):
            extent = ""  # another number than the macro of the kernel
        if number is not None and extent.isidentifier() and not self._reads(step, extent, axis):
            extent = ""  # the macro of another step, which happens to have this number
        same = [name for name, value in self.of_program.items() if value == number and self.launched.is_block(name)]
        extent = extent or (same[0] if len(same) == 1 else "")
        is_read = axis < self.dimensions_of(step) and self._reads_threads_on(step, axis)
        if axis and number == 1 and not extent and not is_read:
            return "1"
        return extent or ("" if self._is_free(step, axis) else self._fixed_by_host(step, axis, number))

    def _reads(self, step: Prototype, name: str, axis: int) -> bool:
        """Whether a step, or a function that it may call, reads a name, or the launch may choose its threads."""
        return name in step.body or self._is_free(step, axis) or any(name in each for each in self._of_functions)

    def _fixed_by_host(self, step: Prototype, axis: int, number: int | None) -> str:
        """The threads on an axis that the launch may not choose."""
        return self._size_of_block(step, axis) or self._of_template(number)

    def _of_launch(self, name: str) -> int | None:
        """The number that launches pass for a template parameter."""
        return self.launched.number(name) if name in self.templates.knobs else None

    def _of_template(self, number: int | None) -> str:
        """A number of threads, or the only template parameter for which all launches pass it."""
        same = [name for name in self.templates.knobs if number and self.launched.number(name) == number]
        return same[0] if len(same) == 1 else str(number or "")

    def block_of(self, step: Prototype) -> list[str]:
        """The block size of a step; an unknown axis is a knob, such as `block_size_x`."""
        known = {name: knob for name, knob in self.knobs.items() if name not in self.undeclared_in_others}
        extents = [each or self._block_size(step, at) for at, each in enumerate(self._known_block(step, known))]
        while len(extents) > 1 and extents[-1] == "1":
            extents.pop()
        return extents

    @cached_property
    def block(self) -> list[str]:
        """The block size of the first step."""
        return self.block_of(self.prototype)

    def _factors(self, extents: Sequence[str]) -> list[str]:
        """The factors of extents that are products, in a fixed order; of macros that are no knobs, the numbers."""
        factors = (factor.strip() for extent in extents for factor in extent.split("*"))
        numbers = {name: number for name, number in self._integers.items() if name not in self.knobs}  # or warps
        return sorted(str(numbers.get(each, each)) for each in factors)

    def asks_block(self, step: Prototype) -> str:
        """The question about a block size; empty if the source determines it or leaves it to the launch."""
        ask, bounds, block = "how many threads in x, y, z?", step.block, self.block_of(step)
        at = self.steps.index(step)
        of_host = [self._of_host(step, axis, self.knobs) for axis in range(len(block))]
        numbers = self.launched.block(at)
        told = [host or str(n) for host, n in zip(of_host, [*numbers, *[None] * len(block)], strict=False)]
        is_product = len(bounds) == 1 and (told == block or self._factors(bounds) == self._factors(block))
        if bounds and block != list(bounds)[: len(block)] and not is_product:
            return f"{ask} its launch bounds are {shown(', '.join(bounds))}"
        given = (self.launched.block_is_of_sizes, self.launched.block_is_of_arrays)
        if any(is_of(at, axis) for is_of in given for axis in range(len(block))):
            return f"{ask} host code computes them from sizes"
        if any(self.launched.has_unclear_block(at, axis) for axis in range(len(block))):
            return f"{ask} host code has others"
        if knobs := [name for axis in range(len(block)) for name in self._knobs_of_number(step, axis, block[axis])]:
            return f"{ask} the host's number is right for its {' and '.join(dict.fromkeys(knobs))}"
        multiples = {name for axis in range(len(block)) for name in self.launched.multiples_of_block(at, axis)}
        if sizes := sorted(multiples & {*self.sizes}):
            return f"{ask} the host passes a multiple of them for {' and '.join(sizes)}"
        is_fixed = [bool(numbers) and extent.isdecimal() for extent in block]
        reads = all(fixed or self._is_free(step, axis) for axis, fixed in enumerate(is_fixed))
        is_named = of_host == block or bool(proposals.named_block(self.knobs, self.dimensions_of(step)))
        body = " ".join(step.body)
        is_tiled = all(_is_tiled(body, axis, extent) for axis, extent in enumerate(block))
        is_declared = bool(bounds) or is_named or reads or (is_tiled and {*block} <= self.knobs.keys())
        is_said = all(e.isdecimal() or e == self._size_of_block(step, axis) for axis, e in enumerate(block))
        if not bounds and (of_host == block or (is_said and numbers)):
            return ""
        known = (e.isdecimal() or e in of_host or (e in self.knobs and (reads or e in self.code)) for e in block)
        return "" if is_declared and len(block) == self.dimensions_of(step) and all(known) else ask


def _of_a_window(knob: Knob, number: int | None) -> Knob:
    """A template parameter that bounds a window. The kernel's name must pass it, so it stays, with one value."""
    if number is None:
        return Knob((knob.default,), knob.default, f"which value has it? no knob: {OF_A_WINDOW}")
    return Knob((number,), number, remark=f"no knob: {OF_A_WINDOW}")


def _is_tiled(body: str, axis: int, extent: str) -> bool:
    """Whether blocks follow each other at this extent along an axis, or threads in a loop step over it."""
    blocks, threads = f"blockIdx . {'xyz'[axis]}", f"threadIdx . {'xyz'[axis]}"
    group, local = f"get_group_id ( {axis} )", f"get_local_id ( {axis} )"
    first, extent = f"(?:{re.escape(threads)}|{re.escape(local)})", re.escape(extent)
    over = rf"\b(\w+) = {first} ; [^;]* ; \1 \+ = {extent} \)"
    return re.search(rf"(?:{blocks}|{re.escape(group)}) \* {extent} \+ |{over}", body) is not None
