"""Drafts a space file for a kernel in a Python file, with a `# ?` question wherever the text leaves something open."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from tuner.drafting.python import program_grid, rounding, usage
from tuner.drafting.python.roles import Roles, is_stride
from tuner.drafting.python.syntax import names_in
from tuner.drafting.yaml_text import asked, word
from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.space.jit import function, part
from tuner.space.jit.function import JitFunction, JitParameter
from tuner.space.values import python_function

USUAL = {"num_warps": (2, 4, 8), "num_stages": (2, 3, 4)}  # values of a kernel without any
BLOCKS = (64, 128, 256)  # of a constant without any
_IN_STRINGS = {"__kernel": ".cl", "__global__": ".cu"}  # marks of kernels, and the suffixes of their files
FLAG = (False,)  # of a constant that is a condition
MOST_PRUNING = 24  # lines of the function that leaves out configurations
MOST_LETTERS = 160  # of the host's grid in a question


class PythonDraft:
    """A draft of a space file. Raises RequestError if the source cannot be read or has no kernel `entry`."""

    def __init__(self, source: Path, entry: str | None, output: Path) -> None:
        self.source, self.output = source, output
        text = python_function.text_of(source.absolute())
        try:
            known = function.functions(text)
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise RequestError(f"{shown(source)}: not Python: {shown(error)}") from None
        suffix = next((each for mark, each in _IN_STRINGS.items() if re.search(rf"\b{mark}\b", text)), "")
        if suffix and not any(each.is_jit for each in known.values()):
            advice = f"write that text to a file, then run `tune new {shown(source.with_suffix(suffix).name)}`"
            raise RequestError(f"{shown(source)}: it has a kernel in a string; {advice}")
        self.roles = Roles(self._chosen(known, entry), tree, source)

    def _chosen(self, known: dict[str, JitFunction], entry: str | None) -> JitFunction:
        """The kernel to draft: the only one that no other kernel calls, unless `entry` names one."""
        kernels = {name: each for name, each in known.items() if each.is_jit}
        called = {name for each in kernels.values() for name in part.names_read(each.node)}
        outer = [name for name in kernels if name not in called] or [*kernels]
        named = known.values() if entry is None and not kernels else filter(None, [known.get(entry or "")])
        if foreign := next((each.foreign for each in named if each.foreign), ""):
            raise RequestError(f"{shown(self.source)}: {foreign}")
        if entry is None and len(outer) != 1:
            listed = shown(", ".join(outer)) if outer else "none"
            advice = "name one with --entry" if outer else "decorate one with @triton.jit"
            raise RequestError(f"{shown(self.source)}: its kernels are {listed}; {advice}")
        name = entry or outer[0]
        if name not in kernels:
            listed = shown(", ".join(outer)) or "none"
            raise RequestError(f"{shown(self.source)}: there is no kernel {quoted(name)}; its kernels are {listed}")
        return kernels[name]

    def text(self) -> str:
        """The content of the space file."""
        lines = [
            f"# Written by `tune new {self.source.name}`. Each `# ?` comment is a question: answer it on its line,",
            f"# then remove the comment. `tune validate {self.output.name}` lists the open questions.",
            f"title: {word(self.roles.function.name)}",
            "operation:",
            *self._sizes(),
            *self._types(),
            "  arguments:",
            *self._arguments(),
            *self._reference(),
            f"kernel: {word(self.roles.function.name)}",
            f"source: {word(os.path.relpath(self.source.resolve(), self.output.resolve().parent))}",
            "languages: [triton]",
            f"grid: {self._grid()}",
            *self._parameters(),
            *self._derived(),
        ]
        return "\n".join(lines) + "\n"

    def _sizes(self) -> Iterator[str]:
        is_told = self.roles.sizes != ["n"] or any(p.name == "n" for p in self.roles.scalars)
        about = "  # `tune FILE SIZE` sets them; a number here is a default"
        yield f"  sizes:{about if is_told else asked('which sizes does the problem have? the kernel takes none')}"
        yield from (f"    {word(name)}:" for name in self.roles.sizes)
        if self.roles.options:
            told = {
                p.name: self.roles.launch.real(p.name) if self.roles.launch is not None else None
                for p in self.roles.options
            }
            each = ", ".join(f"{word(p.name)}: {_usual(p, told[p.name])}" for p in self.roles.options)
            is_guess = None in told.values()
            ask = asked("their usual values? a whole number is a size or has a `value`") if is_guess else ""
            yield f"  options: {{{each}}}{ask}"

    def _types(self) -> list[str]:
        ask = "which types may the arrays have? the first is the default"
        others = "".join(f", {word(name)}: [float32, float16]" for name in self.roles.kinds)
        return [f"  types: {{real: [float32, float16]{others}}}{asked(ask)}"]

    def _arguments(self) -> Iterator[str]:
        first = True
        for parameter in self.roles.function.arguments:
            name = parameter.name
            if name in self.roles.arrays:
                role = (
                    "inout"
                    if name in self.roles.told.restored | self.roles.told.zeroed
                    else self.roles.pointers.role(name)
                )
                fill = ", fill: zeros" if name in self.roles.told.zeroed else ""
                remark = "  # set to zero before each launch" if fill else ""
                told = self.roles.shapes and self.roles.shapes.shape(name)
                shape = ", ".join(word(each) for each in told or self._likely_shape(name))
                dtype, question = self._dtype(name)
                about = " `dtype: real` is the type above" if first and not told else ""
                asks = [f"the extents of {name}?{about}"] * (not told) + [question] * bool(question)
                fields = f"name: {word(name)}, dtype: {dtype}, shape: [{shape}], role: {role}{fill}"
                yield f"    - {{{fields}}}{asked(' '.join(asks)) if asks else ''}{remark}"
                first = False
            elif parameter.default is not None:
                yield f"    - {self._scalar(parameter)}"

    def _dtype(self, array: str) -> tuple[str, str]:
        """The type of an array, and a question about it."""
        told = None if self.roles.shapes is None else self.roles.shapes.dtype(array)
        if array in self.roles.pointers.indices:
            ask = "what do these indices hold? such as `fill: {integers: [0, n - 1]}`"
        elif array in self.roles.pointers.limits:
            ask = "indices are compared with it: what does it hold? such as `fill: {integers: [0, n]}`"
        elif array in self.roles.pointers.bits:
            return told or "uint8", "" if told else "its bits are shifted: which integers are they, uint8 or int32?"
        else:
            return told or "real", ""
        return told or "int32", ask if told else f"int32 or int64? {ask}"

    def _likely_shape(self, array: str) -> list[str]:
        named = (self.roles.shapes and self.roles.shapes.likely_shape(array)) or []
        least = self._least_axes(array)
        if addressed := self.roles.likely_extents.of(array, max(least, len(named))):
            return addressed
        return [*named, *self.roles.sizes[:1] * (least - len(named))]

    def _least_axes(self, array: str) -> int:
        """How many axes an array has at least, since the kernel gets strides of it."""
        strides = (
            []
            if self.roles.shapes is None
            else [self.roles.shapes.stride(p.name) for p in self.roles.function.parameters]
        )
        axes = [stride[1] for stride in strides if stride is not None and stride[0] == array]
        likely = [max(2, axis + 1) for other, axis in self.roles.likely_strides.values() if other == array]
        return max([1, *likely, *(axis + 1 if axis >= 0 else -axis for axis in axes)])

    def _scalar(self, parameter: JitParameter) -> str:
        name = word(parameter.name)
        if parameter.name in self.roles.sizes:
            return f"{{name: {name}, dtype: int32}}"
        if self.roles.shapes is not None and (stride := self.roles.shapes.stride(parameter.name)) is not None:
            return f"{{name: {name}, dtype: int32, value: {word(f'stride({stride[0]}, {stride[1]})')}}}"
        if parameter.name in self.roles.computed:
            text = self.roles.in_sizes(self.roles.computed[parameter.name])
            dtype = "float32" if _is_real(text) else "int32"
            return f"{{name: {name}, dtype: {dtype}, value: {word(text)}}}"
        if parameter.name in self.roles.unread:
            return f"{{name: {name}, dtype: int32, value: 1}}  # the kernel does not read it"
        if parameter.name in self.roles.strides:
            told = None if self.roles.shapes is None else self.roles.shapes.number(parameter.name)
            if told is None and parameter.name in self.roles.likely_strides:
                array, axis = self.roles.likely_strides[parameter.name]
                ask = asked(f"of which axis of {array}?")
                return f"{{name: {name}, dtype: int32, value: {word(f'stride({array}, {axis})')}}}{ask}"
            ask = asked("the elements from one index to the next, in terms of sizes?") if told is None else ""
            return f"{{name: {name}, dtype: int32, value: {1 if told is None else told}}}{ask}"
        return f"{{name: {name}, dtype: float32}}"

    def _reference(self) -> list[str]:
        outputs = [name for name in self.roles.arrays if self.roles.pointers.role(name) != "in"]
        each = ", ".join(f"{name}: ..." for name in outputs) or "y: ..."
        ask = f"what must the outputs hold? such as {{{each}}} with NumPy's words, or {{python: check.py:expected}}"
        types = {name: self._dtype(name)[0] for name in outputs}
        return [f"  reference: none{asked(ask)}", *rounding.remarks(self.roles.node, types)]

    def _grid(self) -> str:
        if self.roles.grid is not None and (extents := self.roles.grid.extents(self.roles.sizes)) is not None:
            numbers = {int(number) for each in extents for number in re.findall(r"\b\d+\b", each)} - {0, 1}
            passed = ((c.name, self.roles.literal(c.name)) for c in self.roles.function.constants)
            same = [f"{number} {name}" for name, number in passed if not isinstance(number, bool) and number in numbers]
            ask = (
                asked(f"the launch passes the same number: is {' or '.join(same)}? then write the name") if same else ""
            )
            return f"[{', '.join(word(self.roles.in_sizes(each)) for each in extents)}]{ask}"
        likely = program_grid.guessed(self.roles.node)
        own = {"ceil_div", *(each.name for each in (*self.roles.function.constants, *self.roles.function.arguments))}
        is_own = all(names_in(ast.parse(each)) <= own for each in likely or ())  # not of a function that it calls
        each = ", ".join(map(word, (likely if is_own else None) or ["1"]))
        host = "" if self.roles.grid is None else " ".join(self.roles.grid.text.split())
        such = f"the host has {host}" if 0 < len(host) <= MOST_LETTERS else "such as ceil_div(n, BLOCK)"
        return f"[{each}]{asked(f'how many programs in x, y, z? {such}')}"

    def _parameters(self) -> Iterator[str]:
        values: dict[str, Any] = dict(self.roles.told.values)
        known = {*values, *self.roles.sizes, *self.roles.told.heuristics, *self.roles.deduced, *self.roles.kinds}
        known |= {o.name for o in self.roles.options} | self.roles.unread
        conditions = usage.conditions(self.roles.node)
        stages = usage.stages(self.roles.node)
        for constant in self.roles.function.constants:
            passed = {} if self.roles.launch is None else self.roles.launch.passed
            is_passed = not _is_none(passed.get(constant.name, ast.Constant(None)))
            if constant.name in known or is_stride(constant) or (constant.has_default and not is_passed):
                continue
            literal = self.roles.literal(constant.name)
            usual: tuple[Any, ...] = (
                FLAG if constant.name in conditions else self.roles.cases.get(constant.name, BLOCKS)
            )
            usual = USUAL["num_stages"] if constant.name in stages else self._texts(constant.name)[:1] or usual
            usual = USUAL.get(constant.name, usual)  # an option of the compiler, which the kernel takes, too
            values[constant.name] = (literal,) if isinstance(literal, bool | int | float | str) else usual
        yield "parameters:"
        for name, each in values.items():
            is_guess = name not in {*self.roles.told.values, *USUAL}
            left = ", ".join(sorted(self.roles.absent.flagged.get(name, ())))
            without = f" where it is true, `arguments:` have {left}" if left else ""
            others = ", ".join(
                str(case) for case in (*self._texts(name), *self.roles.cases.get(name, ())) if case not in each
            )
            others = f" it is also compared with {others}, which may compute something else" if others else ""
            ask = asked(f"which values may {name} have?{without}{others}") if is_guess else ""
            yield f"  {word(name)}: [{', '.join(map(_value, each))}]{ask}"
        if not self.roles.told.values:
            unnamed = {name: each for name, each in USUAL.items() if name not in values}
            yield from (f"  {name}: [{', '.join(map(str, each))}]" for name, each in unnamed.items())
        yield from self._default(values)
        remarks = self._remarks(values)
        yield from (f"# {remark}" for remark in remarks)

    def _texts(self, name: str) -> tuple[str, ...]:
        """The texts with which a constant is compared."""
        return self.roles.texts.get(name, ())

    def _default(self, values: dict[str, Any]) -> Iterator[str]:
        default = self.roles.told.default
        if default and default.keys() >= values.keys():
            yield f"default: {{{', '.join(f'{word(n)}: {_value(default[n])}' for n in values)}}}"

    def _remarks(self, values: dict[str, Any]) -> Iterator[str]:
        count, combinations = self.roles.told.count, 1
        for each in values.values():
            combinations *= len(each)
        if count:
            yield f"@triton.autotune lists {count} of these {combinations} combinations."
        elif count is None:
            yield "? some configurations of @triton.autotune can be told by Python alone: add their values"
        if self.roles.told.ranked:
            yield "@triton.autotune times only those that a model ranks first; `tune --budget` limits the time instead."
        if self.roles.told.pruned is not None:
            yield "? @triton.autotune leaves some out (prune_configs_by): say which under `restrictions:`, but those"
            yield "  that need too much shared memory or registers, which fail quickly. What leaves them out:"
            lines = self.roles.told.pruned.splitlines()
            yield from (f"    {line}".rstrip() for line in lines[:MOST_PRUNING])
            yield from ["    ..."] if len(lines) > MOST_PRUNING else []

    def _derived(self) -> Iterator[str]:
        strides = [c.name for c in self.roles.function.constants if is_stride(c)]
        unread = [c.name for c in self.roles.function.constants if c.name in self.roles.unread]
        options = [option.name for option in self.roles.options]
        if self.roles.told.heuristics or self.roles.deduced or strides or unread:
            yield "derived:"
        yield from (f"  {word(name)}: 1  # the kernel does not read it" for name in unread)
        for name, text in {**self.roles.told.heuristics, **self.roles.deduced}.items():
            if name in self.roles.absent.tested:
                left = self.roles.absent.tested[name]
                yield f"  {word(name)}: 0  # {left} is left out; with it under `arguments:`, 1"
                continue
            value = self.roles.in_sizes(text or "0")
            others = {p.name for p in self.roles.scalars if p.name not in {*self.roles.sizes, *options}}
            is_told = bool(text) and names_in(ast.parse(value)).isdisjoint(others)
            of_host = f", as {value}" if text else ""
            ask = "" if is_told else asked(f"its value, as @triton.heuristics computes it{of_host}?")
            yield f"  {word(name)}: {word(value if is_told else '0')}{ask}"
        for name in strides:
            told = self._constant_stride(name)
            ask = "" if told else asked("the elements from one index to the next, in terms of sizes?")
            yield f"  {word(name)}: {word(told or '1')}{ask}"

    def _constant_stride(self, name: str) -> str | None:
        """The stride of an array whose shape is told, as an expression of sizes."""
        stride = self.roles.shapes.stride(name) if self.roles.shapes is not None else None
        shape = self.roles.shapes.shape(stride[0]) if self.roles.shapes is not None and stride is not None else None
        if stride is None or shape is None or not -len(shape) <= stride[1] < len(shape):
            return None
        inner = shape[stride[1] % len(shape) + 1 :]
        return " * ".join(each if each.isidentifier() else f"({each})" for each in inner) or "1"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _usual(parameter: JitParameter, told: float | None) -> str:
    """The value of an option that is told, otherwise a likely one. For YAML, `1e-05` is a text."""
    if told is None and isinstance(parameter.default, int | float):
        told = float(parameter.default)
    if told is None:
        told = 1e-5 if parameter.name.startswith("eps") else 1.0
    return format(Decimal(repr(told)), "f")


def _is_real(text: str) -> bool:
    """Whether an expression has a real value: it has a quotient, a root or a real number."""
    nodes = [*ast.walk(ast.parse(text, mode="eval"))]
    has_real = any(isinstance(each, ast.Constant) and isinstance(each.value, float) for each in nodes)
    return has_real or any(isinstance(each, ast.Div) for each in nodes)


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else word(value) if isinstance(value, str) else str(value)
