"""What the text of a kernel file tells of a kernel that has no space file: arguments, constants, threads, roles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tuner.errors import RequestError, SpaceError
from tuner.languages import LANGUAGES
from tuner.paths import quoted, read_text, shown
from tuner.space import arithmetic
from tuner.space.dtypes import DTYPES
from tuner.space.prototype import Parameter, Prototype, prototypes
from tuner.space.source import MAX_SOURCE, inlined, without_comments

MOST_AROUND = 1024  # the largest power of two that is proposed beside a smaller value
_MACRO = re.compile(
    r"(?P<guard>^[ \t]*#[ \t]*if(?:ndef[ \t]+(?P<a>\w+)|[ \t]+!\s*defined\s*\(?\s*(?P<b>\w+)\s*\)?)[ \t]*\n)?"
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+\(?(?P<value>\d+)[uUlL]*\)?[ \t]*$",
    re.MULTILINE,
)
_WORD_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([A-Za-z_]\w*)[ \t]*$", re.MULTILINE)
_CONSTANT = re.compile(r"\b__constant__\s+(?:const\s+)?([A-Za-z_][\w ]*?)\s+(\w+)\s*((?:\[[^\[\];]*\]\s*)*);")
_BLOCK_NAME = re.compile(
    r"(?i)(block|threads?|n_?threads|tpb|wg|work_?group|local|bdim)(_?(size|dim|items))?_?([xyz]?)"
)


@dataclass(frozen=True)
class Knob:
    """A parameter: its values, the one that the source has, and a question where the source must change."""

    values: tuple[int | bool | str, ...]
    default: int | bool | str
    question: str = ""


class Facts:
    """What is known of a kernel file, of one kernel or of several steps, which `entry` names with commas between them.

    Raises RequestError if the file cannot be read, or if it has no such kernel.
    """

    def __init__(self, source: Path, entry: str | None) -> None:
        self.source = source
        self.languages = [name for name, language in LANGUAGES.items() if source.suffix in language.suffixes]
        if not self.languages:
            suffixes = sorted({suffix for language in LANGUAGES.values() for suffix in language.suffixes})
            raise RequestError(f"{shown(source)}: not a kernel file; name one that ends in {', '.join(suffixes)}")
        try:
            self.code = without_comments(read_text(source, MAX_SOURCE))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a text file in UTF-8"
            raise RequestError(f"{shown(source)}: cannot be read: {reason}") from None
        try:
            self.text, self.missing = inlined(source), ""
        except SpaceError as error:
            self.text, self.missing = self.code, str(error)
        self.steps = [self._chosen(name) for name in (entry.split(",") if entry else [None])]
        self.prototype = self.steps[0]

    def _chosen(self, entry: str | None) -> Prototype:
        found = {p.name: p for p in prototypes(self.text) if p.name != "main"}
        names = shown(", ".join(found)) or "none that can be seen"
        if entry is None and len(found) == 1:
            return next(iter(found.values()))
        if entry is None:
            reason = "several kernels" if found else "no kernel"
            raise RequestError(
                f"{shown(self.source)}: {reason}: {names}; name the one to tune with --entry NAME, or the "
                "steps of one in their order with --entry NAME,NAME"
            )
        if entry not in found:
            raise RequestError(
                f"{shown(self.source)}: --entry {quoted(entry)}: there is no such kernel; it has {names}"
            )
        return found[entry]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Those of the kernel, or of all steps, each once; none where the text leaves them open, or does not name all.

        One that a step may write to is not const."""
        every = [parameter for step in self.steps for parameter in step.parameters or ()]
        if None in [step.parameters for step in self.steps] or not all(p.name.isidentifier() for p in every):
            return ()
        names = dict.fromkeys(parameter.name for parameter in every)
        alike = {name: [parameter for parameter in every if parameter.name == name] for name in names}
        return tuple(replace(same[0], is_const=all(p.is_const for p in same)) for same in alike.values())

    def types_of(self, name: str) -> list[str]:
        """The types that the steps give to a parameter: of one argument, there is one."""
        every = (p for step in self.steps for p in step.parameters or () if p.name == name)
        return list(dict.fromkeys(f"{p.type or '...'}{' *' * bool(p.is_pointer)}" for p in every))

    def is_handed_on(self, name: str) -> bool:
        """Whether a step reads an array that an earlier one has written: it may be scratch."""
        const = [p.is_const for step in self.steps for p in step.parameters or () if p.name == name]
        return False in const and True in const[const.index(False) :]

    @cached_property
    def constants(self) -> dict[str, tuple[Parameter, list[str]]]:
        """The `__constant__` variables that the source uses and leaves to the host to fill, with their extents."""
        found = {
            name: (Parameter(name, " ".join(type_.split()), True, True), re.findall(r"\[\s*([^\]]*?)\s*\]", extents))
            for type_, name, extents in _CONSTANT.findall(self.code)
        }
        return {name: each for name, each in found.items() if len(re.findall(rf"\b{name}\b", self.code)) > 1}

    def is_local(self, parameter: Parameter) -> bool:
        """Whether it is local memory of OpenCL."""
        return re.search(rf"\b(__local|local|LOCAL)\b[^,;)]*\b{parameter.name}\b", self.code) is not None

    @cached_property
    def sizes(self) -> list[str]:
        """Whole numbers that the kernel takes: most are sizes."""
        return [p.name for p in self.parameters if p.is_pointer is False and _is_whole(p)]

    @cached_property
    def options(self) -> list[str]:
        """Other numbers that the kernel takes; those of a type that the text leaves open are among them."""
        return [p.name for p in self.parameters if not p.is_pointer and p.name not in self.sizes]

    @cached_property
    def knobs(self) -> dict[str, Knob]:
        """The parameters: those of the template, the macros, and the threads of a block that the source leaves open."""
        knobs = {name: _of_template(name, kind) for name, kind in self.template_values.items()}
        taken = {*arithmetic.FUNCTIONS, *(p.name for p in self.parameters), *knobs}
        for macro in _MACRO.finditer(self.code):
            name, value = macro["name"], int(macro["value"])
            if name not in taken and len(re.findall(rf"\b{name}\b", self.code)) > (2 if macro["guard"] else 1):
                guarded = name in (macro["a"], macro["b"])
                ask = "" if guarded else f"write #ifndef {name} before its #define in the source, and #endif after it"
                knobs[name] = Knob(_around(value), value, ask)
        if self.has_grid and not self.prototype.block and not self._named_block(knobs):
            for axis in "xyz"[: self.dimensions]:
                sides = (32, 64, 128, 256, 512, 1024) if self.dimensions == 1 else (4, 8, 16, 32)
                knobs[f"block_size_{axis}"] = Knob(sides, 256 if self.dimensions == 1 else 16)
        return knobs

    @property
    def words(self) -> dict[str, str]:
        """The macros whose default is a word, and that the source uses."""
        uses = {name: len(re.findall(rf"\b{name}\b", self.code)) for name, _ in _WORD_MACRO.findall(self.code)}
        guarded = {name for name in uses if re.search(rf"#[ \t]*if.*\b{name}\b", self.code)}
        found = {name: word for name, word in _WORD_MACRO.findall(self.code) if not word.startswith("__")}
        return {name: word for name, word in found.items() if uses[name] > (2 if name in guarded else 1)}

    @property
    def template_values(self) -> dict[str, str]:
        """The parameters of the template that are values."""
        return {name: kind for name, kind in self._template.items() if not _is_type(kind)}

    @property
    def types(self) -> list[str]:
        """The parameters of the template that are types."""
        return [name for name, kind in self._template.items() if _is_type(kind)]

    @property
    def _template(self) -> dict[str, str]:
        return {name: kind for step in self.steps for name, kind in (step.template or {}).items()}

    @property
    def namespaces(self) -> list[str]:
        """Those of the file; which one the kernel is in, is left open."""
        return list(dict.fromkeys(re.findall(r"\bnamespace\s+(\w+)", self.code)))

    @property
    def has_grid(self) -> bool:
        return any(LANGUAGES[name].has_grid for name in self.languages)

    @cached_property
    def dimensions(self) -> int:
        """How many coordinates of its thread the kernel reads."""
        used = re.findall(r"threadIdx\s*\.\s*([xyz])|get_(?:local|global)_id\s*\(\s*([012])\s*\)", self.code)
        return max(("xyz".index(axis) if axis else int(number) for axis, number in used), default=0) + 1

    def _named_block(self, knobs: Iterable[str]) -> list[str]:
        """The parameters that are threads of a block by their names, in x, y, z; empty unless they are all there."""
        axes = {match[4].lower() or "x": name for name in knobs if (match := _BLOCK_NAME.fullmatch(name))}
        names = [axes.get(axis, "") for axis in "xyz"[: self.dimensions]]
        return names if all(names) else []

    @cached_property
    def block(self) -> list[str]:
        """The threads per block."""
        extents = list(self.prototype.block) or self._named_block(self.knobs)
        while len(extents) > 1 and extents[-1] == "1":
            extents.pop()
        return extents or [f"block_size_{axis}" for axis in "xyz"[: self.dimensions]]

    @property
    def knows_block(self) -> bool:
        """Whether the threads of a block are what the source says, or parameters that it leaves to the launch."""
        reads = re.search(r"\b(blockDim|get_local_size|get_global_id)\b", self.code) is not None
        known = (e.isdecimal() or (e in self.knobs and (reads or e in self.code)) for e in self.block)
        return len(self.block) == self.dimensions and all(known)

    def role(self, parameter: Parameter) -> tuple[str, list[str]]:
        """What a kernel does with an array, and what to ask about it."""
        name = parameter.name
        if self.is_handed_on(name):
            return "scratch", ["or does the caller need it? then role: out"]
        if parameter.is_const:
            return "in", []
        element = rf"\b{name}\s*\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]\s*"
        if re.search(rf"{element}([-+*/|&^]|<<|>>)=|\batomic\w*\s*\(\s*&?\s*{name}\b", self.code):
            return "inout", []
        stores, uses = len(re.findall(rf"{element}=(?!=)", self.code)), len(re.findall(rf"\b{name}\b", self.code))
        return "out", [] if stores and stores == uses - 1 else ["in, out or inout?"]


def _is_whole(parameter: Parameter) -> bool:
    return parameter.dtype is not None and DTYPES[parameter.dtype].kind == "integer"


def _is_type(kind: str) -> bool:
    return kind.partition(" ")[0] in ("typename", "class")


def _of_template(name: str, kind: str) -> Knob:
    if kind == "bool":
        return Knob((False, True), False)
    return Knob((64, 128, 256, 512), 256) if _BLOCK_NAME.fullmatch(name) else Knob((1, 2, 4, 8), 1)


def _around(value: int) -> tuple[int, ...]:
    """Powers of two around a value, and the value: 16 gives 4, 8, 16, 32, 64; 0 gives 0 and 1."""
    if value == 0:
        return (0, 1)
    exponent = value.bit_length() - 1
    near = {1 << e for e in range(max(0, exponent - 2), exponent + 3)}
    return tuple(sorted({n for n in near if n <= max(MOST_AROUND, value)} | {value}))
