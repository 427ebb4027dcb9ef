"""YAML -> Space: what a file says is validated by `tuner.schema`, then checked key against key, and frozen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tuner.errors import ExpressionError, SpaceError
from tuner.languages import LANGUAGES
from tuner.space import expressions, yamlfile
from tuner.space.expressions import Expression
from tuner.space.model import Argument, Operation, Restriction, Space, Value
from tuner.space.routines import ROUTINES
from tuner.space.schema import ArgumentModel, DivisorsModel, OperationModel, SpaceModel
from tuner.space.source import without_comments
from tuner.space.validation import validated
from tuner.space.yamlfile import Document, Where

DEVICE_NAMES = (
    "language",
    "compute_capability",
    "warp_size",
    "max_threads",
    "max_shared_memory",
    *(f"max_{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
)


def read(path: Path, name: str | None = None) -> Space:
    """The Space in `path`. SpaceError, with file, line and key, for anything wrong with it."""
    document = yamlfile.read(path)
    if "parameters" not in document.data and "arguments" in document.data:
        raise SpaceError(f"{path}: describes an operation, not a space: it has no `parameters:`")
    shared = document
    if isinstance(document.data.get("operation"), str):
        shared = yamlfile.read(path.parent / document.data["operation"])
        validated(OperationModel, shared)
        document.data["operation"] = shared.data
    model = validated(SpaceModel, document)
    return _Builder(document, shared, model, name or f"{path.resolve().parent.name}/{path.stem}").space()


class _Builder:
    """Checks what one key says against the others, and makes the frozen Space."""

    def __init__(self, document: Document, shared: Document, model: SpaceModel, name: str) -> None:
        self.document, self.shared, self.model, self.name = document, shared, model, name
        op = model.operation
        self.scope: set[str] = {*op.sizes, *op.options, *DEVICE_NAMES}
        self.knobs = {*self.scope, *model.parameters}

    def space(self) -> Space:
        model = self.model
        self._parameters()
        operation = self._operation()
        derived: dict[str, Expression] = {}
        for name, expression in model.derived.items():
            if name in self.knobs:
                raise self.document.error(("derived", name), "this name is taken by a parameter, size or option")
            self._names(self.document, ("derived", name), expression, self.knobs)
            self.knobs.add(name)
            derived[name] = expression
        block, grid = self._three("block", model.block), self._grid(operation)
        self._names(self.document, ("shared_memory",), model.shared_memory, self.knobs)
        return Space(
            name=self.name,
            title=model.title,
            operation=operation,
            kernel=model.kernel,
            source=self._source(),
            languages=tuple(model.languages),
            parameters={name: tuple(values) for name, values in model.parameters.items()},
            restrictions=self._restrictions(block, grid),
            derived=derived,
            grid=grid,
            block=block,
            shared_memory=model.shared_memory,
            default=self._default(),
            compile_options={language: tuple(options) for language, options in model.compile_options.items()},
            alignment=model.alignment,
            source_note=model.source_note,
            files=tuple(dict.fromkeys(d.path.resolve() for d in (self.document, self.shared))),
        )

    def _names(self, document: Document, where: Where, expression: Expression, known: Iterable[str]) -> None:
        for name in sorted(expression.names - set(known)):
            raise document.error(where, f"`{expression.text}`: {expressions.unknown_name(name, known)}")
        if where[-1] != "reference" and expressions.multiplies_matrices(expression):
            raise document.error(where, f"`{expression.text}`: @ is for the arrays of a reference")
        try:
            expressions.check_constants(expression)
        except ExpressionError as error:
            raise document.error(where, str(error)) from None

    def _parameters(self) -> None:
        for name, values in self.model.parameters.items():
            if name in self.scope or name in expressions.FUNCTIONS:
                raise self.document.error(("parameters", name), "this name is taken; choose another")
            seen: set[Value] = set()
            for position, value in enumerate(values):
                if value in seen:  # 1, 1.0 and true are one value here
                    raise self.document.error(("parameters", name, position), f"{value!r} stands twice; keep one")
                seen.add(value)

    def _operation(self) -> Operation:
        model, op, shared = self.model, self.model.operation, self.shared
        prefix: Where = () if shared is not self.document else ("operation",)
        for name in {*op.sizes, *op.options} & {
            *DEVICE_NAMES,
            *expressions.FUNCTIONS,
        } | op.sizes.keys() & op.options.keys():
            where = "sizes" if name in op.sizes else "options"
            raise shared.error((*prefix, where, name), "this name is taken; choose another")
        for name, size in op.sizes.items():
            if size is not None and size < 1:
                raise shared.error((*prefix, "sizes", name), f"{size}: a size is at least 1")
        own = model.arguments is not None
        document, place = (self.document, ("arguments",)) if own else (shared, (*prefix, "arguments"))
        arguments = tuple(self._argument(document, place, i, a) for i, a in enumerate(model.arguments or op.arguments))
        for position, argument in enumerate(arguments):
            if argument.name in {a.name for a in arguments[:position]}:
                raise document.error((*place, position), f"{argument.name}: two arguments of this name; rename one")
        arrays = {a.name: a for a in arguments if a.shape is not None}
        outputs = [a.name for a in arrays.values() if a.role != "in"]
        given: Any = op.reference
        reference: dict[str, Expression] = given if isinstance(given, dict) else dict.fromkeys(outputs[:1], given)
        if set(reference) != set(outputs) or not outputs:
            raise shared.error((*prefix, "reference"), f"one is needed for each output: {', '.join(outputs) or 'none'}")
        for expression in reference.values():
            self._names(shared, (*prefix, "reference"), expression, {*self.scope, *arrays})
        if op.library is not None:
            missing = set(ROUTINES[op.library]) - {*op.sizes, *op.options, *arrays}
            if missing:
                raise shared.error((*prefix, "library"), f"{op.library} also needs {', '.join(sorted(missing))}")
        for key in ("tolerance", "flops", "bytes"):
            if (counted := getattr(op, key)) is not None:
                self._names(
                    shared, (*prefix, key), counted, {*self.scope, "epsilon"} if key == "tolerance" else self.scope
                )
        extent = tuple(model.extent or op.extent)
        for expression in extent:
            self._names(self.document, ("extent",), expression, self.scope)
        return Operation(
            sizes=op.sizes,
            options=op.options,
            extent=extent,
            arguments=arguments,
            reference=reference,
            tolerance=op.tolerance,
            flops=op.flops,
            bytes=op.bytes,
            library=op.library,
        )

    def _argument(self, document: Document, place: Where, position: int, model: ArgumentModel) -> Argument:
        where = (*place, position)
        if (model.shape is None) != (model.role is None):
            raise document.error(where, f"{model.name}: an array has both `shape` and `role`, a scalar neither")
        value: list[Expression] = model.value or []
        options = self.model.operation.options
        if model.shape is None and (model.name in {*self.model.operation.sizes, *options}) == bool(value):
            raise document.error(
                where, f"{model.name}: a scalar has the name of a size or option, whose value it takes, or a `value`"
            )
        if model.shape is not None and model.name in self.scope:
            raise document.error(where, f"{model.name}: this name is taken by a size or option")
        for extent in model.shape or []:
            self._names(document, (*where, "shape"), extent, self.scope)
        # Arrays are made once, for all options that a launch may have.
        known = self.scope if model.shape is None else self.scope - options.keys()
        for expression in value:
            self._names(document, (*where, "value"), expression, known)
        if model.value is not None:
            needed = [extent.text for extent in model.shape or []]
            if model.role not in ("in", None):
                raise document.error((*where, "role"), f"{model.role!r}: {model.name} has a `value`; write `in`")
            if not all(text.isdecimal() for text in needed) or math.prod(map(int, needed)) != len(value):
                kind = f"of shape [{', '.join(needed)}]" if needed else "a scalar"
                raise document.error(
                    (*where, "value"),
                    f"{len(value)} values; {model.name} is {kind}: write one for each element, the shape in numbers",
                )
        return Argument(
            model.name, model.dtype, None if model.shape is None else tuple(model.shape), model.role, tuple(value)
        )

    def _three(self, key: str, given: list[Expression]) -> tuple[Expression, Expression, Expression]:
        """x, y and z; those that are not given are 1."""
        for position, expression in enumerate(given):
            self._names(self.document, (key, position), expression, self.knobs)
        x, y, z = (*given, *[expressions.parse(1)] * (3 - len(given)))
        return x, y, z

    def _grid(self, operation: Operation) -> tuple[Expression, Expression, Expression]:
        model = self.model
        if model.grid is not None and model.grid_divisors is not None:
            raise self.document.error(("grid",), "both `grid` and `grid_divisors`; keep one")
        if model.grid is not None:
            return self._three("grid", model.grid)
        divisors = model.grid_divisors or DivisorsModel()
        made: list[Expression] = []
        for axis, extent in zip("xyz", operation.extent, strict=False):
            factors: list[Expression] = getattr(divisors, axis)
            for position, factor in enumerate(factors):
                self._names(self.document, ("grid_divisors", axis, position), factor, self.knobs)
            product = " * ".join(f"({factor.text})" for factor in factors) or "1"
            made.append(expressions.parse(f"ceil_div({extent.text}, {product})"))
        return self._three("grid", made)

    def _restrictions(self, block: tuple[Expression, ...], grid: tuple[Expression, ...]) -> tuple[Restriction, ...]:
        """The file's restrictions, and those that every space has."""
        model = self.model
        made: list[Restriction] = []
        for position, restriction in enumerate(model.restrictions):
            self._names(self.document, ("restrictions", position), restriction.that, self.knobs)
            made.append(Restriction(restriction.that, restriction.because))
        if model.requires is not None:
            elsewhere = " and ".join(f"language != {n!r}" for n, one in LANGUAGES.items() if one.has_compute_capability)
            that = f"{elsewhere} or compute_capability {model.requires.compute_capability}"
            made.append(Restriction(expressions.parse(that), "the stage requires it"))
        threads = " * ".join(f"({e.text})" for e in block if e.text != "1")
        if threads:
            made.append(Restriction(expressions.parse(f"{threads} <= max_threads"), "the device's threads a block"))
        for what, extents in (("block", block), ("grid", grid)):
            unit = "threads a block" if what == "block" else "blocks"
            for axis, extent in zip("xyz", extents, strict=True):
                if extent.text != "1":
                    that = f"({extent.text}) <= max_{what}_{axis}"
                    made.append(Restriction(expressions.parse(that), f"the device's {unit} in {axis}"))
        if model.shared_memory.text != "0":
            that = f"({model.shared_memory.text}) <= max_shared_memory"
            made.append(Restriction(expressions.parse(that), "the device's shared memory a block"))
            others = " and ".join(f"language != {n!r}" for n, one in LANGUAGES.items() if not one.dynamic_shared_memory)
            that = f"({model.shared_memory.text}) == 0 or {others}"
            made.append(Restriction(expressions.parse(that), "dynamic shared memory is CUDA's"))
        return tuple(made)

    def _default(self) -> dict[str, Value]:
        """The default, which names every parameter or is absent."""
        model = self.model
        for name, value in model.default.items():
            if name not in model.parameters:
                raise self.document.error(("default", name), expressions.unknown_name(name, model.parameters))
            if value not in model.parameters[name]:
                raise self.document.error(
                    ("default", name), f"{value!r} is not a declared value; allowed: {model.parameters[name]}"
                )
        missing = [name for name in model.parameters if name not in model.default]
        if model.default and missing:
            raise self.document.error(("default",), f"no value for {', '.join(missing)}")
        return dict(model.default)

    def _source(self) -> Path:
        """The kernel file: `source:`, or the file of the same stem in kernels/ or beside the YAML."""
        path, model = self.document.path.resolve(), self.model
        suffixes = dict.fromkeys(suffix for name in model.languages for suffix in LANGUAGES[name].suffixes)
        if model.source is not None:
            candidates = [path.parent / model.source]
        else:
            kernels = path.parent.parent.parent / "kernels" / path.parent.name
            candidates = [folder / f"{path.stem}{s}" for folder in (path.parent, kernels) for s in suffixes]
        source = next((c for c in candidates if c.is_file()), None)
        if source is None:
            looked = " or ".join(str(c) for c in candidates)
            raise self.document.error(("source",), f"the kernel file is missing: {looked}; write it, or name another")
        text = without_comments(source.read_text(encoding="utf-8", errors="replace"))
        if not re.search(rf"\b{re.escape(model.kernel)}\s*\(", text):
            defined = sorted(set(re.findall(r"\bvoid\s+(\w+)\s*\(", text)))
            there = f"; it defines {', '.join(defined)}" if defined else ""
            raise self.document.error(("kernel",), f"{source} has no entry point {model.kernel!r}{there}")
        return source
