"""Checks the keys of an operation against each other, and builds the frozen `Operation`."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable

from tuner.errors import SpaceError
from tuner.quoting import quoted
from tuner.space import chosen_types
from tuner.space.argument import Argument
from tuner.space.computation import Operation
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import arithmetic
from tuner.space.file import kind_reader, struct_reader
from tuner.space.file.argument_reader import ArgumentReader, known_dtypes
from tuner.space.file.comparison_reader import ComparisonReader
from tuner.space.file.name_check import check_names
from tuner.space.file.reference_reader import ReferenceReader
from tuner.space.file.schema import SpaceModel
from tuner.space.file.yamlfile import Document, Where
from tuner.space.scope import DEVICE_NAMES
from tuner.space.values import python_function
from tuner.space.values.forms import ExpressionReference
from tuner.space.values.python_function import PythonFunction


class OperationReader:
    """Reads the operation of a space.

    shared: the document that holds the operation. Several spaces may share it; else it is `document`, the space file.

    loop_names: the loop variables of the steps.

    `arguments`, `extent` and `types` of the space file replace those of the operation.
    """

    def __init__(
        self, document: Document, shared: Document, model: SpaceModel, loop_names: frozenset[str] = frozenset()
    ) -> None:
        self.document, self.shared, self.model, self.loop_names = document, shared, model, loop_names
        op = model.operation
        self.scope_names: set[str] = {*op.sizes, *op.options, *DEVICE_NAMES}
        self.prefix: Where = () if shared is not document else ("operation",)
        # Names whose values depend on the configuration.
        self.chosen = {*model.parameters, *model.derived} - self.scope_names
        self.types = {name: tuple(allowed) for name, allowed in (model.types or model.operation.types).items()}

    def operation(self, languages: Collection[str]) -> Operation:
        """The operation of a kernel in these languages. Raises SpaceError for the first error."""
        model, op, shared = self.model, self.model.operation, self.shared
        prefix = self.prefix
        self._check_sizes()
        self._check_types()
        has_own_arguments = model.arguments is not None
        document, place = (self.document, ("arguments",)) if has_own_arguments else (shared, (*prefix, "arguments"))
        arguments_place = place
        reader = ArgumentReader(model, self.types, self.scope_names, self.chosen, self.loop_names)
        declared = model.arguments or op.arguments
        arguments = tuple(reader.argument(document, place, i, each) for i, each in enumerate(declared))
        for position, argument in enumerate(arguments):
            if argument.name in {a.name for a in arguments[:position]}:
                raise document.error((*place, position), f"{argument.name}: two arguments have this name; rename one")
        comparison = ComparisonReader(shared, prefix, op, self.scope_names, arguments)
        derive = comparison.derive()
        compared = comparison.compared(derive)
        place = (*prefix, "reference")
        reference_reader = ReferenceReader(
            shared, place, model, arguments, self.scope_names, self.types, languages, compared
        )
        try:
            reference = reference_reader.reference()
        except SpaceError:
            self._check_keywords(document, arguments_place, arguments)
            raise
        for key in ("flops", "bytes"):
            if (expression := getattr(op, key)) is not None:
                check_names(shared, (*prefix, key), expression, self.scope_names)
        extent = tuple(model.extent or op.extent)
        for expression in extent:
            check_names(self.document, ("extent",), expression, self.scope_names)
        operation = Operation(
            sizes=op.sizes,
            options=op.options,
            extent=extent,
            arguments=arguments,
            reference=reference,
            tolerance=comparison.tolerance(
                list(reference.outputs) if isinstance(reference, ExpressionReference) else compared.needed
            ),
            flops=op.flops,
            bytes=op.bytes,
            library=op.library,
            derive=derive,
            accept=tuple(op.accept),
            types=self.types,
            loop_names=self.loop_names,
            also=self._also(shared, (*prefix, "also")),
        )
        self._check_options(operation, document, arguments_place)
        self._check_coarse(document, arguments_place, operation)
        kind_reader.check(document, arguments_place, operation, languages)
        struct_reader.check(document, arguments_place, operation, languages)
        return operation

    def _check_sizes(self) -> None:
        op, reserved = self.model.operation, {*DEVICE_NAMES, *arithmetic.FUNCTIONS}
        for name in (*op.sizes, *op.options):
            if name in reserved or (name in op.sizes and name in op.options):
                where = "sizes" if name in op.sizes else "options"
                raise self.shared.error((*self.prefix, where, name), "this name is taken; choose another")
        for name, size in op.sizes.items():
            if size is not None and size < 1:
                hint = f"a size must be at least 1; if an argument is always {size}, give it `value: {size}`"
                raise self.shared.error((*self.prefix, "sizes", name), f"{size}: {hint}")

    def _also(self, document: Document, where: Where) -> PythonFunction | None:
        given = self.model.operation.also
        if given is None:
            return None
        if not isinstance(given, dict) or given.keys() != {"python"}:
            raise document.error(where, f"{quoted(given)}: write {{python: FILE.py:FUNCTION}}")
        with document.at(where):
            return python_function.parse(given["python"], document.path.resolve().parent)

    def _check_keywords(self, document: Document, place: Where, arguments: Iterable[Argument]) -> None:
        """Raise SpaceError for an argument whose name is a keyword, which only a reference by expression cannot use."""
        for position, argument in enumerate(arguments):
            if keyword.iskeyword(argument.name):
                raise document.error(
                    (*place, position, "name"),
                    f"`{argument.name}` is a keyword of expressions, so the reference cannot use it; rename the "
                    "argument here and in the reference; the source may keep the name",
                )

    def _check_types(self) -> None:
        """Raise SpaceError for a type whose name is already taken, and for an unknown dtype."""
        own = bool(self.model.types)
        document, place = (self.document, ("types",)) if own else (self.shared, (*self.prefix, "types"))
        taken = {word for dtype in DTYPES.values() for word in (dtype.name, *dtype.words)}
        taken |= {*self.scope_names, *self.model.parameters, *self.model.derived}
        taken |= {argument.name for argument in self.model.arguments or self.model.operation.arguments}
        for name, allowed in self.types.items():
            if name in taken:
                raise document.error((*place, name), "this name is taken; choose another")
            for position, dtype in enumerate(allowed):
                if dtype not in DTYPES:
                    raise document.error((*place, name, position), f"{quoted(dtype)}: {known_dtypes()}")
                if dtype in allowed[:position]:
                    raise document.error((*place, name, position), f"{dtype} appears twice; keep one")

    def _check_options(self, operation: Operation, document: Document, place: Where) -> None:
        """Raise SpaceError for an option that no argument can hold, or that arguments of two dtypes take."""
        for name, value in operation.options.items():
            first, *others = operation.takers[name] or (None,)
            if first is None:
                continue
            choices = chosen_types.choices(first, self.types)
            if not any(dtype.holds(value) for dtype in choices):
                names = " or ".join(dtype.name for dtype in choices)
                raise self.shared.error(
                    (*self.prefix, "options", name),
                    f"{quoted(value)} does not fit the argument {first.name}, which is {names}; write another default, "
                    "or declare a wider dtype",
                )
            for other in others:
                is_same = len(choices) == 1 and chosen_types.choices(other, self.types) == choices
                if other.dtype != first.dtype and not is_same:
                    raise document.error(
                        (*place, _position(operation, other), "dtype"),
                        f"{other.name} takes the option {name} as {other.dtype}, and {first.name} as {first.dtype}, so "
                        "they may get different numbers; declare one dtype, or an option for each",
                    )

    def _check_coarse(self, document: Document, place: Where, operation: Operation) -> None:
        """Raise SpaceError for an output without tolerance, if its dtype is too coarse for the default tolerance."""
        for position, argument in enumerate(operation.arguments):
            if argument.role not in ("out", "inout"):
                continue
            coarse = next((dtype for dtype in chosen_types.choices(argument, self.types) if dtype.is_coarse), None)
            compared = [name for name, e in operation.derive.items() if argument.name in e.names] or [argument.name]
            given = [operation.tolerance[name].terms.keys() for name in compared if name in operation.tolerance]
            bounded = len(given) == len(compared) and all(terms - {"wrong"} for terms in given)
            if coarse and operation.reference.kind != "none" and not bounded:
                raise document.error(
                    (*place, position, "dtype"),
                    f"{argument.name} is stored as {coarse.name}, which rounds by up to {coarse.epsilon:.0%}; declare "
                    "a `tolerance:`, such as `2 * epsilon` for results below 2",
                )


def _position(operation: Operation, number: Argument) -> int:
    """The position of the argument that a number is, or is in."""
    return next(i for i, each in enumerate(operation.arguments) if number.name.split(".")[0] == each.name)
