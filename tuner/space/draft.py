"""A space file for a kernel that has none: what its source says, and questions where it does not."""

from __future__ import annotations

import json
import keyword
import os
import re
from collections import Counter
from pathlib import Path

from tuner.errors import ExpressionError
from tuner.space import expressions
from tuner.space.dtypes import DTYPES
from tuner.space.host_lines import GUARD
from tuner.space.kernel_facts import Facts
from tuner.space.prototype import Parameter, Prototype

_WORDS = {"yes", "no", "on", "off", "true", "false", "null"}  # which YAML takes for something else
MOST_GUESSED = 3  # extents
_REFERENCES = """\
  # One of these, without the #:
  # reference: {expression}    # over the arrays, as NumPy would write it; `tune schema --functions` lists the functions
  # reference: {{python: check.py:expected}}    # expected({arguments}) returns an array
  # reference: none    # nothing is compared, and every table says unverified"""


class Draft:
    """The text of a space file. Raises RequestError if the source cannot be read, or if it has no such kernel."""

    def __init__(self, source: Path, entry: str | None, output: Path) -> None:
        self.facts, self.source, self.output = Facts(source, entry), source, output
        self.extents = [*self.facts.shapes.new_sizes, *self.facts.sizes] or ["n"]

    def text(self) -> str:
        """The file."""
        lines = [
            f"# Written by `tune new {self.source.name}`. Each comment `# ?` asks: answer on its line, and take it",
            f"# away. `tune validate {self.output.name}` names the first question that is open.",
            f"title: {_word(self.facts.prototype.name)}",
            "operation:",
            *self._sizes(),
            *self._arguments(),
            *self._reference(),
            self._work(),
            *self._kernel(),
            *self._parameters(),
            *(self._launch() if len(self.facts.steps) == 1 else self._steps()),
        ]
        return "\n".join(lines) + "\n"

    def _sizes(self) -> list[str]:
        facts = self.facts
        ask = "which sizes has the problem? the kernel takes none"
        if facts.sizes:
            ask = "are these its sizes? `tune FILE SIZE` gives them; a number here is a default"
        if facts.shapes.new_sizes:
            ask += f"; {' and '.join(facts.shapes.new_sizes)}, which no kernel takes, is how many blocks there are"
        lines = [f"  sizes:{_asked(ask)}", *(f"    {_word(name)}:" for name in self.extents)]
        if facts.options:
            truths = {p.name for p in facts.parameters if p.dtype == "bool"}
            usual = ", ".join(f"{_word(name)}: {1 if name in truths else _usual(name)}" for name in facts.options)
            lines.append(f"  options: {{{usual}}}{_asked('what are their usual values?')}")
        if facts.types:
            other = "float16" if re.search(r"\b(?:cuda_fp16|__half|half)\b", facts.code) else "float64"
            types = ", ".join(f"{_word(name)}: [float32, {other}]" for name in facts.types)
            lines.append(f"  types: {{{types}}}{_asked('which may they be? the first is the default')}")
        return lines

    def _arguments(self) -> list[str]:
        ask = "the text leaves them open; write all, as {name: x, dtype: float32, shape: [n], role: in}"
        ask = "" if self.facts.parameters else ask
        return [
            f"  arguments:{_asked(ask)}",
            *map(self._argument, self.facts.parameters),
            *(self._constant(parameter, extents) for parameter, extents in self.facts.constants.values()),
        ]

    def _argument(self, parameter: Parameter) -> str:
        dtype, asks = parameter.dtype or "float32", list[str]()
        if len(types := self.facts.types_of(parameter.name)) > 1:
            asks.append(f"the steps take it as {' and '.join(types)}: one name is one argument; rename one")
        if parameter.type in self.facts.types:
            dtype = parameter.type
        elif parameter.stars > 1:
            dtype = "uint64"
            asks.append("a pointer to pointers has no numbers: take one array in the source, and offsets in it")
        elif not parameter.is_pointer and (parameter.width > 1 or self.facts.is_struct(parameter)):
            dtype = _complex(dtype) if parameter.is_pair else dtype
            pair = " unless it is a complex number" if parameter.is_pair else ""
            asks.append(f"a scalar is one number, and {parameter.type} is none{pair}: take its numbers one by one")
        elif parameter.dtype is None:
            hidden = "" if parameter.is_pointer else "; an array, if that is a pointer?"
            asks.append(f"its type is {parameter.type or 'hidden by a name'}: which dtype is it?{hidden}")
        body = f"name: {_word(_name(parameter))}, dtype: {dtype}"
        if parameter.is_pointer and self.facts.is_local(parameter):
            asks.append("how many elements has a work-group of it? the threads of a block?")
            if "portable.h" in self.facts.code:
                asks.append("CUDA has no `kind: local`: declare it in the kernel, or write `languages: [opencl]`")
            body += f", kind: local, shape: [{' * '.join(self.facts.block)}]"
        elif parameter.is_pointer:
            role, more = self.facts.role(parameter)
            shape = self._shape(parameter.name)
            parts = [str(self.facts.parts(parameter))] if parameter.width > 1 else []
            if parameter.is_pair:
                asks.append(f"or is it {_complex(dtype)}, of the shape [{', '.join(shape)}]?")
            elif parts:
                asks.append(f"an element of {parameter.type} has {parts[0]} numbers: is that the last extent?")
            body += f", shape: [{', '.join([*map(_word, shape), *parts])}], role: {role}"
            asks += more
            if self._blocks(parameter.name):
                asks.append("is it an element for each block?")
            elif role != "scratch" and self.facts.shapes.shape(parameter.name) is None:
                asks.append("which shape? the source does not tell; from the slowest to the fastest: [rows, columns]")
            if role in ("in", "inout"):
                fill, more = self._fill(parameter)
                body, asks = body + fill, asks + more
        return f"    - {{{body}}}{_asked('; '.join(asks))}"

    def _shape(self, name: str) -> list[str]:
        """The shape of an array: where the text does not tell, all sizes, or of many the first."""
        told = self.facts.shapes.shape(name) or self._blocks(name)
        return told or (self.extents if len(self.extents) <= MOST_GUESSED else self.extents[:1])

    def _blocks(self, name: str) -> list[str]:
        """The shape of an array that has an element for each block of one axis, as far as the text tells."""
        axis = self.facts.shapes.axis_of(name)
        if axis is None or self.facts.shapes.shape(name) is not None or len(self.facts.steps) > 1:
            return []
        told = self.facts.shapes.grid(0, self.facts.block)[axis : axis + 1]
        return [blocks for blocks in told if blocks is not None]

    def _fill(self, parameter: Parameter) -> tuple[str, list[str]]:
        """What an input holds, as far as the text tells, and what to ask about it."""
        extent = self.facts.shapes.indexed_by(parameter.name)
        if extent is None or parameter.dtype is None or DTYPES[parameter.dtype].kind != "integer":
            return "", self.facts.inputs_asked(parameter)
        if not extent:
            return "", ["it holds indices: of how many? such as fill: {integers: [0, n - 1]}"]
        return f", fill: {{integers: [0, {extent} - 1]}}", []

    def _constant(self, parameter: Parameter, extents: list[str]) -> str:
        """A `__constant__` variable, which each launch fills with an array of the caller."""
        asks = [] if parameter.dtype else [f"its type is {parameter.type}: which dtype is it?"]
        extents = [self._counted(extent) for extent in extents]
        if not all(extent.isdecimal() for extent in extents):
            asks.append(f"the source has room for [{', '.join(extents)}]: how much does the caller fill, by sizes?")
        shape = [extent if extent.isdecimal() else _word(self.extents[-1]) for extent in extents] or ["1"]
        body = f"name: {_word(parameter.name)}, kind: constant, dtype: {parameter.dtype or 'float32'}"
        return f"    - {{{body}, shape: [{', '.join(shape)}], role: in}}{_asked('; '.join(asks))}"

    def _counted(self, extent: str) -> str:
        """An extent as a number, where the source says it."""
        for name, value in self.facts.fixed.items():
            extent = re.sub(rf"\b{name}\b", str(value), extent)
        try:
            return str(expressions.parse(extent).integer({}))
        except ExpressionError:
            return extent

    @property
    def _arrays(self) -> list[Parameter]:
        """The arrays among the parameters that a caller passes, most likely."""
        facts = self.facts
        pointers = [p for p in facts.parameters if p.is_pointer and not facts.is_local(p)]
        return [p for p in pointers if not facts.is_handed_on(p.name)]

    def _reference(self) -> list[str]:
        arrays = {_name(p): self.facts.role(p)[0] for p in self._arrays} | dict.fromkeys(self.facts.constants, "in")
        outputs = [name for name, role in arrays.items() if role != "in"] or ["y"]
        inputs = [name for name, role in arrays.items() if role != "out"]
        choices = _REFERENCES.format(
            expression=" + ".join(inputs) or f"zeros({', '.join(self.extents)})",
            arguments=", ".join([*inputs, "*", *self.extents, *self.facts.options]),
        )
        ask = f"what must {' and '.join(outputs)} hold?"
        lines = [f"  reference:{_asked(ask)}", choices]
        if len(outputs) > 1:
            lines.append(f"  # of several outputs, one each: reference: {{{', '.join(f'{o}: ...' for o in outputs)}}}")
        return lines

    def _work(self) -> str:
        moved = Counter[tuple[str, ...]]()
        for array in self._arrays:
            moved[tuple(self._shape(array.name))] += self.facts.element_bytes(array)
        amount = " + ".join(
            " * ".join([str(size), *(f"({each})" if " " in each else each for each in shape)])
            for shape, size in moved.items()
        )
        return f"  # bytes: {amount or 4}    # that it must move, for GB/s; or flops: for GFLOP/s"

    def _kernel(self) -> list[str]:
        facts = self.facts
        path = os.path.relpath(self.source.resolve(), self.output.resolve().parent)
        lines = [f"source: {_word(path)}{_asked(self._host_code())}"]
        if len(facts.steps) == 1:
            lines.insert(0, f"kernel: {_word(_entry(facts.prototype))}")
        return [*lines, f"include: []{_asked(facts.missing)}"] if facts.missing else lines

    def _host_code(self) -> str:
        """What to ask about lines that are for the host."""
        numbers = self.facts.host_lines
        if not numbers:
            return ""
        named = f"line {numbers[0]} is" if len(numbers) == 1 else f"lines {', '.join(map(str, numbers[:3]))} are"
        return f"{named} for the host: is all such code between #ifndef {GUARD} and #endif?"

    def _parameters(self) -> list[str]:
        knobs, words = self.facts.knobs, self._words()
        if not knobs:
            ask = "which constants may vary? a macro each: #ifndef X, #define X 4, #endif in the source"
            return [f"parameters:{_asked(ask)}", *words]
        lines = [
            f"  {_word(name)}: [{', '.join(map(_value, knob.values))}]{_asked(knob.question)}"
            for name, knob in knobs.items()
        ]
        default = ", ".join(f"{_word(name)}: {_value(knob.default)}" for name, knob in knobs.items())
        return ["parameters:", *lines, *words, f"default: {{{default}}}"]

    def _words(self) -> list[str]:
        """Comments on the macros that no number can replace."""
        why = "a macro whose default is a word: add others"
        return [
            f"  # {name}: [{word}]    # {why}, and #ifndef {name} around its #define"
            for name, word in self.facts.words.items()
        ]

    def _launch(self) -> list[str]:
        facts = self.facts
        if not facts.has_grid:
            return []
        return [
            f"grid: {self._grid(0, facts.block)}",
            f"block: [{', '.join(facts.block)}]{_asked(facts.asks_block)}",
            *self._shared_memory(facts.prototype),
        ]

    def _shared_memory(self, step: Prototype) -> list[str]:
        """The bytes of dynamic shared memory, where a step may use any."""
        arrays = self.facts.dynamic_arrays(step)
        if not arrays:
            return []
        each = [str(size)] if (size := max(arrays.values())) > 1 else []
        threads = (f"({e})" if re.search(r"[-+/%]", e) else e for e in self.facts.block_of(step))
        ask = f"how many bytes does a block need? {' and '.join(arrays)} is extern __shared__ in the source"
        return [f"shared_memory: {' * '.join([*each, *threads])}{_asked(ask)}"]

    def _grid(self, step: int, block: list[str]) -> str:
        """The blocks of a step, and a question where the text does not tell all."""
        told = self.facts.shapes.grid(step, block)
        fastest_first = self.extents[: len(block)][::-1]
        sizes = [*fastest_first, "1", "1"]
        guessed = [f"ceil_div({size}, {extent})" for size, extent in zip(sizes, block, strict=False)]
        blocks = [each or (guessed[axis] if axis < len(guessed) else "1") for axis, each in enumerate(told)] or guessed
        ask = "" if told and None not in told else "how many blocks in x, y, z?"
        return f"[{', '.join(blocks)}]{_asked(ask)}"

    def _steps(self) -> list[str]:
        """The steps, in the order in which the user has named them."""
        lines = ["steps:"]
        for position, step in enumerate(self.facts.steps):
            names = ", ".join(_word(_name(parameter)) for parameter in step.parameters or ())
            block = self.facts.block_of(step)
            lines.append(f"  - kernel: {_word(_entry(step))}")
            lines.append(f"    arguments: [{names}]{_asked('' if names else 'the text leaves them open: which?')}")
            if self.facts.has_grid:
                lines.append(f"    grid: {self._grid(position, block)}")
                lines.append(f"    block: [{', '.join(block)}]{_asked('how many threads in x, y, z?')}")
                lines += [f"    {line}" for line in self._shared_memory(step)]
        return lines


