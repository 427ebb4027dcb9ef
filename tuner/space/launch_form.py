"""The launch form: a Space as JSON, which a launch reads instead of YAML, and which a worker receives."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.space import kinds, loops
from tuner.space.argument import Argument, Field
from tuner.space.computation import Operation
from tuner.space.expressions import ArrayExpression, Expression, parse
from tuner.space.expressions.computed_numbers import ComputedNumber
from tuner.space.model import Restriction, Space
from tuner.space.step import Step
from tuner.space.values.fills import Fill
from tuner.space.values.forms import (
    ConfigReference,
    ExpressionReference,
    KernelReference,
    NoReference,
    PythonReference,
    Reference,
)
from tuner.space.values.function_object import FunctionObject
from tuner.space.values.python_derivation import PythonDerivation
from tuner.space.values.python_function import PythonFunction
from tuner.space.values.tolerance import Tolerance

VERSION = 12


def to_json(space: Space, options: Mapping[str, float] | None = None) -> dict[str, Any]:
    """`space` as JSON data that `from_json` reads back.

    options: the only ones, as the kernel gets them, for which configurations will be valid by the functions of a space
        in Python.
    """
    return {
        "version": VERSION,
        "name": space.name,
        "title": space.title,
        "steps": [_step_data(step) for step in space.steps],
        "order": loops.to_json(space.order),
        "languages": list(space.languages),
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [
            [text, r.because] for r in space.restrictions for text in _conditions(space, r, options or {})
        ],
        "derived": {name: _derived_data(e) for name, e in space.derived.items()},
        "default": dict(space.default),
        "compile_options": {language: list(options) for language, options in space.compile_options.items()},
        "compiler": space.compiler,
        "returns_time": space.returns_time,
        "generated": space.generated and str(space.generated),
        "alignment": space.alignment,
        "source_note": space.source_note,
        "files": [str(file) for file in space.files],
        "include": [str(folder) for folder in space.include],
        "operation": _operation_data(space.operation),
    }


def _operation_data(op: Operation) -> dict[str, Any]:
    def texts(expressions: tuple[Expression, ...]) -> list[str]:
        return [e.text for e in expressions]

    return {
        "sizes": dict(op.sizes),
        "options": dict(op.options),
        "extent": texts(op.extent),
        "arguments": [
            [
                a.name,
                a.dtype,
                None if a.shape is None else texts(a.shape),
                a.role,
                texts(a.value),
                _fill_data(a.fill),
                a.kind and kinds.to_json(a.kind),
                a.zeroed,
                texts(a.strides),
                [_field_data(field) for field in a.fields],
                a.compared,
            ]
            for a in op.arguments
        ],
        "reference": _reference_data(op.reference),
        "tolerance": {
            name: {term: e.text for term, e in tolerance.terms.items()} for name, tolerance in op.tolerance.items()
        },
        "flops": op.flops and op.flops.text,
        "bytes": op.bytes and op.bytes.text,
        "library": op.library,
        "derive": {name: _derivation_data(e) for name, e in op.derive.items()},
        "accept": list(op.accept),
        "types": {name: list(allowed) for name, allowed in op.types.items()},
        "loop_names": sorted(op.loop_names),
        "also": op.also and _function_data(op.also),
    }


def _conditions(space: Space, restriction: Restriction, options: Mapping[str, float]) -> list[str]:
    """The text of a restriction. A function stays in its process, which alone lists configurations.

    In its place, conditions say which sizes and options it reads, and that nobody knows what it says of other options.
    """
    if not restriction.that.is_python:
        return [restriction.that.text]
    names = sorted(restriction.that.names - space.parameters.keys())
    return [f"{name} == {options.get(name, name)}" for name in names]


def with_files(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps, fills and reference in this JSON data that name a `file`."""
    operation = data["operation"]
    fills = [fill for _, _, _, _, _, fill, *_ in operation["arguments"] if fill]
    parts = (*data["steps"], operation["reference"], *fills, operation.get("also") or {})
    return [part for part in parts if part.get("file")]


