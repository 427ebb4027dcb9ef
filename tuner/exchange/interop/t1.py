"""Conversion of T1 files, which describe tuning problems (https://github.com/odgaard/TuningSchema), to space files.

Kernel Tuner evaluates the expressions of a T1 file as Python. tuner converts them to expressions of a space file, and
leaves out those that it cannot convert. T1 does not say what a kernel computes, so the space file has no reference; a
comment in it says so.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tuner import paths
from tuner.errors import ExpressionError, RequestError
from tuner.exchange.interop import t1_types
from tuner.exchange.interop.t1_values import values
from tuner.exchange.interop.truths import names_of_truths, truths_differ
from tuner.languages import LANGUAGES
from tuner.quoting import plain, quoted, shown
from tuner.space import expressions
from tuner.space.dtypes import DTYPES
from tuner.space.file.schema import SpaceModel

_LANGUAGES = {language.title: name for name, language in LANGUAGES.items() if language.has_grid}
_FLOATS = {dtype.words.opencl: name for name, dtype in DTYPES.items() if dtype.kind == "real" and not dtype.foreign}
_DTYPES = _FLOATS | {name: name for name, dtype in DTYPES.items() if dtype.is_exact}
_ROLES = {"ReadOnly": "in", "WriteOnly": "out", "ReadWrite": "inout"}


def is_space(data: Any) -> bool:
    """Whether `data` is the content of a T1 file."""
    return isinstance(data, dict) and isinstance(data.get("KernelSpecification"), dict)


def write(file: Path, data: Mapping[str, Any], target: Path) -> list[str]:
    """Write the space file `target` from the T1 `data` of `file`. Returns the tasks that remain for the user.

    Raises RequestError if `data` does not describe a space, or `target` exists.
    """
    if os.path.exists(target):
        raise RequestError(f"{shown(target)}: already exists; name another file with --output")
    converter = _Converter(file, data)
    space = converter.space(target.resolve().parent)
    outputs = [a["name"] for a in space["operation"].get("arguments", []) if a.get("role", "in") != "in"]
    converter.check(space, outputs)
    todo = [f"operation.reference: write the expected output for {', '.join(outputs)}", *converter.notes]
    lines = [f"# From {file.name}, a T1 file, by `tune import`. Left to do:", *(f"# - {task}" for task in todo)]
    text = "\n".join(map(shown, lines)) + "\n" + yaml.safe_dump(space, sort_keys=False, width=110)
    paths.replace(target, text.encode())
    return todo


@dataclass
class _Converter:
    """Conversion of one T1 file. `notes` are tasks for the user, such as a restriction that was left out."""

    file: Path
    data: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for where, message in t1_types.faults(self.data):
            raise self.error(where, message)
        self.kernel: Mapping[str, Any] = self.data["KernelSpecification"]
        configuration_space = self.data.get("ConfigurationSpace")
        self.configuration_space = configuration_space if isinstance(configuration_space, dict) else {}
        self.arguments = self._entries(self.kernel, "Arguments")
        self.sizes = self._sizes()

    def error(self, where: str, message: object) -> RequestError:
        return RequestError(f"{shown(self.file)}: {shown(where)}: {plain(message)}")

    def space(self, folder: Path) -> dict[str, Any]:
        """The contents of the space file in `folder`, without the reference and without empty keys."""
        language = _LANGUAGES.get(str(self.kernel.get("Language")))
        if language is None:
            languages = " and ".join(_LANGUAGES)
            raise self.error(
                "KernelSpecification.Language", f"{quoted(self.kernel.get('Language'))}; only {languages} are supported"
            )
        general = self.data.get("General")
        name = general.get("BenchmarkName") if isinstance(general, dict) else None
        options = self._compile_options()
        space = {
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
        if truths := names_of_truths(space["parameters"]):
            self.notes.append(f"parameters: {truths_differ(truths)}")
        return {key: value for key, value in space.items() if value}

    def check(self, space: Mapping[str, Any], outputs: list[str]) -> None:
        """Raise RequestError if the space is invalid, whatever its reference will be."""
        if not outputs:
            raise self.error("KernelSpecification.Arguments", "no output; one AccessType must be WriteOnly")
        operation = {**space["operation"], "reference": dict.fromkeys(outputs, 0)}
        try:
            SpaceModel.model_validate({**space, "operation": operation})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise self.error(".".join(map(str, first["loc"])), first["msg"]) from None

    def _entries(self, section: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
        entries = section.get(name) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self.error(name, "a list of objects is expected")
        return entries

    def _sizes(self) -> dict[str, int]:
        """The extents of ProblemSize by name. An extent takes the name of a scalar argument of the same value."""
        size = self.kernel.get("ProblemSize")
        extents = size if isinstance(size, list) else [size]
        if not 1 <= len(extents) <= 3 or not all(isinstance(extent, int) and extent > 0 for extent in extents):
            raise self.error(
                "KernelSpecification.ProblemSize", f"{quoted(size)}; one to three whole numbers are needed"
            )
        scalars = {a.get("FillValue"): a.get("Name") for a in self.arguments if a.get("MemoryType") == "Scalar"}
        names: dict[str, int] = {}
        for axis, extent in zip("xyz", extents, strict=False):
            name = scalars.pop(extent, None)
            names[str(name or f"size_{axis}")] = extent
        return names

    def _operation(self) -> dict[str, Any]:
        arguments = [self._argument(a) for a in self.arguments]
        options = {
            argument["name"]: entry.get("FillValue", 0)
            for entry, argument in zip(self.arguments, arguments, strict=True)
            if "shape" not in argument and argument["name"] not in self.sizes
        }
        operation = {"sizes": self.sizes, "options": options, "extent": list(self.sizes), "arguments": arguments}
        return {key: value for key, value in operation.items() if value}

    def _argument(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        name, type_name = entry.get("Name"), str(entry.get("Type"))
        vector = re.fullmatch(r"(half|float|double)(2|4|8|16)", type_name)
        dtype, count = (_FLOATS[vector[1]], int(vector[2])) if vector else (_DTYPES.get(type_name), 1)
        memory = entry.get("MemoryType")
        if dtype is None or memory not in ("Scalar", "Vector") or (vector and memory == "Scalar"):
            raise self.error(f"Arguments {name}", f"a {quoted(memory)} of {quoted(type_name)} is not supported")
        if memory == "Scalar":
            return {"name": name, "dtype": dtype}
        role = _ROLES.get(str(entry.get("AccessType")), "out" if entry.get("Output") else "in")
        kind = {"kind": "constant"} if entry.get("MemType") == "Constant" else {}
        shape = [self._extent(name, entry.get("Size"), count)]
        return {"name": name, **kind, "dtype": dtype, "shape": shape, "role": role}

    def _extent(self, name: Any, size: Any, count: int) -> str | int:
        """The number of elements of an array of `size` vectors of `count` elements. It is a name, or a product of
        names, if it equals a size or the product of all sizes."""
        if isinstance(size, str):
            try:
                text = self._expression(size)
            except ExpressionError as error:
                raise self.error(f"Arguments {name}.Size", error) from None
            return f"({text}) * {count}" if count > 1 else text
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise self.error(f"Arguments {name}.Size", f"{quoted(size)}; a whole number from 1 on is needed")
        names = {math.prod(self.sizes.values()): " * ".join(self.sizes), **{n: name for name, n in self.sizes.items()}}
        return names.get(size * count, size * count)

    def _source(self, folder: Path) -> str:
        name, own_folder = str(self.kernel.get("KernelFile", "")), self.file.resolve().parent
        path = next((p for p in (own_folder / name, own_folder.parent / name) if os.path.isfile(p)), None)
        if path is None:
            self.notes.append(f"source: {name} does not exist; put it beside the space file, or name another file")
            return name
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)

    def _parameters(self) -> dict[str, list[Any]]:
        parameters = {}
        for entry in self._entries(self.configuration_space, "TuningParameters"):
            try:
                parameters[str(entry.get("Name"))] = values(entry.get("Values"))
            except ExpressionError as error:
                raise self.error(f"TuningParameters {entry.get('Name')}", error) from None
        return parameters

    def _default(self) -> dict[str, Any]:
        """The default of every parameter; empty if any is not among its parameter's values."""
        entries = self._entries(self.configuration_space, "TuningParameters")
        default = {str(entry.get("Name")): entry.get("Default") for entry in entries}
        return default if all(default[name] in allowed for name, allowed in self._parameters().items()) else {}

    def _restrictions(self) -> list[str]:
        restrictions = []
        for condition in self._entries(self.configuration_space, "Conditions"):
            try:
                restrictions.append(self._expression(condition.get("Expression")))
            except ExpressionError as error:
                self.notes.append(f"restrictions: one was left out, as tuner cannot express it: {error}")
        return restrictions

    def _grid(self) -> dict[str, Any]:
        """The grid divisors if there are any, as in Kernel Tuner, else the grid, from GlobalSize and LocalSize."""
        divisors = {
            axis: [self._rename(divisor) for divisor in self.kernel.get(f"GridDiv{axis.upper()}") or []]
            for axis in "xyz"[: len(self.sizes)]
        }
        if any(divisors.values()):
            return {"grid_divisors": {axis: terms for axis, terms in divisors.items() if terms}}
        grid, block = self._three("GlobalSize"), self._three("LocalSize")
        language = self.kernel.get("GlobalSizeType", self.kernel.get("Language"))
        if any(language == known.title and known.counts_threads for known in LANGUAGES.values()):
            grid = [f"ceil_div({threads}, {width})" for threads, width in zip(grid, block, strict=False)]
        return {"grid": grid}

    def _three(self, name: str) -> list[str]:
        extents = self.kernel.get(name)
        return [self._rename(extents[axis]) for axis in "XYZ" if axis in extents] if isinstance(extents, dict) else []

    def _compile_options(self) -> list[str]:
        options = [str(option) for option in self.kernel.get("CompilerOptions") or []]
        foreign = [o for o in options if o.startswith(("-std", "--std", "-I", "--include", "-include"))]
        if foreign:
            self.notes.append(f"compile_options: left out {', '.join(foreign)}")
        return [option for option in options if option not in foreign]

    def _expression(self, text: Any) -> str:
        """`text` as an expression of a space file. Raises ExpressionError."""
        return expressions.parse(self._rename(text)).text

    def _rename(self, text: Any) -> str:
        """`text` with each `ProblemSize[i]` replaced by the name of that size."""
        expression = str(text)
        for position, name in enumerate(self.sizes):
            expression = re.sub(rf"\bProblemSize\s*\[\s*{position}\s*\]", name, expression)
        return expression
