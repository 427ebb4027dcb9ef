"""Reads an argument that is a struct, by its `fields:`, or a vector such as float4, which the kernel takes by value."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.quoting import quoted
from tuner.space import chosen_types, expressions, structs
from tuner.space.argument import Argument, Field
from tuner.space.computation import Operation
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import Expression
from tuner.space.file.name_check import check_names
from tuner.space.file.schema import ArgumentModel, FieldModel
from tuner.space.file.yamlfile import Document, Where
from tuner.space.structs import Vector

MOST_NUMBERS = 1000  # of a struct
_ADDRESS = "uint64"  # the dtype of a pointer
_WITH_ADDRESSES = ("cuda", "c")  # the languages whose arrays have addresses that a struct can hold
_OF_ARRAYS = ("shape", "role", "fill", "strides", "kind")


def is_struct(model: ArgumentModel) -> bool:
    """Whether the argument is a struct or a vector. An array of vectors is an array of numbers with one more extent."""
    return model.fields is not None or (model.shape is None and structs.vector(model.dtype or "") is not None)


def read(
    document: Document, where: Where, model: ArgumentModel, names: Collection[str], types: Mapping[str, Sequence[str]]
) -> Argument:
    """The argument. Its expressions may use `names`. Raises SpaceError if its keys contradict each other."""
    what = "a vector" if model.fields is None else "a struct"
    for key in _OF_ARRAYS:
        if getattr(model, key) is not None:
            advice = "remove this key; an array of structs is an array of its bytes, as in `dtype: uint8`"
            raise document.error((*where, key), f"{model.name}: {what} is passed by value; {advice}")
    if (kind := structs.vector(model.dtype or "")) and model.fields is None:
        value = _values(document, where, model.name, model.value, kind.width, names)
        parts = zip(kind.components, value, strict=True)
        return Argument(model.name, str(model.dtype), fields=tuple(Field(n, kind.dtype, (v,)) for n, v in parts))
    for key in ("dtype", "value"):
        if getattr(model, key) is not None:
            raise document.error((*where, key), f"{model.name}: types and values of a struct are keys of its `fields`")
    reader = _FieldReader(document, names, types)
    fields = reader.fields((*where, "fields"), model.name, model.fields or [])
    if reader.count > MOST_NUMBERS:
        raise document.error((*where, "fields"), f"{model.name}: has {reader.count} numbers; at most {MOST_NUMBERS}")
    return Argument(model.name, "", fields=fields)


def check(document: Document, place: Where, operation: Operation, languages: Collection[str]) -> None:
    """Raise SpaceError for a pointer in a struct that is none to an array of its own, and for a struct that a C
    function cannot be passed: libffi knows neither half precision nor packed structs."""
    for position, argument in enumerate(operation.arguments):
        for where, field in _pointers(argument.fields):
            _check_pointer(document, (*place, position, *where), argument, field, operation, languages)
    if "c" not in languages:
        return
    for position, argument in enumerate(operation.arguments):
        for number in structs.numbers(argument) if argument.fields else ():
            if DTYPES["float16"] in chosen_types.choices(number, operation.types):
                message = f"{number.name}: a struct for C cannot have a float16; pass it as a float32"
                raise document.error((*place, position), message)
        if any(field.offset is not None or field.align for field in argument.fields):
            message = f"{argument.name}: a struct for C has C's own offsets; remove `offset` and `align`"
            raise document.error((*place, position), message)


def _pointers(fields: Sequence[Field], where: Where = ()) -> Iterator[tuple[Where, Field]]:
    """The pointers among these fields, each with its key."""
    for position, field in enumerate(fields):
        if field.arrays:
            yield (*where, "fields", position), field
        yield from _pointers(field.fields, (*where, "fields", position))


def _check_pointer(
    document: Document,
    where: Where,
    owner: Argument,
    field: Field,
    operation: Operation,
    languages: Collection[str],
) -> None:
    if without := [name for name in languages if name not in _WITH_ADDRESSES]:
        able = [name for name in languages if name in _WITH_ADDRESSES] or ["cuda"]
        raise document.error(
            where,
            f"{owner.name}.{field.name}: a struct cannot hold an array in {without[0]}, whose arrays have no addresses "
            f"that a program knows; write `languages: [{', '.join(able)}]`, or pass the array as an argument",
        )
    arrays = {a.name: a for a in operation.arguments if a.shape is not None}
    for name in field.arrays:
        if name not in arrays:
            known = ", ".join(arrays) or "none"
            raise document.error(
                (*where, "array"),
                f"{owner.name}.{field.name}: {name} is no array; declare it as an argument with `dtype`, `shape` and "
                f"`role`, or write `dtype: {_ADDRESS}, value: 0` for a null pointer; the arrays are: {known}",
            )
        if (kind := arrays[name].kind) is not None:
            message = f"{owner.name}.{field.name}: {name} is of `kind: {kind.name}`; a pointer needs a plain array"
            raise document.error((*where, "array"), f"{message}; remove its `kind`")


class _FieldReader:
    """Reads the fields of one struct; `count` is the count of its numbers."""

    def __init__(self, document: Document, names: Collection[str], types: Mapping[str, Sequence[str]]) -> None:
        self._document, self._names, self._types = document, names, types
        self.count = 0

    def fields(self, where: Where, owner: str, models: Sequence[FieldModel]) -> tuple[Field, ...]:
        """The fields of the struct `owner`."""
        if not models:
            raise self._document.error(where, f"{owner}: no fields; list them, in the order of the source")
        read: list[Field] = []
        for position, model in enumerate(models):
            if model.name in {field.name for field in read}:
                message = f"{owner}: two fields are named {model.name}; rename one as in the source"
                raise self._document.error((*where, position, "name"), message)
            field = self._field((*where, position), f"{owner}.{model.name}", model)
            read.append(replace(field, align=self._align((*where, position), f"{owner}.{model.name}", model)))
            self._check_offset((*where, position), owner, read)
        return tuple(read)

    def _field(self, where: Where, name: str, model: FieldModel) -> Field:
        shape = tuple(model.shape or ())
        if model.array is not None:
            return self._pointer(where, name, model, shape)
        if model.fields is not None:
            for key in ("dtype", "value", "shape"):
                if getattr(model, key) is not None:
                    message = f"{name}: a struct in a struct has only `fields` and `offset`; remove this key"
                    raise self._document.error((*where, key), message)
            fields = self.fields((*where, "fields"), name, model.fields)
            return Field(model.name, offset=model.offset, fields=fields)
        vector = self._vector(where, name, model)
        count = math.prod(shape) * (vector.width if vector else 1)
        value = model.value
        if value is None and count == 1:
            value = [expressions.parse(model.name)]
        values = _values(self._document, where, name, value, count, self._names)
        self.count += count
        return Field(model.name, str(model.dtype), values, shape, model.offset)

    def _align(self, where: Where, name: str, model: FieldModel) -> int:
        align = model.align or 0
        if align & (align - 1):
            raise self._document.error(
                (*where, "align"), f"{name}: {align} is no power of two; write that of the source"
            )
        return align

    def _pointer(self, where: Where, name: str, model: FieldModel, shape: tuple[int, ...]) -> Field:
        """A field that is a pointer, or an array of pointers."""
        for key in ("dtype", "value", "fields"):
            if getattr(model, key) is not None:
                advice = "a pointer has no type or value of its own, but those of its array"
                raise self._document.error((*where, key), f"{name}: {advice}; remove this key")
        arrays = (model.array,) if isinstance(model.array, str) else tuple(model.array or ())
        if len(arrays) != math.prod(shape):
            need = f"write {math.prod(shape)}, one for each pointer" if shape else "write one, or add the `shape`"
            raise self._document.error((*where, "array"), f"{name}: {len(arrays)} arrays; {need}")
        self.count += len(arrays)
        null = (expressions.parse(0),) * len(arrays)
        return Field(model.name, _ADDRESS, null, shape, model.offset, arrays=arrays)

    def _vector(self, where: Where, name: str, model: FieldModel) -> Vector | None:
        """The vector type of a field; None if it is a number. Raises SpaceError for an unknown type."""
        if model.dtype is None:
            advice = "add it, or `fields` of a struct, or the `array` of a pointer"
            raise self._document.error((*where, "dtype"), f"{name}: this key is missing; {advice}")
        vector = structs.vector(model.dtype)
        if vector is None and model.dtype not in DTYPES and model.dtype not in self._types:
            allowed = ", ".join([*self._types, *DTYPES])
            message = f"{quoted(model.dtype)}: not the type of a field; allowed: {allowed}, and vectors such as float4"
            raise self._document.error((*where, "dtype"), message)
        return vector

    def _check_offset(self, where: Where, owner: str, read: Sequence[Field]) -> None:
        """Raise SpaceError if the last field begins within the one before, in every language and with every type."""
        *_, last = read
        if last.offset is None or len(read) == 1:
            return
        types = {name: min(allowed, key=lambda dtype: DTYPES[dtype].itemsize) for name, allowed in self._types.items()}
        before = structs.layout(Argument(owner, "", fields=tuple(read[:-1])), "c", types).dtype
        name = read[-2].name
        end = structs.end(before, name)
        if last.offset < end:
            message = f"{owner}.{last.name}: {last.offset} is within {name}, which ends at {end}"
            raise self._document.error((*where, "offset"), f"{message}; list the fields in the order of the source")


def _values(
    document: Document, where: Where, name: str, value: Sequence[Expression] | None, count: int, names: Collection[str]
) -> tuple[Expression, ...]:
    """The expressions of a field or vector. Raises SpaceError unless there is one for each of its numbers."""
    if value is None or len(value) != count:
        given = "no `value`" if value is None else f"{len(value)} values"
        need = "an expression" if count == 1 else f"{count} expressions, one for each number"
        raise document.error((*where, "value"), f"{name}: {given}; write {need}")
    for expression in value:
        check_names(document, (*where, "value"), expression, names)
    return tuple(value)