def _field_data(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "dtype": field.dtype,
        "value": [e.text for e in field.value],
        "shape": list(field.shape),
        "offset": field.offset,
        "fields": [_field_data(each) for each in field.fields],
        # Not always, so that older files keep their text.
        **({"arrays": list(field.arrays)} if field.arrays else {}),
        **({"align": field.align} if field.align else {}),
    }


def _field(data: Mapping[str, Any]) -> Field:
    value, fields = tuple(map(parse, data["value"])), tuple(map(_field, data["fields"]))
    arrays = tuple(data.get("arrays", ()))
    shape, align = tuple(data["shape"]), data.get("align", 0)
    return Field(data["name"], data["dtype"], value, shape, data["offset"], fields, arrays, align)


def _step_data(step: Step) -> dict[str, Any]:
    return {
        "kernel": step.kernel,
        "file": str(step.source),
        "arguments": list(step.arguments),
        "grid": [e.text for e in step.grid],
        "block": [e.text for e in step.block],
        "shared_memory": step.shared_memory.text,
        "cluster": step.cluster and [e.text for e in step.cluster],
        "cooperative": step.cooperative,
        "programmatic": step.programmatic,
        "when": step.when and step.when.text,
    }


def _step(data: Mapping[str, Any]) -> Step:
    return Step(
        kernel=data["kernel"],
        source=Path(data["file"]),
        arguments=tuple(data["arguments"]),
        grid=_three(data["grid"]),
        block=_three(data["block"]),
        shared_memory=parse(data["shared_memory"]),
        cluster=data["cluster"] and _three(data["cluster"]),
        cooperative=data["cooperative"],
        programmatic=data.get("programmatic", False),
        when=data["when"] and parse(data["when"]),
    )


def _fill_data(fill: Fill | None) -> dict[str, Any] | None:
    if fill is None:
        return None
    if fill.function is not None:
        return {"kind": fill.kind, **_function_data(fill.function)}
    values = [value.text if isinstance(value, Expression) else value for value in fill.values]
    return {
        "kind": fill.kind,
        "values": values,
        "file": fill.file and str(fill.file),
        "tile": fill.tile,
        "drawn": fill.drawn,
    }


def _fill(data: Mapping[str, Any] | None) -> Fill | None:
    if data is None:
        return None
    if data["kind"] == "python":
        return Fill("python", function=_function(data))
    values = tuple(parse(value) if isinstance(value, str) else value for value in data["values"])
    return Fill(data["kind"], values, data["file"] and Path(data["file"]), data["tile"], drawn=data["drawn"])


def _function_data(function: PythonFunction | FunctionObject) -> dict[str, Any]:
    if isinstance(function, FunctionObject):
        about = {"place": function.place, "token": function.token, "parameters": function.parameters}
        return {"file": None, "name": function.name, **about}
    return {"file": str(function.file), "name": function.name}


def _function(data: Mapping[str, Any]) -> PythonFunction | FunctionObject:
    if data["file"] is None:
        parameters = tuple((name, kind, has_default) for name, kind, has_default in data["parameters"])
        return FunctionObject(data["name"], data["place"], data["token"], parameters)
    return PythonFunction(Path(data["file"]), data["name"])


def _derived_data(expression: Expression) -> Any:
    """A derived value. What a function computes comes with each configuration."""
    if isinstance(expression, ComputedNumber):
        return {"name": expression.text, "reads": expression.reads}
    return expression.text


def _derived(data: Any) -> Expression:
    return parse(data) if isinstance(data, str) else ComputedNumber(data["name"], tuple(data["reads"]))


def _derivation_data(expression: Expression) -> Any:
    if isinstance(expression, PythonDerivation):
        return {"text": expression.text, **_function_data(expression.function), "arrays": sorted(expression.arrays)}
    return expression.text


def _derivation(data: Any) -> Expression:
    if isinstance(data, str):
        return ArrayExpression(data)
    function = PythonFunction(Path(data["file"]), data["name"])
    return PythonDerivation(data["text"], function, frozenset(data["arrays"]))


