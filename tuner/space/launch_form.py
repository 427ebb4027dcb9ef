"""A Space as JSON: a launch reads it instead of YAML, and a worker receives it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.space.expressions import ArrayExpression, Expression, parse
from tuner.space.fills import Fill
from tuner.space.model import Argument, Operation, Restriction, Space

VERSION = 6


def to_json(space: Space) -> dict[str, Any]:
    """`space` as JSON data that `from_json` reads back."""
    op = space.operation

    def texts(expressions: tuple[Expression, ...]) -> list[str]:
        return [e.text for e in expressions]

    return {
        "version": VERSION,
        "name": space.name,
        "title": space.title,
        "kernel": space.kernel,
        "source": str(space.source),
        "languages": list(space.languages),
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [[r.that.text, r.because] for r in space.restrictions],
        "derived": {name: e.text for name, e in space.derived.items()},
        "grid": texts(space.grid),
        "block": texts(space.block),
        "shared_memory": space.shared_memory.text,
        "default": dict(space.default),
        "compile_options": {language: list(options) for language, options in space.compile_options.items()},
        "alignment": space.alignment,
        "source_note": space.source_note,
        "files": [str(file) for file in space.files],
        "include": [str(folder) for folder in space.include],
        "operation": {
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
                ]
                for a in op.arguments
            ],
            "reference": {name: e.text for name, e in op.reference.items()},
            "tolerance": op.tolerance and op.tolerance.text,
            "flops": op.flops and op.flops.text,
            "bytes": op.bytes and op.bytes.text,
            "library": op.library,
            "types": {name: list(allowed) for name, allowed in op.types.items()},
        },
    }


def fills_from_files(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fills in this JSON data that name a file."""
    return [fill for *_, fill in data["operation"]["arguments"] if fill and fill["file"]]


def _fill_data(fill: Fill | None) -> dict[str, Any] | None:
    if fill is None:
        return None
    return {"kind": fill.kind, "values": fill.values, "file": fill.file and str(fill.file), "tile": fill.tile}


def _fill(data: Mapping[str, Any] | None) -> Fill | None:
    if data is None:
        return None
    return Fill(data["kind"], tuple(data["values"]), data["file"] and Path(data["file"]), data["tile"])


def from_json(data: Mapping[str, Any]) -> Space:
    """The Space that `to_json` wrote. Every expression is checked again."""
    op = data["operation"]

    def expressions(texts: list[str]) -> tuple[Expression, ...]:
        return tuple(parse(text) for text in texts)

    def three(texts: list[str]) -> tuple[Expression, Expression, Expression]:
        x, y, z = expressions(texts)
        return x, y, z

    def optional(text: str | None) -> Expression | None:
        return None if text is None else parse(text)

    operation = Operation(
        sizes=op["sizes"],
        options=op["options"],
        extent=expressions(op["extent"]),
        arguments=tuple(
            Argument(name, dtype, None if shape is None else expressions(shape), role, expressions(value), _fill(fill))
            for name, dtype, shape, role, value, fill in op["arguments"]
        ),
        reference={name: ArrayExpression(text) for name, text in op["reference"].items()},
        tolerance=optional(op["tolerance"]),
        flops=optional(op["flops"]),
        bytes=optional(op["bytes"]),
        library=op["library"],
        types={name: tuple(allowed) for name, allowed in op["types"].items()},
    )
    return Space(
        name=data["name"],
        title=data["title"],
        operation=operation,
        kernel=data["kernel"],
        source=Path(data["source"]),
        languages=tuple(data["languages"]),
        parameters={name: tuple(values) for name, values in data["parameters"].items()},
        restrictions=tuple(Restriction(parse(that), because) for that, because in data["restrictions"]),
        derived={name: parse(text) for name, text in data["derived"].items()},
        grid=three(data["grid"]),
        block=three(data["block"]),
        shared_memory=parse(data["shared_memory"]),
        default=data["default"],
        compile_options={language: tuple(options) for language, options in data["compile_options"].items()},
        alignment=data["alignment"],
        source_note=data["source_note"],
        files=tuple(Path(file) for file in data["files"]),
        include=tuple(Path(folder) for folder in data["include"]),
    )
