"""Drafts a space file for a kernel in a Python file, with a `# ?` question wherever the text leaves something open."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from tuner.drafting.python import configs, launches, program_grid, usage
from tuner.drafting.python.host_shapes import HostShapes
from tuner.drafting.python.pointers import Pointers
from tuner.drafting.python.syntax import filled
from tuner.drafting.yaml_text import asked, word
from tuner.errors import RequestError
from tuner.lockless import cached_property
from tuner.quoting import quoted, shown
from tuner.space.jit import closure, function, part
from tuner.space.jit.absence import absent
from tuner.space.jit.function import JitFunction, JitParameter

USUAL = {"num_warps": (2, 4, 8), "num_stages": (2, 3, 4)}  # values of a kernel without any
BLOCKS = (64, 128, 256)  # of a constant without any
FLAG = (False,)  # of a constant that is a condition
MOST_NESTED = 4  # computed numbers in computed numbers
MOST_PRUNING = 24  # lines of the function that leaves out configurations


class PythonDraft:
    """A draft of a space file. Raises RequestError if the source cannot be read or has no kernel `entry`."""

    def __init__(self, source: Path, entry: str | None, output: Path) -> None:
        self.source, self.output = source, output
        text = closure.text_of(source.absolute())
        try:
            known = function.functions(text)
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise RequestError(f"{shown(source)}: not Python: {shown(error)}") from None
        self.function = self._chosen(known, entry)
        names = [each.name for each in self.function.arguments]
        self.pointers = Pointers(self.function.node, names)
        self.told = configs.of(self.function.node, self.tree)
        self.launch = launches.of(self.tree, self.function.name, [p.name for p in self.function.parameters])
        self.absent = absent(self.function.node)
        self.grid = launches.PythonGrid(self.launch, self.absent.all) if self.launch is not None else None
        self.shapes = HostShapes(self.launch, self.arrays, self.grid) if self.launch and self.grid else None

    def _chosen(self, known: dict[str, JitFunction], entry: str | None) -> JitFunction:
        """The kernel to draft: the only one that no other kernel calls, unless `entry` names one."""
        kernels = {name: each for name, each in known.items() if each.is_jit}
        called = {name for each in kernels.values() for name in part.names_read(each.node)}
        outer = [name for name in kernels if name not in called] or [*kernels]
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
            f"title: {word(self.function.name)}",
            "operation:",
            *self._sizes(),
            *self._types(),
            "  arguments:",
            *self._arguments(),
            *self._reference(),
            f"kernel: {word(self.function.name)}",
            f"source: {word(os.path.relpath(self.source.resolve(), self.output.resolve().parent))}",
            "languages: [triton]",
            f"grid: {self._grid()}",
            *self._parameters(),
            *self._derived(),
        ]
        return "\n".join(lines) + "\n"

    @cached_property
    def arrays(self) -> list[str]:
        """The parameters that are arrays, in order. Those that another function gets are judged by their names."""
        likely = {name for name in self.pointers.passed if name.endswith("ptr")}
        found = self.pointers.all | likely | {p.name for p in self.function.arguments if p.name.endswith("_ptr")}
        return [p.name for p in self.function.arguments if p.name in found and p.name not in self.absent.all]

    @cached_property
    def scalars(self) -> list[JitParameter]:
        """The parameters that are numbers. One that may be left out is."""
        return [p for p in self.function.arguments if p.name not in self.arrays and p.default is not None]

    @cached_property
    def sizes(self) -> list[str]:
        """The numbers that are sizes: those that Triton tunes again for, and those that bound indices."""
        numbers = [p.name for p in self.scalars if p.name not in self.computed]
        bounding = usage.compared(self.function.node) | usage.divisors(self.function.node)
        if self.shapes is not None:
            bounding |= {n for n in numbers if self.shapes.is_extent(n)}
        found = [n for n in numbers if (n in self.told.key or n in bounding) and not n.startswith("stride")]
        found += self._constant_sizes(bounding)
        parameters = {p.name for p in self.function.parameters}
        others = [] if self.shapes is None else [n for n in dict.fromkeys(self.shapes.names()) if n not in parameters]
        return [*found, *others] or ["n"]

    @cached_property
    def kinds(self) -> list[str]:
        """The constants that are types: `x.to(KIND)`."""
        used = usage.types(self.function.node)
        return [c.name for c in self.function.constants if c.name in used and not c.has_default]

    def _constant_sizes(self, bounding: set[str]) -> list[str]:
        """The constants that are sizes."""
        chosen = {*self.told.values, *self.told.heuristics, *self.deduced}
        constants = [c.name for c in self.function.constants if c.name not in chosen and not _is_stride(c)]
        flags, bounding = usage.conditions(self.function.node), bounding & usage.bounds(self.function.node)
        whole = (usage.divisors(self.function.node) | self.pointers.addressing) - usage.extents(self.function.node)
        in_shapes = set[str]() if self.shapes is None else {*self.shapes.names()}
        told = {n for n in constants if self.shapes is not None and (n in in_shapes or self.shapes.is_extent(n))}
        return [n for n in constants if n in {*self.told.key, *bounding, *whole, *told} and n not in flags]

    @cached_property
    def deduced(self) -> dict[str, str]:
        """The constants that the host computes from other parameters of the kernel, as `next_power_of_2(n)`."""
        return self._computed({c.name for c in self.function.constants} - {*self.told.values})

    @cached_property
    def computed(self) -> dict[str, str]:
        """The numbers that the host computes from other parameters of the kernel, as `rows // groups`, but those of
        which shapes are made."""
        in_shapes = set[str]() if self.shapes is None else {*self.shapes.names()}
        return self._computed({p.name for p in self.scalars if not _is_stride(p)} - in_shapes)

    def _computed(self, names: set[str]) -> dict[str, str]:
        if self.launch is None or self.grid is None:
            return {}
        found = {name: self.grid.computed(name) for name in self.launch.passed if name in names}
        return {name: text for name, text in found.items() if text is not None and " is " not in text}

    def _in_sizes(self, text: str) -> str:
        """An expression with the values of computed numbers in the place of their names."""
        values = {name: ast.parse(value, mode="eval").body for name, value in self.computed.items()}
        expression = ast.parse(text, mode="eval").body
        for _ in range(MOST_NESTED):
            expression = filled(expression, values)
        return ast.unparse(expression)

    @cached_property
    def options(self) -> list[JitParameter]:
        """The numbers that are real: `eps`, `alpha`, and constants that are neither extents nor conditions."""
        function, others = self.function.node, {*self.sizes, *self.computed}
        chosen = {*self.told.values, *self.told.heuristics, *self.deduced, *self.kinds, *others, *usage.texts(function)}
        chosen |= usage.conditions(function) | usage.extents(function) | usage.stages(function)
        reals = [c for c in self.function.constants if c.name not in chosen and not _is_stride(c) and not c.has_default]
        return [*(p for p in self.scalars if p.name not in others and not _is_stride(p)), *reals]

    def _sizes(self) -> Iterator[str]:
        is_told = self.sizes != ["n"] or any(p.name == "n" for p in self.scalars)
        about = "  # `tune FILE SIZE` sets them; a number here is a default"
        yield f"  sizes:{about if is_told else asked('which sizes does the problem have? the kernel takes none')}"
        yield from (f"    {word(name)}:" for name in self.sizes)
        if self.options:
            told = {p.name: self.launch.real(p.name) if self.launch is not None else None for p in self.options}
            each = ", ".join(f"{word(p.name)}: {_usual(p, told[p.name])}" for p in self.options)
            is_guess = None in told.values()
            ask = asked("their usual values? a whole number is a size or has a `value`") if is_guess else ""
            yield f"  options: {{{each}}}{ask}"

    def _types(self) -> list[str]:
        ask = "which types may the arrays have? the first is the default"
        others = "".join(f", {word(name)}: [float32, float16]" for name in self.kinds)
        return [f"  types: {{real: [float32, float16]{others}}}{asked(ask)}"]

    def _arguments(self) -> Iterator[str]:
        first = True
        for parameter in self.function.arguments:
            name = parameter.name
            if name in self.arrays:
                role = "inout" if name in self.told.restored | self.told.zeroed else self.pointers.role(name)
                fill = ", fill: zeros" if name in self.told.zeroed else ""
                remark = "  # set to zero before each launch" if fill else ""
                told = self.shapes and self.shapes.shape(name)
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
        told = None if self.shapes is None else self.shapes.dtype(array)
        if array in self.pointers.indices:
            ask = "what do these indices hold? such as `fill: {integers: [0, n - 1]}`"
            return told or "int32", ask if told else f"int32 or int64? {ask}"
        return told or "real", ""

    def _likely_shape(self, array: str) -> list[str]:
        named = (self.shapes and self.shapes.likely_shape(array)) or []
        return [*named, *self.sizes[:1] * (self._least_axes(array) - len(named))]

    def _least_axes(self, array: str) -> int:
        """How many axes an array has at least, since the kernel gets strides of it."""
        strides = [] if self.shapes is None else [self.shapes.stride(p.name) for p in self.function.parameters]
        axes = [stride[1] for stride in strides if stride is not None and stride[0] == array]
        return max([1, *(axis + 1 if axis >= 0 else -axis for axis in axes)])

    def _scalar(self, parameter: JitParameter) -> str:
        name = word(parameter.name)
        if parameter.name in self.sizes:
            return f"{{name: {name}, dtype: int32}}"
        if self.shapes is not None and (stride := self.shapes.stride(parameter.name)) is not None:
            return f"{{name: {name}, dtype: int32, value: {word(f'stride({stride[0]}, {stride[1]})')}}}"
        if parameter.name in self.computed:
            text = self._in_sizes(self.computed[parameter.name])
            dtype = "float32" if _is_real(text) else "int32"
            return f"{{name: {name}, dtype: {dtype}, value: {word(text)}}}"
        if _is_stride(parameter):
            told = None if self.shapes is None else self.shapes.number(parameter.name)
            ask = asked("the elements from one index to the next, in terms of sizes?") if told is None else ""
            return f"{{name: {name}, dtype: int32, value: {1 if told is None else told}}}{ask}"
        return f"{{name: {name}, dtype: float32}}"

    def _reference(self) -> list[str]:
        outputs = [name for name in self.arrays if self.pointers.role(name) != "in"]
        each = ", ".join(f"{name}: ..." for name in outputs) or "y: ..."
        ask = f"what must the outputs hold? such as {{{each}}} with NumPy's words, or {{python: check.py:expected}}"
        return [f"  reference: none{asked(ask)}"]

    def _grid(self) -> str:
        if self.grid is not None and (extents := self.grid.extents(self.sizes)) is not None:
            return f"[{', '.join(word(self._in_sizes(each)) for each in extents)}]"
        likely = program_grid.guessed(self.function.node)
        each = ", ".join(map(word, likely or ["1"]))
        return f"[{each}]{asked('how many programs in x, y, z? such as ceil_div(n, BLOCK)')}"

    def _parameters(self) -> Iterator[str]:
        values: dict[str, Any] = dict(self.told.values)
        known = {*values, *self.sizes, *self.told.heuristics, *self.deduced, *self.kinds}
        known |= {o.name for o in self.options}
        compared = usage.texts(self.function.node)
        conditions = usage.conditions(self.function.node)
        stages = usage.stages(self.function.node)
        for constant in self.function.constants:
            is_passed = self.launch is not None and constant.name in self.launch.passed
            if constant.name in known or _is_stride(constant) or (constant.has_default and not is_passed):
                continue
            literal = None if self.launch is None else self.launch.literal(constant.name)
            usual: tuple[Any, ...] = FLAG if constant.name in conditions else BLOCKS
            usual = USUAL["num_stages"] if constant.name in stages else compared.get(constant.name, usual)
            values[constant.name] = (literal,) if isinstance(literal, bool | int | float | str) else usual
        yield "parameters:"
        for name, each in values.items():
            is_guess = name not in self.told.values
            left = ", ".join(sorted(self.absent.flagged.get(name, ())))
            without = f" where it is true, `arguments:` have {left}" if left else ""
            ask = asked(f"which values may {name} have?{without}") if is_guess else ""
            yield f"  {word(name)}: [{', '.join(map(_value, each))}]{ask}"
        if not self.told.values:
            yield from (f"  {name}: [{', '.join(map(str, each))}]" for name, each in USUAL.items())
        yield from self._default(values)
        remarks = self._remarks(values)
        yield from (f"# {remark}" for remark in remarks)

    def _default(self, values: dict[str, Any]) -> Iterator[str]:
        default = self.told.default
        if default and default.keys() >= values.keys():
            yield f"default: {{{', '.join(f'{word(n)}: {_value(default[n])}' for n in values)}}}"

    def _remarks(self, values: dict[str, Any]) -> Iterator[str]:
        count, combinations = self.told.count, 1
        for each in values.values():
            combinations *= len(each)
        if count:
            yield f"@triton.autotune lists {count} of these {combinations} combinations."
        elif count is None:
            yield "? some configurations of @triton.autotune can be told by Python alone: add their values"
        if self.told.ranked:
            yield "@triton.autotune times only those that a model ranks first; `tune --budget` limits the time instead."
        if self.told.pruned is not None:
            yield "? @triton.autotune leaves some out (prune_configs_by): say which under `restrictions:`, but those"
            yield "  that need too much shared memory or registers, which fail quickly. What leaves them out:"
            lines = self.told.pruned.splitlines()
            yield from (f"    {line}".rstrip() for line in lines[:MOST_PRUNING])
            yield from ["    ..."] if len(lines) > MOST_PRUNING else []

    def _derived(self) -> Iterator[str]:
        strides = [c.name for c in self.function.constants if _is_stride(c)]
        if self.told.heuristics or self.deduced or strides:
            yield "derived:"
        for name, text in {**self.told.heuristics, **self.deduced}.items():
            if name in self.absent.tested:
                yield f"  {word(name)}: 0  # {self.absent.tested[name]} is left out; with it under `arguments:`, 1"
                continue
            ask = "" if text else asked("its value, as @triton.heuristics computes it?")
            yield f"  {word(name)}: {word(self._in_sizes(text or '0'))}{ask}"
        for name in strides:
            told = self._constant_stride(name)
            ask = "" if told else asked("the elements from one index to the next, in terms of sizes?")
            yield f"  {word(name)}: {word(told or '1')}{ask}"

    def _constant_stride(self, name: str) -> str | None:
        """The stride of an array whose shape is told, as an expression of sizes."""
        stride = self.shapes.stride(name) if self.shapes is not None else None
        shape = self.shapes.shape(stride[0]) if self.shapes is not None and stride is not None else None
        if stride is None or shape is None or not -len(shape) <= stride[1] < len(shape):
            return None
        inner = shape[stride[1] % len(shape) + 1 :]
        return " * ".join(each if each.isidentifier() else f"({each})" for each in inner) or "1"


def _is_stride(parameter: JitParameter) -> bool:
    return parameter.name.startswith("stride") or parameter.name.endswith("stride") or "_stride_" in parameter.name


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