def _reference_data(reference: Reference) -> dict[str, Any]:
    kind = {"kind": reference.kind}
    match reference:
        case ExpressionReference(outputs):
            return {**kind, "outputs": {name: e.text for name, e in outputs.items()}}
        case PythonReference(function, is_fixed):
            return {**kind, **_function_data(function), **({"is_fixed": True} if is_fixed else {})}
        case KernelReference(kernel, source, arguments, grid, block):
            extents = {"grid": [e.text for e in grid], "block": [e.text for e in block]}
            return {**kind, "kernel": kernel, "file": source and str(source), "arguments": [*arguments], **extents}
        case ConfigReference(config):
            return {**kind, "config": dict(config)}
        case NoReference():
            return {**kind}


def _reference(data: Mapping[str, Any]) -> Reference:
    match data["kind"]:
        case "expression":
            return ExpressionReference({name: ArrayExpression(text) for name, text in data["outputs"].items()})
        case "python":
            return PythonReference(_function(data), data.get("is_fixed", False))
        case "kernel":
            source = data["file"] and Path(data["file"])
            grid, block = _three(data["grid"]), _three(data["block"])
            return KernelReference(data["kernel"], source, tuple(data["arguments"]), grid, block)
        case "config":
            return ConfigReference(data["config"])
    return NoReference()


def _three(texts: list[str]) -> tuple[Expression, Expression, Expression]:
    x, y, z = (parse(text) for text in texts)
    return x, y, z


def from_json(data: Mapping[str, Any]) -> Space:
    """The Space that `to_json` wrote. Parses, and so checks, every expression again."""
    return Space(
        name=data["name"],
        title=data["title"],
        operation=_operation(data["operation"]),
        steps=tuple(_step(step) for step in data["steps"]),
        languages=tuple(data["languages"]),
        parameters={name: tuple(values) for name, values in data["parameters"].items()},
        restrictions=tuple(Restriction(parse(that), because) for that, because in data["restrictions"]),
        derived={name: _derived(each) for name, each in data["derived"].items()},
        default=data["default"],
        compile_options={language: tuple(options) for language, options in data["compile_options"].items()},
        compiler=data["compiler"],
        returns_time=data["returns_time"],
        generated=data["generated"] and Path(data["generated"]),
        alignment=data["alignment"],
        source_note=data["source_note"],
        files=tuple(Path(file) for file in data["files"]),
        include=tuple(Path(folder) for folder in data["include"]),
        order=loops.from_json(data["order"]),
    )


def _operation(op: Mapping[str, Any]) -> Operation:
    def expressions(texts: list[str]) -> tuple[Expression, ...]:
        return tuple(parse(text) for text in texts)

    def optional(text: str | None) -> Expression | None:
        return None if text is None else parse(text)

    return Operation(
        sizes=op["sizes"],
        options=op["options"],
        extent=expressions(op["extent"]),
        arguments=tuple(
            Argument(
                name,
                dtype,
                None if shape is None else expressions(shape),
                role,
                expressions(value),
                _fill(fill),
                kind and kinds.from_json(kind),
                zeroed,
                expressions(strides),
                tuple(map(_field, fields)),
                compared,
            )
            for name, dtype, shape, role, value, fill, kind, zeroed, strides, fields, compared in op["arguments"]
        ),
        reference=_reference(op["reference"]),
        tolerance={
            name: Tolerance(**{term: parse(text) for term, text in terms.items()})
            for name, terms in op["tolerance"].items()
        },
        flops=optional(op["flops"]),
        bytes=optional(op["bytes"]),
        library=op["library"],
        derive={name: _derivation(data) for name, data in op["derive"].items()},
        accept=tuple(op["accept"]),
        types={name: tuple(allowed) for name, allowed in op["types"].items()},
        loop_names=frozenset(op["loop_names"]),
        also=PythonFunction(Path(op["also"]["file"]), op["also"]["name"]) if op.get("also") else None,
    )
