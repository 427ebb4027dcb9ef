"""Checks the keys of an argument against each other, and builds the frozen `Argument`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from tuner.quoting import quoted, shown
from tuner.space import expressions
from tuner.space.argument import Argument, Kind
from tuner.space.dtypes import DTYPES, DType, canonical
from tuner.space.expressions import Expression
from tuner.space.file import kind_reader, struct_reader
from tuner.space.file.name_check import check_names
from tuner.space.file.schema import ArgumentModel, SpaceModel
from tuner.space.file.strides_reader import StridesReader
from tuner.space.file.yamlfile import Document, Where
from tuner.space.values import fills, python_function
from tuner.space.values.fills import Fill
from tuner.space.values.function_object import FunctionObject


class ArgumentReader:
    """Reads the arguments of a space."""

    def __init__(
        self,
        model: SpaceModel,
        types: Mapping[str, tuple[str, ...]],
        scope_names: set[str],
        chosen: set[str],
        loop_names: frozenset[str],
    ) -> None:
        """`scope_names` are the names of sizes, options and the device, `chosen` those whose values depend on the
        configuration."""
        self._model, self._types, self._loop_names = model, types, loop_names
        self._scope_names, self._chosen = scope_names, chosen
        declared = model.arguments or model.operation.arguments
        self._strides_reader = StridesReader(declared, model.operation.sizes, scope_names | chosen)

    def argument(self, document: Document, place: Where, position: int, model: ArgumentModel) -> Argument:
        """The frozen argument. Raises SpaceError if its keys contradict each other."""
        where = (*place, position)
        if struct_reader.is_struct(model):
            names = {*self._scope_names, *self._chosen, *self._loop_names}
            return struct_reader.read(document, where, model, names, self._types)
        kind = kind_reader.read(document, where, model, {*self._scope_names, *self._chosen}, self._model.parameters)
        has_role = (model.role is not None) if kind is None else model.shape is not None
        dtypes = self._dtypes(document, where, model) if kind is None or kind.has_shape else []
        if (model.shape is not None) != has_role:
            raise document.error(where, f"{model.name}: an array has both `shape` and `role`, a scalar neither")
        value: list[Expression] = model.value or []
        options = self._model.operation.options
        is_scalar = model.shape is None and kind is None
        if is_scalar and model.name in self._loop_names - self._scope_names and not value:
            value = [expressions.parse(model.name)]
        is_leading = model.name in self._strides_reader.leading
        if is_scalar and (model.name in {*self._model.operation.sizes, *options}) == bool(value) and not is_leading:
            raise document.error(
                where,
                f"{model.name}: a scalar has either the name of a size, option or loop variable, or a `value`; a "
                "leading dimension appears in the `strides` of an array",
            )
        if is_leading:
            self._strides_reader.check_scalar(document, where, model, dtypes)
        strides = self._strides_reader.strides(document, where, model, self._chosen)
        if model.shape is not None and model.name in self._scope_names:
            raise document.error(where, f"{model.name}: this name is taken by a size or option")
        if model.zeroed != "never" and model.role != "scratch":
            raise document.error((*where, "zeroed"), f"{model.name}: only an array of role scratch is zeroed")
        for extent in model.shape or []:
            self._check_extent(document, where, model, kind, extent)
        # An array is uploaded once, so its contents cannot depend on options, which each launch sets.
        scalar_names = {*self._scope_names, *self._chosen, *self._loop_names}
        names = scalar_names if model.shape is None else self._scope_names - options.keys()
        for expression in value:
            check_names(document, (*where, "value"), expression, names)
        if model.value is not None:
            self._check_values(document, where, model, kind, value)
        shape = None if model.shape is None else tuple(model.shape)
        is_filled = model.fill is not None and (kind is None or "fill" not in kind.keys)
        fill = self._fill(document, (*where, "fill"), model, dtypes) if is_filled else None
        dtype = model.dtype or ""
        if not model.compared and model.role not in ("out", "inout"):
            raise document.error((*where, "compared"), f"{model.name}: only an array of role out or inout is compared")
        return Argument(
            model.name, dtype, shape, model.role, tuple(value), fill, kind, model.zeroed, strides,
            compared=model.compared,
        )  # fmt: skip

    @staticmethod
    def _check_values(
        document: Document, where: Where, model: ArgumentModel, kind: Kind | None, value: Sequence[Expression]
    ) -> None:
        """Raise SpaceError for values that an argument cannot have."""
        extents = [extent.text for extent in model.shape or []]
        if kind is not None:
            raise document.error(
                (*where, "value"),
                f"{model.name}: `kind: {kind.name}` allows no `value`; let the caller pass it, or write it in the "
                "source",
            )
        if model.role not in ("in", None):
            raise document.error((*where, "role"), f"{quoted(model.role)}: {model.name} has a `value`; write `in`")
        if not all(text.isdecimal() for text in extents) or math.prod(map(int, extents)) != len(value):
            form = f"of shape [{', '.join(extents)}]" if extents else "a scalar"
            raise document.error(
                (*where, "value"),
                f"{len(value)} values; {model.name} is {form}: write one for each element, and the shape as numbers",
            )

    def _check_extent(
        self, document: Document, where: Where, model: ArgumentModel, kind: Kind | None, extent: Expression
    ) -> None:
        """Raise SpaceError for a name that an extent may not use.

        Only scratch, and outputs that `derive` reads, may have a shape that depends on the configuration.
        """
        read = {name for formula in self._model.operation.derive.values() for name in re.findall(r"\w+", str(formula))}
        may_vary = model.role in ("scratch", None) or (model.role == "out" and kind is None and model.name in read)
        if not may_vary and (chosen := sorted(extent.names & self._chosen)):
            advice = (
                "read the output in `derive:`, whose values are compared instead"
                if model.role == "out" and kind is None
                else "only scratch, and outputs that `derive:` reads, may have such a shape"
            )
            raise document.error(
                (*where, "shape"),
                f"`{shown(extent.text)}` depends on {chosen[0]}, which may differ by configuration; {advice}",
            )
        check_names(document, (*where, "shape"), extent, {*self._scope_names, *self._chosen})

    def _fill(self, document: Document, where: Where, model: ArgumentModel, dtypes: Iterable[DType]) -> Fill:
        if model.role not in ("in", "inout") or model.value is not None:
            raise document.error(
                where, f"{model.name}: only an array of role in or inout, without `value`, has a `fill`"
            )
        try:
            fill = fills.parse(model.fill, document.path.resolve().parent)
            for dtype in dtypes:
                fills.check_values(fill, dtype)
            if isinstance(fill.function, FunctionObject):
                of_problem = (*self._model.operation.sizes, *self._model.operation.options)
                known = [python_function.GENERATOR, *of_problem]
                python_function.requested(fill.function.signature, fill.function.origin, known)
        except ValueError as error:
            raise document.error(where, f"{model.name}: {error}") from None
        for expression in fill.expressions:
            check_names(document, where, expression, self._model.operation.sizes)
        return fill

    def _dtypes(self, document: Document, where: Where, model: ArgumentModel) -> list[DType]:
        """The dtypes that an argument may have. Raises SpaceError for an unknown one."""
        if model.dtype is None:
            raise document.error((*where, "dtype"), "this key is missing; add it")
        if model.role == "scratch" and model.dtype in self._model.parameters:
            return [self._dtype_of_value(document, where, model.dtype, v) for v in self._model.parameters[model.dtype]]
        names = self._types.get(model.dtype, (model.dtype,))
        if model.dtype not in DTYPES and model.dtype not in self._types:
            named = f", or a name of `types`: {', '.join(self._types)}" if self._types else ""
            if model.dtype in self._model.parameters:
                named = f"; {model.dtype} is a parameter; only scratch may take its dtype from one"
            raise document.error((*where, "dtype"), f"{quoted(model.dtype)}: {known_dtypes()}{named}")
        return [DTYPES[name] for name in names]

    def _dtype_of_value(self, document: Document, where: Where, name: str, value: object) -> DType:
        """The dtype that a value of parameter `name` means. Raises SpaceError if it is not a dtype."""
        if (dtype := DTYPES.get(canonical(str(value)))) is None:
            raise document.error(
                (*where, "dtype"), f"the parameter {name} has the value {quoted(value)}, which is {known_dtypes()}"
            )
        return dtype


def known_dtypes() -> str:
    """What a dtype may be, for a message about a word that is none."""
    return f"not a dtype; allowed: {', '.join(DTYPES)}"
