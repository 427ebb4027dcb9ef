"""Reads `strides:` of arguments, and checks them against the other keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tuner.quoting import quoted, shown
from tuner.space.dtypes import DType
from tuner.space.expressions import Expression
from tuner.space.file.name_check import check_names
from tuner.space.file.schema import ArgumentModel
from tuner.space.file.yamlfile import Document, Where


class StridesReader:
    """Reads the strides of the arguments.

    taken: names that have another meaning in expressions.
    leading: the scalar arguments that are leading dimensions; their values are read from arrays.
    """

    def __init__(self, arguments: Sequence[ArgumentModel], sizes: Iterable[str], taken: Collection[str]) -> None:
        entries: list[Expression] = [stride for argument in arguments for stride in argument.strides or []]
        single_names = {stride.text for stride in entries if stride.is_name}
        scalars = {a.name for a in arguments if a.shape is None and a.kind is None and a.value is None}
        self.leading = (single_names & scalars) - {*taken}
        self._sizes = {*sizes}

    def strides(
        self, document: Document, where: Where, model: ArgumentModel, chosen: Collection[str]
    ) -> tuple[Expression, ...]:
        """The strides of an argument, in elements; empty if it declares none. Raises SpaceError if they are invalid.

        chosen: names whose values depend on the configuration.
        """
        if model.strides is None:
            return ()
        place, entries = (*where, "strides"), list[Expression](model.strides)
        if model.role not in ("in", "out", "inout") or model.kind not in (None, "array") or model.value is not None:
            raise document.error(place, f"{model.name}: only a plain array that the caller passes may have `strides`")
        extents: list[Expression] = model.shape or []
        if len(entries) != len(extents):
            raise document.error(
                place, f"{len(entries)} strides; {model.name} has {len(extents)} axes: write one for each"
            )
        if not entries or entries[-1].text != "1":
            last = quoted(entries[-1].text) if entries else "nothing"
            raise document.error(
                place, f"{last} is the stride of the last axis, whose elements must be contiguous; write 1"
            )
        if varying := sorted({name for extent in extents for name in extent.names} & {*chosen}):
            raise document.error(
                place,
                f"{model.name}: its shape depends on {varying[0]}, which differs by configuration; remove this key",
            )
        for position, entry in enumerate(entries):
            for name in sorted(entry.names - self._sizes - self.leading):
                raise document.error(
                    (*place, position),
                    f"`{shown(entry.text)}`: {shown(name)} is neither a size nor a leading dimension; declare an "
                    f"argument {{name: {shown(name)}, dtype: int32}}, and write that name alone: [{shown(name)}, 1]",
                )
            check_names(document, (*place, position), entry, {*self._sizes, *self.leading})
        return tuple(entries)

    def check_scalar(self, document: Document, where: Where, model: ArgumentModel, dtypes: Sequence[DType]) -> None:
        """Raise SpaceError if a leading dimension is not an integer."""
        for dtype in dtypes:
            if dtype.kind != "integer":
                raise document.error(
                    (*where, "dtype"),
                    f"{model.name} is a leading dimension, but {dtype.name} is not an integer type; write int32",
                )
