"""Reads `kind:` of an argument, and the keys of that kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tuner.quoting import quoted
from tuner.space import kinds
from tuner.space.argument import Kind
from tuner.space.computation import Operation
from tuner.space.expressions import parse
from tuner.space.file.name_check import check_names
from tuner.space.file.schema import ArgumentModel
from tuner.space.file.value_types import is_by_parameter
from tuner.space.file.yamlfile import Document, Where

_CONSTANT, _GLOBAL = "constant", "global"  # the kinds that a parameter may choose


def read(
    document: Document,
    where: Where,
    model: ArgumentModel,
    names: Collection[str],
    parameters: Mapping[str, Sequence[object]],
) -> Kind | None:
    """The kind of an argument; None for a plain array or scalar.

    names: those that its expressions may use.
    parameters: the values of the space's parameters, one of which may choose the kind.

    Raises SpaceError for a key that the kind does not have, a required key that is missing, or an invalid value.
    """
    all_keys = {name for kind in kinds.table().values() for name in kind.keys} - {"fill"}
    given = {name: getattr(model, name) for name in all_keys if getattr(model, name) is not None}
    named = model.kind or ""
    if is_by_parameter(named):
        chooser, named = named[1:-1], _CONSTANT
        _check_chooser(document, (*where, "kind"), chooser, parameters)
        if "when" in given:
            raise document.error((*where, "when"), f"{model.name}: {chooser} chooses the kind; remove this key")
        given["when"] = [parse(f"{chooser} == {_CONSTANT!r}")]
    entry = kinds.table().get(named)
    own = entry.keys if entry is not None else {}
    for name in given.keys() - own.keys():
        owners = [kind.name for kind in kinds.table().values() if name in kind.keys]
        raise document.error(
            (*where, name), f"only `kind: {' or '.join(owners)}` has this key; write that kind, or remove the key"
        )
    if entry is None:
        return None
    if "fill" in own and model.fill is not None:
        given["fill"] = model.fill
    for name, key in own.items():
        if name not in given and key.default is None:
            raise document.error((*where, name), f"this key of `kind: {entry.name}` is missing; add it")
        value = given.setdefault(name, key.default)
        if key.choices and value not in key.choices:
            raise document.error((*where, name), f"{quoted(value)}; allowed: {', '.join(map(str, key.choices))}")
    if model.role not in entry.roles:
        roles = [f"`role: {role}`" if role else "no `role`" for role in entry.roles]
        advice = "write that" if any(entry.roles) else "remove it"
        message = f"{model.name}: `kind: {entry.name}` allows {' or '.join(roles)}; {advice}"
        raise document.error((*where, "role"), message)
    if (model.shape is not None) != entry.has_shape:
        need = "needs a `shape`; add it" if entry.has_shape else "has no `shape`; remove it"
        raise document.error((*where, "shape"), f"{model.name}: `kind: {entry.name}` {need}")
    if model.dtype is not None and not entry.has_shape:
        message = f"{model.name}: `kind: {entry.name}` has no `dtype`; remove this key"
        raise document.error((*where, "dtype"), message)
    kind = kinds.made(entry.name, given)
    for name, values in kind.expressions.items():
        for expression in values:
            check_names(document, (*where, name), expression, names)
    return kind


def _check_chooser(document: Document, where: Where, name: str, parameters: Mapping[str, Sequence[object]]) -> None:
    """Raise SpaceError if no parameter `name` has kinds as its values."""
    if name not in parameters:
        known = ", ".join(parameters)
        raise document.error(where, f"{{{name}}}: there is no parameter {name}; the parameters are {known}")
    if other := [value for value in parameters[name] if value not in (_CONSTANT, _GLOBAL)]:
        allowed = (
            f"`{_CONSTANT}` and `{_GLOBAL}`; for other values, write `kind: {_CONSTANT}` and a condition in `when:`"
        )
        raise document.error(where, f"{{{name}}}: {name} has the value {quoted(other[0])}; allowed: {allowed}")


def check(document: Document, place: Where, operation: Operation, languages: Collection[str]) -> None:
    """Raise SpaceError for a kind that one of the languages lacks, or that does not suit its argument or array."""
    for position, argument in enumerate(operation.arguments):
        if argument.kind is None:
            continue
        if any(name not in argument.kind.languages for name in languages):
            able = ", ".join(argument.kind.languages)
            raise document.error(
                (*place, position, "kind"),
                f"{argument.kind.name} is for {able} only, and the languages are {', '.join(languages)}; "
                f"write `languages: [{able}]`, or {argument.kind.instead}",
            )
        if (fault := argument.kind.fault(argument, operation)) is not None:
            raise document.error((*place, position, fault[0]), fault[1])
        if strided := [a.name for a in operation.strided if a.name in argument.kind.describes]:
            raise document.error(
                (*place, position, "kind"),
                f"{argument.kind.name} describes {strided[0]} as a contiguous array; remove its `strides`",
            )
