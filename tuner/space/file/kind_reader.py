"""The kinds of arguments that a space file names, and their keys."""

from __future__ import annotations

from collections.abc import Collection

from tuner.quoting import quoted
from tuner.space import kinds
from tuner.space.argument import Kind
from tuner.space.file.name_check import check_names
from tuner.space.file.schema import ArgumentModel
from tuner.space.file.yamlfile import Document, Where
from tuner.space.model import Operation


def read(document: Document, where: Where, model: ArgumentModel, names: Collection[str]) -> Kind | None:
    """The kind of an argument, None for a plain one. Its expressions may use `names`. Raises SpaceError for keys that
    are not of that kind."""
    every = {name for kind in kinds.table().values() for name in kind.keys} - {"fill"}
    given = {name: getattr(model, name) for name in every if getattr(model, name) is not None}
    found = kinds.table().get(model.kind or "")
    own = found.keys if found is not None else {}
    for name in given.keys() - own.keys():
        of = [kind.name for kind in kinds.table().values() if name in kind.keys]
        raise document.error((*where, name), f"is a key of `kind: {' or '.join(of)}`; write that, or take it out")
    if found is None:
        return None
    if "fill" in own and model.fill is not None:
        given["fill"] = model.fill
    for name, key in own.items():
        if name not in given and key.default is None:
            raise document.error((*where, name), f"this key of `kind: {found.name}` is missing; add it")
        value = given.setdefault(name, key.default)
        if key.choices and value not in key.choices:
            raise document.error((*where, name), f"{quoted(value)}; allowed are {', '.join(map(str, key.choices))}")
    if model.role not in found.roles:
        roles = [f"`role: {role}`" if role else "no `role`" for role in found.roles]
        advice = "write that" if any(found.roles) else "take it out"
        raise document.error((*where, "role"), f"{model.name}: `kind: {found.name}` has {' or '.join(roles)}; {advice}")
    if (model.shape is not None) != found.has_shape:
        need = "needs a `shape`; add it" if found.has_shape else "has no `shape`; take it out"
        raise document.error((*where, "shape"), f"{model.name}: `kind: {found.name}` {need}")
    if model.dtype is not None and not found.has_shape:
        raise document.error(
            (*where, "dtype"), f"{model.name}: `kind: {found.name}` has that of the array; take it out"
        )
    kind = kinds.made(found.name, given)
    for name, values in kind.expressions.items():
        for expression in values:
            check_names(document, (*where, name), expression, names)
    return kind


def check(document: Document, place: Where, operation: Operation, languages: Collection[str]) -> None:
    """Raise SpaceError for a kind that a language lacks, and for what else is wrong with one."""
    for position, argument in enumerate(operation.arguments):
        if argument.kind is None:
            continue
        if lacking := [name for name in languages if name not in argument.kind.languages]:
            able = ", ".join(argument.kind.languages)
            raise document.error(
                (*place, position, "kind"),
                f"{argument.kind.name} is for {able} only, and the languages are {', '.join(languages)}; "
                f"{lacking[0]} has none",
            )
        if (fault := argument.kind.fault(argument, operation)) is not None:
            raise document.error((*place, position, fault[0]), fault[1])
        if apart := [a.name for a in operation.strided if a.name in argument.kind.describes]:
            raise document.error(
                (*place, position, "kind"),
                f"{argument.kind.name} describes {apart[0]} as a contiguous array; leave its `strides` out",
            )
