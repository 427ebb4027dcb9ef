"""A space file for a kernel that has none: what its source says, and questions where it does not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tuner.errors import RequestError, SpaceError
from tuner.languages import LANGUAGES
from tuner.paths import quoted, read_text, shown
from tuner.space import expressions
from tuner.space.prototype import Parameter, Prototype, prototypes
from tuner.space.source import MAX_SOURCE, inlined, without_comments

MOST_AROUND = 1024  # the largest power of two that is proposed beside a smaller value
_MACRO = re.compile(
    r"(?P<guard>^[ \t]*#[ \t]*if(?:ndef[ \t]+(?P<a>\w+)|[ \t]+!\s*defined\s*\(?\s*(?P<b>\w+)\s*\)?)[ \t]*\n)?"
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+\(?(?P<value>\d+)[uUlL]*\)?[ \t]*$",
    re.MULTILINE,
)
_BLOCK_NAME = re.compile(
    r"(?i)(block|threads?|n_?threads|tpb|wg|work_?group|local|bdim)(_?(size|dim|items))?_?([xyz]?)"
)
_WORDS = {"yes", "no", "on", "off", "true", "false", "null"}  # which YAML takes for something else
_REFERENCES = """\
  # One of these, without the #:
  # reference: {expression}    # over the arrays, as NumPy would write it; `tune schema --functions` lists the functions
  # reference: {{python: check.py:expected}}    # expected({arrays}, *, {sizes}) returns an array
  # reference: none    # nothing is compared, and every table says unverified"""


@dataclass(frozen=True)
class Knob:
    """A parameter: its values, the one that the source has, and a question where the source must change."""

    values: tuple[int | bool | str, ...]
    default: int | bool | str
    question: str = ""


