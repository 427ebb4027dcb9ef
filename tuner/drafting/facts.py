"""Facts about a kernel, inferred from its source: arguments, sizes, knobs, block sizes, roles of arrays."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.drafting import flags, knobs, roles
from tuner.drafting.blocks import Blocks
from tuner.drafting.by_value import Structs
from tuner.drafting.calls import Calls
from tuner.drafting.choices import Choices
from tuner.drafting.expansion import is_warp
from tuner.drafting.grids import Grids
from tuner.drafting.host.texts import texts
from tuner.drafting.kernel_file import KernelFile
from tuner.drafting.knobs import Knob
from tuner.drafting.reached import extents_of_members
from tuner.drafting.shapes import Names, Shapes
from tuner.drafting.templates import Templates
from tuner.drafting.undeclared import undeclared
from tuner.languages import LANGUAGES
from tuner.lockless import cached_property
from tuner.quoting import shown
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import arithmetic
from tuner.space.sources.prototype import Parameter, Prototype, dynamic_arrays
from tuner.space.sources.source import GUARD

if TYPE_CHECKING:
    from tuner.drafting.launched import HostLaunches

_WORD_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([A-Za-z_]\w*)[ \t]*$", re.MULTILINE)
_CONSTANT = re.compile(r"\b__constant__\s+(?:const\s+)?([A-Za-z_][\w ]*?)\s+(\w+)\s*((?:\[[^\[\];]*\]\s*)*);")


class Facts:
    """The facts about one kernel of a file, or about several steps; `entry` names them, separated by commas.

    Raises RequestError if the file cannot be read, or if it has no kernel `entry`.
    """

    def __init__(self, source: Path, entry: str | None, include: Sequence[Path] = ()) -> None:
        file = KernelFile(source, entry, include)
        self.include, self.is_cuda, self.is_declared = include, file.is_cuda, file.is_declared
        self.source, self.languages, self.steps, self.reached = source, file.languages, file.steps, file.reached
        self.code, self.text, self.own, self.missing = file.code, file.text, file.own, file.missing
        self.prototype = self.steps[0]

    @cached_property
    def templates(self) -> Templates:
        """The template parameters of the steps."""
        return Templates(self.steps, self.parameters, self.text)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of all steps, each name once; empty if any parameter list is unknown or has unnamed ones.

        A parameter is const only if it is const in every step.
        """
        every = [parameter for step in self.steps for parameter in step.parameters or ()]
        if None in [step.parameters for step in self.steps] or not all(p.name.isidentifier() for p in every):
            return ()
        names = dict.fromkeys(parameter.name for parameter in every)
        alike = {name: [parameter for parameter in every if parameter.name == name] for name in names}
        return tuple(replace(same[0], is_const=all(p.is_const for p in same)) for same in alike.values())

    def types_of(self, name: str) -> list[str]:
        """The distinct types of a parameter in the steps; several mean that the steps disagree."""
        every = (p for step in self.steps for p in step.parameters or () if p.name == name)
        return list(dict.fromkeys(f"{p.type or '...'}{' *' * bool(p.is_pointer)}" for p in every))

    def is_handed_on(self, name: str) -> bool:
        """Whether a later step reads an array that an earlier one writes, so that it may be scratch."""
        const = [p.is_const for step in self.steps for p in step.parameters or () if p.name == name]
        return False in const and True in const[const.index(False) :]

    @cached_property
    def constants(self) -> dict[str, tuple[Parameter, list[str]]]:
        """The `__constant__` variables that the source uses and the host fills, with their extents."""
        found = {
            name: (Parameter(name, " ".join(type_.split()), True, True), re.findall(r"\[\s*([^\]]*?)\s*\]", extents))
            for type_, name, extents in _CONSTANT.findall(self.code)
        }
        return {name: each for name, each in found.items() if len(re.findall(rf"\b{name}\b", self.code)) > 1}

    def is_local(self, parameter: Parameter) -> bool:
        """Whether a parameter is in OpenCL local memory."""
        return re.search(rf"\b(__local|local|LOCAL)\b[^,;)\[]*\b{parameter.name}\b", self.code) is not None

    @cached_property
    def sizes(self) -> list[str]:
        """The integer parameters that are probably sizes: not those only tested for equality or by their bits."""
        integers = self.templates.integer_types
        whole = [
            p.name
            for p in self.parameters
            if (p.type in integers and not p.is_pointer) or (p.is_pointer is False and _is_whole(p))
        ]
        return [name for name in whole if not roles.is_code(name, self.body)]

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of arrays, inferred from indices."""
        arrays = [p for p in self.parameters if p.is_pointer and not self.is_local(p)]
        written = [p.name for p in arrays if not p.is_const]
        names = Names([p.name for p in arrays], written, self.sizes, self.numbers)
        return Shapes([step.body for step in self.steps], names, self.has_grid)

    @cached_property
    def launched(self) -> HostLaunches:
        """The launches in the host code around the kernels."""
        from tuner.drafting.host.program import HostProgram  # many kernel files have no host code
        from tuner.drafting.launched import HostLaunches

        found = texts(self.source, self.include, [step.name for step in self.steps])
        return HostLaunches(HostProgram(found) if found else None, self.steps, self.numbers, self._item_bytes)

    def _item_bytes(self, parameter: Parameter) -> int | None:
        return self.element_bytes(parameter) if parameter.dtype else self.struct_bytes(parameter)

    @cached_property
    def grids(self) -> Grids:
        """The grids of the steps, inferred from indices."""
        return Grids(self.shapes)

    @cached_property
    def choices(self) -> Choices:
        """The data-dependent indices of the steps."""
        return Choices(self.shapes.indices, [p.name for p in self.parameters if p.is_pointer])

    @property
    def numbers(self) -> dict[str, int]:
        """The macros and constants that are integers, without the warp size."""
        found = ((name, int(knob.default)) for name, knob in knobs.of_code(self.text, ()))
        numbers = {name: value for name, value in found if name in self.reached and not is_warp(name, value)}
        return {name: value for name, value in numbers.items() if not roles.is_case(name, self.body)}

    @cached_property
    def body(self) -> str:
        """The tokens of all steps, joined by blanks."""
        return " ".join(word for step in self.steps for word in step.body)

    @cached_property
    def fixed(self) -> dict[str, int]:
        """The macros and constants that are extents of arrays: no knobs, because they change the operation."""
        extents = {word for _, each in self.constants.values() for e in each for word in re.findall(r"[A-Za-z_]\w*", e)}
        extents |= self.launched.fixed - self.size_macros.keys()
        return self.shapes.fixed | {name: number for name, number in self.numbers.items() if name in extents}

    @cached_property
    def size_macros(self) -> dict[str, int]:
        """The macros and constants that are probably sizes: no extents of the kernel's own arrays, by their names or
        values, and part of an index or a bound."""
        arrays = "|".join(re.escape(p.name) for p in self.parameters if p.is_pointer) or "-"
        own = " ".join(re.findall(rf"\b(?!(?:{arrays}) )\w+ ((?:\[ [^\[\]]* \] )+)", self.body + " "))
        extents = set(re.findall(r"[A-Za-z_]\w*", own))
        read = set(re.findall(r"(?:\* |< |<= )([A-Za-z_]\w*)", self.body.replace("< =", "<=")))
        # What blocks or threads are apart by is a tile.
        tiles = re.findall(r"(?:(?:blockIdx|threadIdx) \. [xyz]|get_(?:group|local)_id \( \d \)) \* (\w+)", self.body)
        extents.update(tiles)
        extents.update(self.shapes.fixed)
        found = {name for name, value in self.numbers.items() if name in read and knobs.is_size(name, value)}
        # Extents of arrays, as indices or the host's allocations tell them.
        known = self.launched.fixed.union(self.shapes.sizes)
        found |= {name for name, value in self.numbers.items() if name in known and knobs.is_large(name, value)}
        return {name: value for name, value in self.numbers.items() if name in found - extents}

    @cached_property
    def options(self) -> list[str]:
        """The scalar parameters that are no sizes, including those of unknown type."""
        others = [p for p in self.parameters if not p.is_pointer and not p.kind]
        scalars = [p for p in others if p.width == 1 and p.type not in self.structs.members]
        return [p.name for p in scalars if p.name not in self.sizes]

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
        of_text = knobs.of_code(self.text, taken)
        found |= {name: knob for name, knob in of_text if name in self.numbers and self._is_used(name)}
        for name, is_truth in self._undeclared.items():
            if name not in taken and name not in found:
                why = "the source does not define it"
                found[name] = Knob((0, 1), 0, why + ": may it be 0 and 1?") if is_truth else knobs.guessed(name, why)
        found = knobs.launchable(found)
        if not self.missing:  # a missing header may define them
            head = f"#define {GUARD} 1\n" if self.is_cuda else ""
            of_flags = flags.of_code(self.code, head + self.own)
            found |= {name: knob for name, knob in of_flags if name not in taken}
        found = {name: self._as_launched(name, knob) for name, knob in found.items()}
        block_extents = self._known_block(self.prototype, found) if self.has_grid else []
        numbers = [*self.launched.block(0), None, None, None]
        for at in (at for at, extent in enumerate(block_extents) if not extent):
            axis, number = "xyz"[at], numbers[at]
            sides = (32, 64, 128, 256, 512, 1024) if self.dimensions == 1 else (4, 8, 16, 32)
            ask = f"the source does not read the block size: which macro or number is it in {axis}?"
            reads = self._reads_threads
            default = number or (256 if self.dimensions == 1 else 16)
            values = tuple(sorted({*sides, default}))
            found[f"block_size_{axis}"] = Knob(values, default, "" if reads else ask)
        return knobs.within_limit(found, block_extents)

    def _is_used(self, name: str) -> bool:
        """Whether the compiler's text uses a macro or constant, besides its definition."""
        text, definitions = re.subn(rf"(#[ \t]*define[ \t]+){name}\b", r"\1", self.own)
        return len(re.findall(rf"\b{name}\b", text)) >= (1 if definitions else 2)

    def _as_launched(self, name: str, knob: Knob) -> Knob:
        """A knob that asks for its values, with those around what all launches pass for it."""
        number = self.launched.number(name) if knob.question else None
        return knob if number is None else Knob(knobs.around(number), number)

    @property
    def _undeclared(self) -> dict[str, bool]:
        """The undeclared names in kernels and device functions, each with whether it is only used as a condition."""
        names, bounds = {step.name for step in self.steps}, " ".join(e for step in self.steps for e in step.block)
        if self.missing:  # a missing header may declare them
            return {}

        def runs(name: str, prefix: Collection[str]) -> bool:
            return name in names or "__device__" in prefix or (not self.is_cuda and name != "main")

        code = self.text
        found = undeclared(self.code, code, runs, " ".join([bounds, *extents_of_members(code, self.reached)]))
        return {name: is_truth for name, is_truth in found.items() if name in self.reached}

    @property
    def words(self) -> dict[str, str]:
        """The macros whose default is a word, and that the source uses."""
        uses = {name: len(re.findall(rf"\b{name}\b", self.code)) for name, _ in _WORD_MACRO.findall(self.code)}
        guarded = {name for name in uses if re.search(rf"#[ \t]*if.*\b{name}\b", self.code)}
        found = {name: word for name, word in _WORD_MACRO.findall(self.code) if not word.startswith("__")}
        return {name: word for name, word in found.items() if uses[name] > (2 if name in guarded else 1)}

    @property
    def has_grid(self) -> bool:
        return any(LANGUAGES[name].has_grid for name in self.languages)

    @cached_property
    def dimensions(self) -> int:
        """The number of block dimensions (1 to 3) whose thread index the source reads."""
        used = re.findall(r"threadIdx\s*\.\s*([xyz])|get_(?:local|global)_id\s*\(\s*([012])\s*\)", self.code)
        return max(("xyz".index(axis) if axis else int(number) for axis, number in used), default=0) + 1

    def _block(self, step: Prototype, found: Collection[str]) -> list[str]:
        """The block size in x, y, z, in terms of the knobs `found`; an empty string for each unknown axis."""
        words = {word for extent in step.block for word in re.findall(r"[A-Za-z_]\w*", extent)}
        declared = list(step.block) if words <= {*found, *arithmetic.FUNCTIONS} else []
        if declared and (len(declared) > 1 or self.dimensions == 1):  # else launch bounds are the product of all axes
            return declared
        named = knobs.named_block(found, self.dimensions)
        blocks = Blocks(self.shapes.indices[self.steps.index(step)], found, self.sizes)
        indexed = [
            blocks.extent("xyz"[axis]) or knobs.spaced(self.code, found, axis) for axis in range(self.dimensions)
        ]
        if named or (all(indexed) and not self._reads_threads):
            return named or indexed
        shared = knobs.shared_block(self.code, found, self.dimensions)
        if declared and not all(indexed):
            return declared
        return [one or other for one, other in zip(indexed, shared or [""] * self.dimensions, strict=True)]

    def _known_block(self, step: Prototype, found: Collection[str]) -> list[str]:
        """The block size as `_block`, with the host code's number on an axis that the launch may not choose."""
        numbers = self.launched.block(self.steps.index(step)) if not self._reads_threads else []
        block = self._block(step, found)
        block += [""] * (len(numbers) - len(block))
        return [each or self._of_template(number) for each, number in itertools.zip_longest(block, numbers)]

    def _of_template(self, number: int | None) -> str:
        """A number of threads, or the only template parameter for which all launches pass it."""
        same = [name for name in self.templates.knobs if number and self.launched.number(name) == number]
        return same[0] if len(same) == 1 else str(number or "")

    def block_of(self, step: Prototype) -> list[str]:
        """The block size of a step; an unknown axis is the knob `block_size_x`, `_y` or `_z`."""
        extents = [each or f"block_size_{'xyz'[at]}" for at, each in enumerate(self._known_block(step, self.knobs))]
        while len(extents) > 1 and extents[-1] == "1":
            extents.pop()
        return extents

    @property
    def _reads_threads(self) -> bool:
        """Whether the source reads the block size at run time, so that the launch may choose it."""
        return re.search(r"\b(blockDim|get_local_size|get_global_id)\b", self.code) is not None

    @cached_property
    def block(self) -> list[str]:
        """The block size of the first step."""
        return self.block_of(self.prototype)

    @property
    def asks_block(self) -> str:
        """The question about the block size; empty if the source determines it or leaves it to the launch."""
        ask, bounds = "how many threads in x, y, z?", self.prototype.block
        if bounds and self.block != list(bounds)[: len(self.block)]:
            return f"{ask} its launch bounds are {shown(', '.join(bounds))}"
        reads = self._reads_threads
        is_declared = bool(bounds) or bool(knobs.named_block(self.knobs, self.dimensions)) or reads
        if not bounds and all(extent.isdecimal() for extent in self.block) and self.launched.block(0):
            return ""
        known = (e.isdecimal() or (e in self.knobs and (reads or e in self.code)) for e in self.block)
        return "" if is_declared and len(self.block) == self.dimensions and all(known) else ask

    def dynamic_arrays(self, step: Prototype) -> dict[str, int]:
        """The dynamic shared memory arrays that a step may use, with bytes per element (4 if unknown)."""
        functions = " ".join(step.body), self.text
        found = next(filter(None, (dynamic_arrays(text) for text in functions)), {})
        return found if "cuda" in self.languages else {}

    def parts(self, parameter: Parameter) -> int:
        """The scalars that an element occupies in memory: in OpenCL, a vector of 3 occupies 4."""
        return 4 if parameter.width == 3 and "cuda" not in self.languages else parameter.width

    def struct_bytes(self, parameter: Parameter) -> int | None:
        """The bytes of an element of an array of structs; None if it is no struct, or of unknown layout."""
        return self.structs.nbytes(parameter) if "cuda" in self.languages else None

    def element_bytes(self, parameter: Parameter) -> int:
        """The bytes of an element of an array; 4 per scalar if its type is unknown."""
        return 8 if parameter.stars > 1 else DTYPES[parameter.dtype or "float32"].itemsize * self.parts(parameter)

    @cached_property
    def structs(self) -> Structs:
        """The structs that the source defines."""
        return Structs(self.text, self.numbers)

    def role(self, parameter: Parameter) -> tuple[str, list[str]]:
        """The role of an array, and questions about it."""
        if self.is_handed_on(parameter.name):
            return "scratch", ["or does the caller need it? then role: out"]
        return ("in", []) if parameter.is_const else roles.role(parameter.name, self.body, self._calls)

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.text, has_references=self.is_cuda)


def _is_whole(parameter: Parameter) -> bool:
    return parameter.dtype is not None and parameter.width == 1 and DTYPES[parameter.dtype].kind == "integer"
