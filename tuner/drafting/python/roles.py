"""What each parameter of a kernel in a Python file is: an array, a size, a stride, an option, a type, or computed."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from tuner.classes import cached_property
from tuner.drafting.python import configs, launches, usage
from tuner.drafting.python.config_lists import OPTIONS
from tuner.drafting.python.definitions import PythonDefinitions
from tuner.drafting.python.host_shapes import HostShapes
from tuner.drafting.python.inlining import inlined
from tuner.drafting.python.likely_extents import LikelyExtents
from tuner.drafting.python.pointers import Pointers
from tuner.drafting.python.syntax import filled
from tuner.space.jit.absence import absent
from tuner.space.jit.function import JitFunction, JitParameter

MOST_NESTED = 4  # computed numbers in computed numbers


class Roles:
    """The roles of the parameters of a kernel, as its text, its decorators and its first launch tell them."""

    def __init__(self, function: JitFunction, tree: ast.Module, file: Path) -> None:
        """`tree` is the content of the function's file."""
        self.function = function
        definitions = PythonDefinitions(tree, file)
        self.node = inlined(function.node, definitions)
        self.pointers = Pointers(self.node, [each.name for each in function.arguments])
        self.told = configs.of(function.node, tree, definitions)
        self.texts, self.cases = usage.texts(self.node), usage.cases(self.node)
        self.launch = launches.of(tree, function.name, [p.name for p in function.parameters], file)
        self.absent = absent(function.node)
        self.grid = launches.PythonGrid(self.launch, self.absent.all) if self.launch is not None else None
        self.shapes = HostShapes(self.launch, self.arrays, self.grid) if self.launch and self.grid else None

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
        real = usage.real(self.node)
        numbers = [p.name for p in self.scalars if p.name not in self.computed and p.name not in real]
        bounding = usage.compared(self.node) | usage.divisors(self.node)
        if self.shapes is not None:
            bounding |= {n for n in numbers if self.shapes.is_extent(n)}
        bounding |= self.pointers.addressing - self.strides
        found = [n for n in numbers if (n in self.told.key or n in bounding) and not n.startswith("stride")]
        found += self._constant_sizes(bounding)
        parameters = {p.name for p in self.function.parameters}
        others = [] if self.shapes is None else [n for n in dict.fromkeys(self.shapes.names()) if n not in parameters]
        return [*found, *others] or ["n"]

    @cached_property
    def strides(self) -> set[str]:
        """The numbers that are strides: by their names, or because indices are multiplied by them."""
        factors = self.pointers.factors.keys() - usage.compared(self.node) - usage.divisors(self.node)
        real = {p.name for p in self.scalars if self.launch is not None and self.launch.real(p.name) is not None}
        return {p.name for p in self.scalars if is_stride(p) or p.name in factors - real - {*self.told.key}}

    @cached_property
    def unread(self) -> set[str]:
        """The parameters that the kernel does not read, and of which nothing is known."""
        passed = {*self.launch.passed} if self.launch is not None else set[str]()
        constants = {c.name for c in self.function.constants if not c.has_default} - passed
        known = {*self.sizes, *self.computed, *self.deduced, *self.told.values, *self.told.heuristics, *self.strides}
        read = {n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        return {*(p.name for p in self.scalars), *constants} - read - known

    @cached_property
    def likely_strides(self) -> dict[str, tuple[str, int]]:
        """The array and the likely axis of the strides of arrays of which the host tells no stride."""
        told = {} if self.shapes is None else {p.name: self.shapes.stride(p.name) for p in self.scalars}
        known = {stride[0] for stride in told.values() if stride is not None}
        found: dict[str, tuple[str, int]] = {}
        for name in (p.name for p in self.scalars if p.name in self.strides):
            array = self.pointers.factors.get(name)
            if array in self.arrays and array not in known:
                found[name] = array, sum(array == other for other, _ in found.values())
        return found

    @cached_property
    def kinds(self) -> list[str]:
        """The constants that are types: `x.to(KIND)`."""
        used = usage.types(self.node)
        return [c.name for c in self.function.constants if c.name in used and not c.has_default]

    @cached_property
    def likely_extents(self) -> LikelyExtents:
        """The extents of arrays, as addresses tell them."""
        told = {p.name: self.shapes.stride(p.name) for p in self.function.parameters} if self.shapes else {}
        known = {name: stride for name, stride in told.items() if stride is not None}
        return LikelyExtents(self.node, self.sizes, self.likely_strides | known)

    def _constant_sizes(self, bounding: set[str]) -> list[str]:
        """The constants that are sizes."""
        chosen = {*self.told.values, *self.told.heuristics, *self.deduced}
        constants = [c.name for c in self.function.constants if c.name not in chosen and not is_stride(c)]
        flags, bounding = usage.conditions(self.node), bounding & usage.bounds(self.node)
        whole = (usage.divisors(self.node) | self.pointers.addressing) - usage.extents(self.node)
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
        return self._computed({p.name for p in self.scalars if not is_stride(p)} - in_shapes)

    def literal(self, name: str) -> Any:
        """The literal that the launch passes for a parameter, also by a variable; None if it passes anything else."""
        if self.launch is None or self.grid is None or name not in self.launch.passed:
            return None
        value = self.grid.value(self.launch.passed[name])
        return value.value if isinstance(value, ast.Constant) else self.launch.literal(name)

    def _computed(self, names: set[str]) -> dict[str, str]:
        if self.launch is None or self.grid is None:
            return {}
        found = {name: self.grid.computed(name) for name in self.launch.passed if name in names}
        return {name: text for name, text in found.items() if text is not None and " is " not in text}

    def in_sizes(self, text: str) -> str:
        """An expression with the values of computed numbers in the place of their names."""
        values = {name: ast.parse(value, mode="eval").body for name, value in self.computed.items()}
        expression = ast.parse(text, mode="eval").body
        for _ in range(MOST_NESTED):
            expression = filled(expression, values)
        return ast.unparse(expression)

    @cached_property
    def options(self) -> list[JitParameter]:
        """The numbers that are real: `eps`, `alpha`, and constants that are neither extents nor conditions."""
        function, others = self.node, {*self.sizes, *self.computed}
        chosen = {*self.told.values, *self.told.heuristics, *self.deduced, *self.kinds, *others, *self.texts}
        chosen |= usage.conditions(function) | usage.extents(function) | usage.stages(function) | self.unread
        chosen |= self.cases.keys() | {*OPTIONS}
        reals = [c for c in self.function.constants if c.name not in chosen and not is_stride(c) and not c.has_default]
        return [*(p for p in self.scalars if p.name not in {*others, *self.strides, *self.unread}), *reals]


def is_stride(parameter: JitParameter) -> bool:
    """Whether a parameter is a stride by its name."""
    return parameter.name.startswith("stride") or parameter.name.endswith("stride") or "_stride_" in parameter.name
