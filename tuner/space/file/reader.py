"""Reads a space file: `schema` validates each key; this module checks keys against each other and builds the Space."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.errors import SpaceError
from tuner.languages import LANGUAGES
from tuner.quoting import quoted, shown
from tuner.space import chosen_types, expressions, parsing
from tuner.space.chosen import common
from tuner.space.config import Value
from tuner.space.default import no_configuration
from tuner.space.expressions import Expression, arithmetic, evaluator, function_expressions
from tuner.space.file import evaluation as evaluations
from tuner.space.file import step_reader, yamlfile
from tuner.space.file.evaluation import Evaluation
from tuner.space.file.loop_reader import LoopReader
from tuner.space.file.name_check import check_config, check_names
from tuner.space.file.operation_reader import OperationReader
from tuner.space.file.schema import OperationModel, SpaceModel
from tuner.space.file.source_reader import SourceReader
from tuner.space.file.step_reader import StepReader
from tuner.space.file.validation import validated
from tuner.space.file.yamlfile import Document, Where
from tuner.space.model import Restriction, Space
from tuner.space.scope import COMMON_GPU, Limits, Scope
from tuner.space.sources import source_text
from tuner.space.sources.checks import agreement, macros
from tuner.space.sources.includes import inlined, without_comments

# Reserved words of C and CUDA, which no macro may replace.
RESERVED = frozenset(
    re.findall(
        r"\w+",
        """auto bool break case char class const continue default defined do double else enum extern float for goto if
        inline int long namespace register restrict return short signed sizeof static struct switch template typedef
        typename union unsigned using void volatile while threadIdx blockIdx blockDim gridDim""",
    )
)


def read(path: Path, name: str | None = None) -> Space:
    """The space in `path`. Raises SpaceError with file, line and key if it is invalid.

    name: the name of the space; by default, folder and file name without suffix.
    """
    return of_document(yamlfile.read(path), name)


def of_document(document: Document, name: str | None) -> Space:
    """The space in `document`. Raises SpaceError with its key if it is invalid."""
    builder = _builder(document, name)
    space = builder.space()
    builder.check_agreement(space, only_fatal=True)
    return space


def evaluate(
    path: Path,
    size: str | None = None,
    chosen: Mapping[str, str] | None = None,
    limits: Sequence[Limits] = (COMMON_GPU,),
) -> tuple[Space, Scope, Evaluation]:
    """Read the space in `path` and evaluate it without a device.

    size: as on the command line; None for a common size.
    chosen: dtypes by the name of a type.
    limits: the limits of devices. The first device with a valid configuration is used, else the last.

    Returns the space, its scope in the first language on that device, and the result of the evaluation. Raises
    SpaceError with file, line and key for the first expression without a value or launch that is impossible,
    NoConfiguration if no configuration is valid, and RequestError for a size or type that the operation does not have.
    """
    builder = _builder(yamlfile.read(path))
    space = builder.space()
    op = space.operation
    types = chosen_types.parse(chosen or {}, op)
    sizes = parsing.parse_size(common(op) if size is None else size, op, types)
    evaluation = evaluations.evaluate(space, sizes, types, len(builder.model.restrictions), limits)
    if evaluation.message is not None:
        raise builder.error(evaluation.where, evaluation.message)
    builder.check_agreement(space)
    scope = op.scope(sizes, op.options, space.languages[0], evaluation.limits, types)
    if evaluation.excludes_all:
        raise no_configuration(space, scope)
    return space, scope, evaluation


def _builder(document: Document, name: str | None = None) -> _SpaceBuilder:
    path = document.path
    if "parameters" not in document.data and "arguments" in document.data:
        raise SpaceError(f"{path}: describes an operation, not a space: it has no `parameters:`")
    document.check_answered()
    shared = document
    if isinstance(document.data.get("operation"), str):
        shared = yamlfile.read(path.parent / document.data["operation"])
        shared.check_answered()
        validated(OperationModel, shared)
        document.data["operation"] = shared.data
    model = validated(SpaceModel, document)
    return _SpaceBuilder(document, shared, model, name or f"{path.resolve().parent.name}/{path.stem}")


class _SpaceBuilder:
    """Checks keys against each other and builds the frozen `Space`."""

    def __init__(self, document: Document, shared: Document, model: SpaceModel, name: str) -> None:
        self.document, self.shared, self.model, self.name = document, shared, model, name
        self.loops = LoopReader(document, model)
        self.operation_reader = OperationReader(document, shared, model, self.loops.names)
        self.source_reader = SourceReader(document, model)
        self.scope_names = self.operation_reader.scope_names
        self.names = {*self.scope_names, *model.parameters}
        self.depths: dict[str, int] = {}  # nesting depths of the derived values
        self.step_reader = StepReader(document, model, self.source_reader, self.loops, self._check_names, self.error)

    def space(self) -> Space:
        model = self.model
        self._check_parameters()
        self.step_reader.check_form()
        include, source = self.source_reader.include(), self.step_reader.first_source()
        languages = self.source_reader.languages(source, self.step_reader.kernels)
        operation = self.operation_reader.operation(languages)
        derived: dict[str, Expression] = {}
        for name, expression in model.derived.items():
            if name in self.names:
                raise self.document.error(
                    ("derived", name), "this name is taken by a parameter, size or option; choose another"
                )
            self._check_names(("derived", name), expression)
            self.names.add(name)
            self.depths[name] = evaluator.depth(expression.tree, self.depths)
            derived[name] = expression
        steps = self.step_reader.steps(operation, languages, include)
        order = self.loops.order(operation, self._check_names, self.names)
        self.source_reader.check_braces({*model.parameters, *derived, *operation.types}, self.step_reader.kernels)
        return Space(
            name=self.name,
            title=model.title,
            operation=operation,
            steps=steps,
            languages=languages,
            parameters={name: tuple(values) for name, values in model.parameters.items()},
            restrictions=(*self._restrictions(), *step_reader.restrictions(steps, operation)),
            derived=derived,
            default=self._default(),
            compile_options={language: tuple(options) for language, options in model.compile_options.items()},
            compiler=self.source_reader.compiler(languages, source),
            returns_time=self._returns_time(languages),
            alignment=model.alignment,
            source_note=model.source_note,
            files=() if self.document.origin else self._files(),
            include=include,
            order=order,
        )

    def _files(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(document.path.resolve() for document in (self.document, self.shared)))

    def _returns_time(self, languages: Sequence[str]) -> bool:
        """Whether kernels return their times. Raises SpaceError if a language has none that can."""
        if self.model.timing is not None and any(LANGUAGES[name].has_grid for name in languages):
            raise self.document.error(("timing",), "only a function in C returns its time; write `languages: [c]`")
        return self.model.timing is not None

    def check_agreement(self, space: Space, only_fatal: bool = False) -> None:
        """Raise SpaceError if the space and the text of its source disagree.

        only_fatal: ignore disagreements with which the kernel can be launched.
        """
        try:
            texts = {path: source_text.device(space, path) for path in space.sources}
        except SpaceError as error:
            if only_fatal:  # a missing header is reported when the source is rendered
                return
            raise self.document.error(("source",), str(error)) from None
        for fault in agreement.faults(space, texts):
            if (fault.fatal or not only_fatal) and not self._is_answered(fault.where):
                raise self.error(fault.where, fault.message)

    def _is_answered(self, where: Where) -> bool:
        """Whether the file declares the dynamic shared memory of a step: 0 may be intended."""
        if where[-1:] != ("shared_memory",):
            return False
        return "shared_memory" in self.loops.step(int(where[1])).model_fields_set

    def error(self, where: Where, message: str) -> SpaceError:
        """A SpaceError for the key `where` of the space, which may be in the file of the operation."""
        document, where = self.document, self.loops.where(where)
        if where[:1] == ("operation",):
            own = where[1:2] in (("arguments",), ("extent",), ("types",)) and where[1] in document.data
            document = document if own else self.shared
            where = where[1:] if own or self.shared is not self.document else where
        elif self.model.steps is None and where[:2] == ("steps", 0):
            return self.error(where[2:], message)
        elif where[:1] == ("grid",) and self.model.grid is None:
            where = ("grid_divisors",) if self.model.grid_divisors else ("operation", "extent")
        elif where and where[0] not in document.data:
            where = ()
        return document.error(where, message)

    def _check_names(self, where: Where, expression: Expression, loop_names: frozenset[str] = frozenset()) -> None:
        for name in sorted(expression.names - self.names - loop_names):
            if hint := self._misspelt(name) or self.loops.misplaced(name):
                raise self.document.error(where, f"`{shown(expression.text)}`: {hint}")
        check_names(self.document, where, expression, self.names | loop_names, self.depths)

    def _misspelt(self, name: str) -> str:
        """The message if the source uses an unknown `name` instead of a parameter with a similar name; else empty."""
        near = difflib.get_close_matches(name, self.model.parameters, n=1, cutoff=macros.ALIKE)
        if not near:
            return ""
        try:
            source = self.step_reader.first_source()
            words = set(re.findall(r"\w+", without_comments(inlined(source, self.source_reader.include()))))
        except SpaceError:
            return ""  # reported when the source is read
        if name not in words or near[0] in words:
            return ""
        return (
            f"unknown name {quoted(name)}; {source.name} uses it, but not the parameter {near[0]}: write {name} under "
            "`parameters:`, too"
        )

    def _check_parameters(self) -> None:
        for name, values in self.model.parameters.items():
            if name in self.scope_names or name in arithmetic.FUNCTIONS:
                raise self.document.error(("parameters", name), "this name is taken; choose another")
            if name in RESERVED:
                raise self.document.error(
                    ("parameters", name), "a reserved word of C or CUDA, which a macro must not replace; rename it"
                )
            earlier: set[Value] = set()
            for position, value in enumerate(values):
                if value in earlier:  # 1, 1.0 and true are equal here
                    raise self.document.error(
                        ("parameters", name, position), f"{quoted(value)} appears twice; keep one"
                    )
                earlier.add(value)

    def _restrictions(self) -> list[Restriction]:
        """The restrictions that the file declares, including the compute capability that it requires."""
        model = self.model
        restrictions: list[Restriction] = []
        for position, restriction in enumerate(model.restrictions):
            restrictions.append(Restriction(self._condition(position, restriction.that), restriction.because))
        if model.requires is not None:
            others = " and ".join(f"language != {n!r}" for n, lang in LANGUAGES.items() if lang.has_compute_capability)
            that = expressions.parse(f"{others} or compute_capability {model.requires.compute_capability}")
            restrictions.append(Restriction(that, "the stage requires it"))
        return restrictions

    def _condition(self, position: int, that: Any) -> Expression:
        """The condition of the restriction at `position`, whose names are known."""
        where = ("restrictions", position)
        if callable(that):
            with self.document.at(where):
                return function_expressions.restriction(that, self.names, self.model.parameters)
        expression: Expression = that
        self._check_names(where, expression)
        return expression

    def _default(self) -> dict[str, Value]:
        """The default configuration: a value for every parameter, or empty."""
        if self.model.default:
            check_config(self.document, ("default",), self.model.default, self.model.parameters, self._misspelt)
        return dict(self.model.default)