class Draft:
    """What is known of a kernel file. Raises RequestError if the file cannot be read, or if it has no such kernel."""

    def __init__(self, source: Path, entry: str | None, output: Path) -> None:
        self.source, self.output = source, output
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
        self.prototype = self._chosen(entry)

    def _chosen(self, entry: str | None) -> Prototype:
        found = {p.name: p for p in prototypes(self.text) if p.name != "main"}
        names = shown(", ".join(found)) or "none that can be seen"
        if entry is None and len(found) == 1:
            return next(iter(found.values()))
        if entry is None:
            reason = "several kernels" if found else "no kernel"
            raise RequestError(f"{shown(self.source)}: {reason}: {names}; name the one to tune with --entry NAME")
        if entry not in found:
            raise RequestError(
                f"{shown(self.source)}: --entry {quoted(entry)}: there is no such kernel; it has {names}"
            )
        return found[entry]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.prototype.parameters or ()

    @cached_property
    def sizes(self) -> list[str]:
        """Whole numbers that the kernel takes: most are sizes."""
        return [p.name for p in self.parameters if p.is_pointer is False and "int" in (p.dtype or "")]

    @cached_property
    def options(self) -> list[str]:
        """Other numbers that the kernel takes."""
        return [p.name for p in self.parameters if p.is_pointer is False and p.name not in self.sizes]

    @cached_property
    def knobs(self) -> dict[str, Knob]:
        """The parameters: those of the template, the macros, and the threads of a block that the source leaves open."""
        knobs = {name: _of_template(name, kind) for name, kind in self.template_values.items()}
        taken = {*expressions.FUNCTIONS, *(p.name for p in self.parameters), *knobs}
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
    def template_values(self) -> dict[str, str]:
        """The parameters of the template that are values."""
        return {name: kind for name, kind in (self.prototype.template or {}).items() if not _is_type(kind)}

    @property
    def types(self) -> list[str]:
        """The parameters of the template that are types."""
        return [name for name, kind in (self.prototype.template or {}).items() if _is_type(kind)]

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

    def text_of(self) -> str:
        """The file."""
        name = self.output.name
        return "\n".join(
            [
                f"# Written by `tune new {self.source.name}`. Each comment `# ?` asks: answer on its line, and take it",
                f"# away. `tune validate {name}` names the first question that is open.",
                f"title: {_word(self.prototype.name)}",
                *self._operation(),
                *self._kernel(),
                *self._parameters(),
                *self._launch(),
                "",
            ]
        )

    def _operation(self) -> list[str]:
        sizes = [f"    {_word(name)}:" for name in self.sizes] or ["    n:"]
        ask = (
            "are these its sizes? `tune FILE SIZE` gives them; a number here is a default"
            if self.sizes
            else ("which sizes has the problem? the kernel takes none")
        )
        lines = ["operation:", f"  sizes:  # ? {ask}", *sizes]
        if self.options:
            usual = ", ".join(f"{_word(name)}: 1.0" for name in self.options)
            lines.append(f"  options: {{{usual}}}  # ? what are their usual values?")
        if self.types:
            types = ", ".join(f"{_word(name)}: [float32, float64]" for name in self.types)
            lines.append(f"  types: {{{types}}}  # ? which may they be? the first is the default")
        shapes = "are the shapes right? extents from the slowest to the fastest, such as [rows, columns]"
        if self.prototype.parameters is None:
            shapes = "the text leaves them open; write all, as {name: x, dtype: float32, shape: [n], role: in}"
        lines += [f"  arguments:  # ? {shapes}", *map(self._argument, self.parameters), *self._reference()]
        moved = sum(_element_bytes(p) for p in self.parameters if p.is_pointer)
        return [
            *lines,
            f"  # bytes: {moved} * {' * '.join(self.extents)}    # that it must move, for GB/s; or flops: for GFLOP/s",
        ]

    @property
    def extents(self) -> list[str]:
        return self.sizes or ["n"]

    def _argument(self, parameter: Parameter) -> str:
        name, dtype = _word(parameter.name), _dtype(parameter, self.types)
        asks = (
            []
            if parameter.dtype or dtype in self.types
            else [f"its type is {parameter.type or 'hidden by a name'}: which dtype is it?"]
        )
        if parameter.is_pointer is False:
            body = f"name: {name}, dtype: {dtype}"
        else:
            role, ask = self._role(parameter)
            asks += ask
            body = f"name: {name}, dtype: {dtype}, shape: [{', '.join(map(_word, self.extents))}], role: {role}"
        return f"    - {{{body}}}" + (f"  # ? {'; '.join(asks)}" if asks else "")

    def _role(self, parameter: Parameter) -> tuple[str, list[str]]:
        name = parameter.name
        if re.search(rf"\b(__local|local|LOCAL)\b[^,;)]*\b{name}\b", self.code):
            return "in", ["local memory is no array of the caller: declare it in the kernel"]
        if parameter.is_const:
            return "in", []
        element = rf"\b{name}\s*\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]\s*"
        if re.search(rf"{element}([-+*/|&^]|<<|>>)=|\batomic\w*\s*\(\s*&?\s*{name}\b", self.code):
            return "inout", []
        stores, uses = len(re.findall(rf"{element}=(?!=)", self.code)), len(re.findall(rf"\b{name}\b", self.code))
        return "out", [] if stores and stores == uses - 1 else ["in, out or inout?"]

    def _reference(self) -> list[str]:
        arrays = {p.name: self._role(p)[0] for p in self.parameters if p.is_pointer}
        outputs = [name for name, role in arrays.items() if role != "in"] or ["y"]
        inputs = [name for name, role in arrays.items() if role != "out"]
        choices = _REFERENCES.format(
            expression=" + ".join(inputs) or "2 * x", arrays=", ".join(inputs) or "x", sizes=", ".join(self.extents)
        )
        if len(outputs) > 1:
            choices += f"\n  # of several outputs, one each: reference: {{{', '.join(f'{o}: ...' for o in outputs)}}}"
        return [f"  reference:  # ? what must {' and '.join(outputs)} hold?", choices]

    def _kernel(self) -> list[str]:
        name, ask = self.prototype.name, ""
        if self.prototype.template is not None:
            name += f"<{', '.join(f'{{{each}}}' for each in self.prototype.template)}>"
        if spaces := re.findall(r"\bnamespace\s+(\w+)", self.code):
            ask = f"  # ? is it in namespace {' or '.join(dict.fromkeys(spaces))}? write {spaces[0]}::{name}"
        path = os.path.relpath(self.source.resolve(), self.output.resolve().parent)
        lines = [f"kernel: {_word(name)}{ask}", f"source: {_word(path)}"]
        return [*lines, *([f"include: []  # ? {self.missing}"] if self.missing else [])]

    def _parameters(self) -> list[str]:
        if not self.knobs:
            return [
                "parameters:  # ? which constants may vary? a macro each: #ifndef X, #define X 4, #endif in the source"
            ]
        lines = [
            f"  {_word(name)}: [{', '.join(map(_value, knob.values))}]"
            + (f"  # ? {knob.question}" if knob.question else "")
            for name, knob in self.knobs.items()
        ]
        defaults = ", ".join(f"{_word(name)}: {_value(knob.default)}" for name, knob in self.knobs.items())
        return ["parameters:", *lines, f"default: {{{defaults}}}"]

    def _launch(self) -> list[str]:
        if not self.has_grid:
            return []
        sizes = [*self.extents, *["1"] * 3]
        blocks = [f"ceil_div({sizes[i]}, {extent})" for i, extent in enumerate(self.block)]
        return [
            f"grid: [{', '.join(blocks)}]  # ? how many blocks in x, y, z?",
            f"block: [{', '.join(self.block)}]" + ("" if self._is_sure() else "  # ? how many threads in x, y, z?"),
        ]

    def _is_sure(self) -> bool:
        """Whether the threads of a block are what the source says, or parameters that it leaves to the launch."""
        return len(self.block) == self.dimensions and all(e in self.knobs or e.isdecimal() for e in self.block)


def _is_type(kind: str) -> bool:
    return kind.partition(" ")[0] in ("typename", "class")


def _dtype(parameter: Parameter, types: Sequence[str]) -> str:
    return parameter.type if parameter.type in types else parameter.dtype or "float32"


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


def _element_bytes(parameter: Parameter) -> int:
    digits = re.search(r"\d+$", parameter.dtype or "float32")
    return int(digits[0]) // 8 if digits else 1


def _word(text: str) -> str:
    """`text` as YAML, in quotes where it needs them."""
    return text if re.fullmatch(r"[A-Za-z_./][\w./-]*", text) and text.lower() not in _WORDS else json.dumps(text)


def _value(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
