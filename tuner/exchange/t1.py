"""T1 files, which describe a tuning problem (https://github.com/odgaard/TuningSchema), to space files.

T1 is written for Kernel Tuner, which evaluates what stands in it as Python. Here only what our own expressions allow is
taken over. T1 does not say what a kernel computes, so the space file lacks the reference, and says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tuner import paths
from tuner.errors import ExpressionError, RequestError
from tuner.exchange.t1_values import values
from tuner.languages import LANGUAGES
from tuner.space import expressions
from tuner.space.schema import SpaceModel

_LANGUAGES = {language.title: name for name, language in LANGUAGES.items() if language.has_grid}
_FLOATS = {"half": "float16", "float": "float32", "double": "float64"}
_DTYPES = _FLOATS | {name: name for name in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")}
_ROLES = {"ReadOnly": "in", "WriteOnly": "out", "ReadWrite": "inout"}


def is_space(data: Any) -> bool:
    """Whether it looks like a T1 file."""
    return isinstance(data, dict) and isinstance(data.get("KernelSpecification"), dict)


def write(file: Path, data: Mapping[str, Any], target: Path) -> list[str]:
    """Write the space file `target` of the T1 `data` in `file`; what is left to do by hand.

    Raises RequestError where it cannot be made, and for a `target` that is there already.
    """
    if target.exists():
        raise RequestError(f"{paths.shown(target)}: is there already; name another file by --output")
    converter = _Converter(file, data)
    space = converter.space(target.resolve().parent)
    outputs = [a["name"] for a in space["operation"].get("arguments", []) if a.get("role", "in") != "in"]
    converter.check(space, outputs)
    todo = [f"operation.reference: write the right answer for {', '.join(outputs)}", *converter.notes]
    lines = [f"# From {file.name}, a T1 file, by `tune import`. Left to do:", *(f"# - {note}" for note in todo)]
    text = "\n".join(map(paths.shown, lines)) + "\n" + yaml.safe_dump(space, sort_keys=False, width=110)
    paths.replace(target, text.encode())
    return todo


@dataclass
class _Converter:
    """One T1 file; `notes` tell what could not be taken over."""

    file: Path
    data: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kernel: Mapping[str, Any] = self.data["KernelSpecification"]
        declared = self.data.get("ConfigurationSpace")
        self.declared: Mapping[str, Any] = declared if isinstance(declared, dict) else {}
        self.arguments = self._entries(self.kernel, "Arguments")
        self.sizes = self._sizes()

    def error(self, where: str, message: object) -> RequestError:
        return RequestError(paths.shown(f"{self.file}: {where}: {message}"))

    def space(self, folder: Path) -> dict[str, Any]:
        """The keys of the space file that is to lie in `folder`, without the reference and what would be empty."""
        language = _LANGUAGES.get(str(self.kernel.get("Language")))
        if language is None:
            raise self.error(
                "KernelSpecification.Language", f"{self.kernel.get('Language')!r}; {' and '.join(_LANGUAGES)} are read"
            )
        general = self.data.get("General")
        name = general.get("BenchmarkName") if isinstance(general, dict) else None
        options = self._compile_options()
        made = {
            "title": str(name or self.kernel.get("KernelName"))[:200],
            "operation": self._operation(),
            "kernel": self.kernel.get("KernelName"),
            "source": self._source(folder),
            "languages": [language],
            "parameters": self._parameters(),
            "restrictions": self._restrictions(),
            **self._grid(),
            "block": self._three("LocalSize"),
            "shared_memory": self.kernel.get("SharedMemory"),
            "default": self._default(),
            "compile_options": {language: options} if options else None,
        }
        return {key: value for key, value in made.items() if value}

    def check(self, space: Mapping[str, Any], outputs: list[str]) -> None:
        """Raise RequestError where the space would not be read, whatever its reference is."""
        if not outputs:
            raise self.error("KernelSpecification.Arguments", "none is written to; one AccessType must be WriteOnly")
        operation = {**space["operation"], "reference": dict.fromkeys(outputs, 0)}
        try:
            SpaceModel.model_validate({**space, "operation": operation})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise self.error(".".join(map(str, first["loc"])), first["msg"]) from None

    def _entries(self, section: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
        given = section.get(name) or []
        if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
            raise self.error(name, "a list of objects is expected")
        return given

    def _sizes(self) -> dict[str, int]:
        """The extents of ProblemSize; a scalar argument of the same value gives one its name."""
        given = self.kernel.get("ProblemSize")
        extents = given if isinstance(given, list) else [given]
        if not 1 <= len(extents) <= 3 or not all(isinstance(extent, int) and extent > 0 for extent in extents):
            raise self.error("KernelSpecification.ProblemSize", f"{given!r}; one to three whole numbers are needed")
        scalars = {a.get("FillValue"): a.get("Name") for a in self.arguments if a.get("MemoryType") == "Scalar"}
        names: dict[str, int] = {}
        for axis, extent in zip("xyz", extents, strict=False):
            name = scalars.pop(extent, None)
            names[str(name or f"size_{axis}")] = extent
        return names

    def _operation(self) -> dict[str, Any]:
        arguments = [self._argument(a) for a in self.arguments]
        scalars = [(given, made) for given, made in zip(self.arguments, arguments, strict=True) if "shape" not in made]
        options = {made["name"]: given.get("FillValue", 0) for given, made in scalars if made["name"] not in self.sizes}
        made = {"sizes": self.sizes, "options": options, "extent": list(self.sizes), "arguments": arguments}
        return {key: value for key, value in made.items() if value}

    def _argument(self, given: Mapping[str, Any]) -> dict[str, Any]:
        name, kind = given.get("Name"), str(given.get("Type"))
        vector = re.fullmatch(r"(half|float|double)(2|4|8|16)", kind)
        dtype, count = (_FLOATS[vector[1]], int(vector[2])) if vector else (_DTYPES.get(kind), 1)
        memory = given.get("MemoryType")
        if dtype is None or memory not in ("Scalar", "Vector") or (vector and memory == "Scalar"):
            raise self.error(f"Arguments {name}", f"a {memory} of {kind} is not read")
        if memory == "Scalar":
            return {"name": name, "dtype": dtype}
        if given.get("MemType") == "Constant":
            self.notes.append(f"arguments: {name} lies in constant memory; make it an argument of the kernel")
        role = _ROLES.get(str(given.get("AccessType")), "out" if given.get("Output") else "in")
        return {"name": name, "dtype": dtype, "shape": [self._extent(name, given.get("Size"), count)], "role": role}

    def _extent(self, name: Any, size: Any, count: int) -> str | int:
        """Elements of an array: an expression of the sizes where it is one, or plainly one of them or their product."""
        if isinstance(size, str):
            try:
                text = self._expression(size)
            except ExpressionError as error:
                raise self.error(f"Arguments {name}.Size", error) from None
            return f"({text}) * {count}" if count > 1 else text
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise self.error(f"Arguments {name}.Size", f"{size!r}; a whole number from 1 on is needed")
        plain = {math.prod(self.sizes.values()): " * ".join(self.sizes), **{n: name for name, n in self.sizes.items()}}
        return plain.get(size * count, size * count)

    def _source(self, folder: Path) -> str:
        name, beside = str(self.kernel.get("KernelFile", "")), self.file.resolve().parent
        found = next((p for p in (beside / name, beside.parent / name) if p.is_file()), None)
        if found is None:
            self.notes.append(f"source: {name} is not there; put it beside the space file, or name another")
            return name
        return str(found.relative_to(folder) if found.is_relative_to(folder) else found)

    def _parameters(self) -> dict[str, list[Any]]:
        found = {}
        for parameter in self._entries(self.declared, "TuningParameters"):
            try:
                found[str(parameter.get("Name"))] = values(parameter.get("Values"))
            except ExpressionError as error:
                raise self.error(f"TuningParameters {parameter.get('Name')}", error) from None
        return found

    def _default(self) -> dict[str, Any]:
        parameters = self._parameters()
        given = {str(p.get("Name")): p.get("Default") for p in self._entries(self.declared, "TuningParameters")}
        return given if all(given[name] in allowed for name, allowed in parameters.items()) else {}

    def _restrictions(self) -> list[str]:
        kept = []
        for condition in self._entries(self.declared, "Conditions"):
            try:
                kept.append(self._expression(condition.get("Expression")))
            except ExpressionError as error:
                self.notes.append(f"restrictions: left out, since it is no expression of ours: {error}")
        return kept

    def _grid(self) -> dict[str, Any]:
        """Grid divisors, which Kernel Tuner goes by where they are there, else the global size."""
        divisors = {
            axis: [self._named(divisor) for divisor in self.kernel.get(f"GridDiv{axis.upper()}") or []]
            for axis in "xyz"[: len(self.sizes)]
        }
        if any(divisors.values()):
            return {"grid_divisors": {axis: given for axis, given in divisors.items() if given}}
        grid, block = self._three("GlobalSize"), self._three("LocalSize")
        if self.kernel.get("GlobalSizeType", self.kernel.get("Language")) == "OpenCL":  # threads, not blocks
            grid = [f"ceil_div({threads}, {width})" for threads, width in zip(grid, block, strict=False)]
        return {"grid": grid}

    def _three(self, name: str) -> list[str]:
        given = self.kernel.get(name)
        return [self._named(given[axis]) for axis in "XYZ" if axis in given] if isinstance(given, dict) else []

    def _compile_options(self) -> list[str]:
        given = [str(option) for option in self.kernel.get("CompilerOptions") or []]
        left_out = [o for o in given if o.startswith(("-std", "--std", "-I", "--include", "-include"))]
        if left_out:
            self.notes.append(f"compile_options: left out {', '.join(left_out)}")
        return [option for option in given if option not in left_out]

    def _expression(self, text: Any) -> str:
        """An expression of ours. Raises ExpressionError."""
        return expressions.parse(self._named(text)).text

    def _named(self, text: Any) -> str:
        """`text` with our names for ProblemSize[0] and so on."""
        named = str(text)
        for position, name in enumerate(self.sizes):
            named = re.sub(rf"\bProblemSize\s*\[\s*{position}\s*\]", name, named)
        return named