def _asked(question: str) -> str:
    """The comment that asks, or nothing."""
    return f"  # ? {question}" if question else ""


def _entry(prototype: Prototype) -> str:
    """The name of a kernel in the file: with its namespaces, and of a template with its parameters."""
    template = ", ".join(f"{{{name}}}" for name in prototype.template or ())
    return prototype.qualified if prototype.template is None else f"{prototype.qualified}<{template}>"


def _name(parameter: Parameter) -> str:
    """The name of an argument in the file, where a reference can say it: `in` is a word of expressions."""
    return f"{parameter.name}_" if parameter.is_pointer and keyword.iskeyword(parameter.name) else parameter.name


def _complex(part: str) -> str:
    """The dtype of complex numbers whose parts are of this one."""
    return next(dtype.name for dtype in DTYPES.values() if dtype.part == part)


def _usual(name: str) -> str:
    """A value of an option that is likely by its name: 1, but for what is small."""
    return "0.00001" if name.startswith("eps") else "0.5" if name in ("p", "prob", "rate", "dropout") else "1.0"


def _word(text: str) -> str:
    """`text` as YAML, in quotes where it needs them."""
    return text if re.fullmatch(r"[A-Za-z_./][\w./-]*|\d+", text) and text.lower() not in _WORDS else json.dumps(text)


def _value(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
