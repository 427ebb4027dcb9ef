"""Reads `reference:` of a space file, and checks its keys against those of the operation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tuner.classes import dataclass
from tuner.languages import LANGUAGES
from tuner.quoting import quoted, shown
from tuner.space import expressions
from tuner.space.argument import Argument
from tuner.space.computation import taken
from tuner.space.expressions import Expression, braces
from tuner.space.file.comparison_reader import Compared
from tuner.space.file.name_check import check_config, check_names, check_passed
from tuner.space.file.schema import SpaceModel
from tuner.space.file.yamlfile import Document, Where
from tuner.space.values import python_function
from tuner.space.values.forms import (
    ConfigReference,
    ExpressionReference,
    Extents,
    KernelReference,
    NoReference,
    PythonReference,
    Reference,
)
from tuner.space.values.function_object import FunctionObject

FORMS = {
    "python": {"python"},
    "kernel": {"kernel", "source", "arguments", "grid", "block"},
    "config": {"config"},
}


EXTENTS = "write one to three numbers or expressions over sizes: x, y, z"


@dataclass(frozen=True)
class ReferenceReader:
    """Reads the reference at key `where` of `document`.

    model: the space that it belongs to.
    names: names that expressions may use: sizes, options and device properties.
    types: names that braces in a kernel's name may contain.
    languages: the languages of the kernel.
    compared: the names that need a reference.
    """

    document: Document
    where: Where
    model: SpaceModel
    arguments: tuple[Argument, ...]
    names: Collection[str]
    types: Collection[str]
    languages: Collection[str]
    compared: Compared

    def reference(self) -> Reference:
        """The reference. Raises SpaceError for the first error."""
        value: Any = self.model.operation.reference
        if value != "none" and not self.compared.needed:
            lacks, correct = "no array has the role out or inout", "correct the role"
            if any(argument.role in ("out", "inout") for argument in self.arguments):
                lacks, correct = "all outputs have `compared: false`", "leave that out where an answer exists"
            more = "let the function also write what it returns to an array, or write `none`"
            raise self._error((), f"{lacks}, so nothing would be compared; {correct}, {more}")
        if callable(value):
            return self._function(value)
        if isinstance(value, dict) and not self.compared.fits(value):
            readers: dict[str, Callable[[Mapping[str, Any]], Reference]]
            readers = {"python": self._python, "kernel": self._kernel, "config": self._config}
            for form, read in readers.items():
                if form in value:
                    self._check_keys(form, value)
                    return read(value)
        if value == "none":
            return NoReference()
        if value is None or value in ("None", "null", "~"):
            raise self._error((), "not a reference; did you mean `none`, with which nothing is compared?")
        return self._expressions(value)

    def _check_keys(self, form: str, value: Mapping[str, Any]) -> None:
        for key in value:
            if key not in FORMS[form]:
                allowed = ", ".join(sorted(FORMS[form]))
                raise self._error((key,), f"unknown key; a `{form}` reference allows {allowed}")

    def _error(self, where: Where, message: str) -> Exception:
        return self.document.error((*self.where, *where), message)

    def _expressions(self, value: Any) -> ExpressionReference:
        outputs = self.compared.needed
        formulas: dict[str, Any] = value if isinstance(value, dict) else dict.fromkeys(outputs[:1], value)
        if not self.compared.fits(formulas):
            others = "or one of {python: check.py:expected}, {kernel: }, {config: default}, none"
            raise self._error((), f"write an expression for each output: {', '.join(outputs)}; {others}")
        arrays = [a.name for a in self.arguments if a.is_array]
        scalars = [a.name for a in self.arguments if a.shape is None and a.value and a.value[0].names <= {*self.names}]
        parsed: dict[str, Expression] = {}
        for name, formula in formulas.items():
            with self.document.at((*self.where, name) if isinstance(value, dict) else self.where):
                parsed[name] = expressions.parse_array(formula)
            check_passed(self.document, self.where, parsed[name], self.arguments)
            check_names(self.document, self.where, parsed[name], {*self.names, *arrays, *scalars})
        return ExpressionReference(parsed)

    def _python(self, value: Mapping[str, Any]) -> PythonReference:
        with self.document.at((*self.where, "python")):
            return PythonReference(python_function.parse(value["python"], self.document.path.resolve().parent))

    def _function(self, value: Callable[..., Any]) -> PythonReference:
        """A function of a space in Python. It may take what a function in a file may take."""
        with self.document.at(self.where):
            function = FunctionObject.of(value)
            arrays = [a.name for a in self.arguments if a.is_array and not a.value]
            scalars = [a.name for a in self.arguments if a.shape is None and a.value]
            of_problem = (*self.model.operation.sizes, *self.model.operation.options)
            python_function.requested(function.signature, function.origin, [*arrays, *of_problem, *scalars])
        return PythonReference(function)

    def _config(self, value: Mapping[str, Any]) -> ConfigReference:
        config, parameters = value["config"], self.model.parameters
        if config == "default":
            if not self.model.default:
                raise self._error(("config",), "the file has no `default:`; add it, or write the configuration here")
            return ConfigReference(dict(self.model.default))
        if not isinstance(config, dict):
            raise self._error(("config",), f"{quoted(config)}: write `default`, or a value for every parameter")
        check_config(self.document, (*self.where, "config"), config, parameters)
        return ConfigReference(dict(config))

    def _kernel(self, value: Mapping[str, Any]) -> KernelReference:
        kernel, source = value["kernel"], value.get("source")
        if not isinstance(kernel, str) or not braces.KERNEL.fullmatch(kernel):
            raise self._error(("kernel",), f"{quoted(kernel)}: write the name of a kernel in the source")
        if (fault := braces.fault(kernel, self.types)) is not None:
            raise self._error(("kernel",), fault)
        if source is not None and (not isinstance(source, str) or not source or "\0" in source):
            raise self._error(("source",), f"{quoted(source)}: write the name of a file, relative to this one")
        file = None if source is None else self.document.path.resolve().parent / source
        has_grid = any(LANGUAGES[name].has_grid for name in self.languages)
        grid, block = (self._extents(key, value, required=has_grid) for key in ("grid", "block"))
        return KernelReference(kernel, file, self._argument_names(value.get("arguments")), grid, block)

    def _argument_names(self, value: object) -> tuple[str, ...]:
        names = [argument.name for argument in self.arguments]
        if value is None:
            self._check_fixed(names)
            return taken(self.arguments)
        if not isinstance(value, list) or not value:
            raise self._error(
                ("arguments",), f"{quoted(value)}: write a list of argument names, in the order of the reference kernel"
            )
        for position, name in enumerate(value):
            if name not in names:
                allowed = shown(", ".join(names))
                raise self._error(("arguments", position), f"{quoted(name)} is not an argument; allowed: {allowed}")
        reached = {name for argument in self.arguments if argument.name in value for name in argument.reaches}
        for argument in self.arguments:
            if argument.role in ("out", "inout") and argument.name not in {*value, *reached}:
                raise self._error(("arguments",), f"the output {argument.name} is missing; add it")
            for name in {stride.text for stride in argument.strides} & set(value):
                if name not in self.model.operation.sizes and argument.name not in value:
                    raise self._error(("arguments",), f"{argument.name} is missing, whose stride is {name}; add it")
        self._check_fixed(value)
        return tuple(value)

    def _check_fixed(self, names: Collection[str]) -> None:
        """Raise SpaceError for an argument whose type or shape depends on the configuration: a reference has none."""
        chosen = {*self.model.parameters, *self.model.derived} - set(self.names)
        for argument in self.arguments:
            used = {argument.dtype, *(name for extent in argument.shape or () for name in extent.names)} & chosen
            if argument.name in names and used:
                raise self._error(
                    ("arguments",),
                    f"{argument.name} depends on {min(used)}, but a reference kernel has no configuration; write "
                    "`arguments:` without it, or use `{config: default}` or an expression",
                )

    def _extents(self, key: str, value: Mapping[str, Any], required: bool) -> Extents:
        given = value.get(key)
        texts: list[object] = given if isinstance(given, list) else [] if given is None else [given]
        if len(texts) > 3 or (required and not texts):
            raise self._error((key,), EXTENTS)
        extents: list[Expression] = []
        for position, text in enumerate(texts):
            where = (*self.where, key, position)
            with self.document.at(where):
                extents.append(expressions.parse(text))
            check_names(self.document, where, extents[-1], self.names)
        x, y, z = (*extents, *[expressions.parse(1)] * (3 - len(extents)))
        return x, y, z
