"""The operation of a space file: its keys against each other, then frozen."""

from __future__ import annotations

import math

from tuner.paths import quoted
from tuner.space import expressions, fills
from tuner.space.expressions import Expression
from tuner.space.fills import Fill
from tuner.space.model import Argument, Limits, Operation, Scope
from tuner.space.name_check import check_names
from tuner.space.reference_reader import ReferenceReader
from tuner.space.schema import ArgumentModel, SpaceModel
from tuner.space.yamlfile import Document, Where

DEVICE_NAMES = tuple(Scope(sizes={}, options={}, language="", limits=Limits()).names)


class OperationReader:
    """Reads the operation of a space. It stands in `shared`, a file of several spaces or the space's own `document`;
    a space may have arguments of its own."""

    def __init__(self, document: Document, shared: Document, model: SpaceModel) -> None:
        self.document, self.shared, self.model = document, shared, model
        op = model.operation
        self.scope_names: set[str] = {*op.sizes, *op.options, *DEVICE_NAMES}
        self.prefix: Where = () if shared is not document else ("operation",)

    def operation(self) -> Operation:
        """Raises SpaceError for the first fault."""
        model, op, shared = self.model, self.model.operation, self.shared
        prefix = self.prefix
        reserved = {*DEVICE_NAMES, *expressions.FUNCTIONS, *(op.sizes.keys() & op.options.keys())}
        for name in (*op.sizes, *op.options):
            if name in reserved:
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
        reference = ReferenceReader(shared, (*prefix, "reference"), model, arguments, self.scope_names).reference()
        for key, extra in (("tolerance", ["epsilon"]), ("flops", []), ("bytes", [])):
            if (expression := getattr(op, key)) is not None:
                check_names(shared, (*prefix, key), expression, {*self.scope_names, *extra})
        extent = tuple(model.extent or op.extent)
        for expression in extent:
            check_names(self.document, ("extent",), expression, self.scope_names)
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
        if model.shape is not None and model.name in self.scope_names:
            raise document.error(where, f"{model.name}: this name is taken by a size or option")
        for extent in model.shape or []:
            check_names(document, (*where, "shape"), extent, self.scope_names)
        # An array is uploaded once, before a launch sets its options.
        names = self.scope_names if model.shape is None else self.scope_names - options.keys()
        for expression in value:
            check_names(document, (*where, "value"), expression, names)
        if model.value is not None:
            extents = [extent.text for extent in model.shape or []]
            if model.role not in ("in", None):
                raise document.error((*where, "role"), f"{quoted(model.role)}: {model.name} has a `value`; write `in`")
            if not all(text.isdecimal() for text in extents) or math.prod(map(int, extents)) != len(value):
                kind = f"of shape [{', '.join(extents)}]" if extents else "a scalar"
                raise document.error(
                    (*where, "value"),
                    f"{len(value)} values; {model.name} is {kind}: write one for each element, the shape in numbers",
                )
        shape = None if model.shape is None else tuple(model.shape)
        fill = None if model.fill is None else self._fill(document, (*where, "fill"), model)
        return Argument(model.name, model.dtype, shape, model.role, tuple(value), fill)

    def _fill(self, document: Document, where: Where, model: ArgumentModel) -> Fill:
        if model.role not in ("in", "inout") or model.value is not None:
            raise document.error(where, f"{model.name}: only an array of role in or inout, without `value`, is filled")
        try:
            fill = fills.parse(model.fill, document.path.resolve().parent)
            fills.check_values(fill, model.dtype)
        except ValueError as error:
            raise document.error(where, f"{model.name}: {error}") from None
        return fill
