"""`dataclass` without code of its own, `cached_property` without a lock, and variables that a block sets."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


@contextlib.contextmanager
def setting(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    """A block in which a variable of this thread has a value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


class cached_property(Generic[Value]):  # noqa: N801  # a drop-in replacement for functools.cached_property
    """A property that is computed once per instance.

    Until Python 3.12, functools.cached_property has a lock, which a forked process may inherit locked and then wait for
    forever. Without a lock, threads that read the property at the same time may compute it twice.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object, owner: type) -> Self | Value:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, repr: bool = True, eq: bool = True) -> Callable[[type], type]:
        """The decorator of a frozen class, `@dataclass(frozen=True)`: see `dataclasses.dataclass`.

        The standard library compiles up to six methods of each class, which takes 0.4 ms: most of the import of a
        module. Here, it only finds the fields; a method is compiled when it is first needed.

        A base or a subclass that is a data class takes this decorator, too: to `dataclasses`, the class is not frozen.
        Raises TypeError for a field that is not a parameter by position (`kw_only`, `init=False`, `InitVar`), and for
        one without a default that follows one with a default.
        """
        assert frozen, "a class that changes takes dataclasses.dataclass"
        return lambda cls: _completed(cls, repr, eq)


def _completed(cls: Any, has_repr: bool, has_eq: bool) -> Any:
    """The class with its fields, and with the methods that it does not define itself."""
    own = dict(vars(cls))
    cls = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    _check_fields(cls)
    compiled = ("__init__", "__eq__", "__hash__") if has_eq else ("__init__",)
    methods: dict[str, Any] = {name: _Uncompiled(cls, name) for name in compiled}
    methods |= _refusals(cls)
    methods |= {"__repr__": _repr(cls)} if has_repr else {}
    if "__eq__" in own and own.get("__hash__") is None:  # Python's own entry beside an __eq__
        own.pop("__hash__", None)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _check_fields(cls: Any) -> None:
    parameters, with_default = dataclasses.fields(cls), ""
    names = {each.name for each in parameters if each.init and not each.kw_only}
    for name, each in cls.__dataclass_fields__.items():
        if name not in names and each._field_type.name != "_FIELD_CLASSVAR":
            raise TypeError(
                f"{cls.__qualname__}.{name} is not a parameter by position (`kw_only`, `init=False` or `InitVar`); "
                "such a class takes `dataclasses.dataclass`"
            )
    for each in parameters:
        if _has_default(each):
            with_default = each.name
        elif with_default:
            raise TypeError(f"{cls.__qualname__}: non-default argument {each.name!r} follows default {with_default!r}")


def _has_default(each: dataclasses.Field[Any]) -> bool:
    return each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING


class _Uncompiled:
    """A method of a class until it is first looked up, which compiles it."""

    def __init__(self, cls: Any, name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        names: dict[str, Any] = {}
        exec(_WRITERS[self._name](self._cls, names), names)  # noqa: S102
        method = names[self._name]
        method.__qualname__, method.__module__ = f"{self._cls.__qualname__}.{self._name}", self._cls.__module__
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _init(cls: Any, names: dict[str, Any]) -> str:
    """The text of `__init__`; `names` gets what it refers to."""
    parameters, lines = ["self"], []
    for each in dataclasses.fields(cls):
        default, value = f"__default_{each.name}", each.name
        names[default] = each.default
        if each.default_factory is not dataclasses.MISSING:
            names[f"__new_{each.name}"] = each.default_factory
            value = f"__new_{each.name}() if {each.name} is {default} else {each.name}"
        parameters.append(f"{each.name}={default}" if _has_default(each) else each.name)
        lines.append(f"__set(self, {each.name!r}, {value})")
    lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    names["__set"] = object.__setattr__
    return f"def __init__({', '.join(parameters)}): {'; '.join(lines) or 'pass'}"


def _eq(cls: Any, names: dict[str, Any]) -> str:
    compared = [each.name for each in dataclasses.fields(cls) if each.compare]
    same = f"{_values('self', compared)} == {_values('other', compared)}"
    return f"def __eq__(self, other): return {same} if other.__class__ is self.__class__ else NotImplemented"


def _hash(cls: Any, names: dict[str, Any]) -> str:
    hashed = [each.name for each in dataclasses.fields(cls) if (each.compare if each.hash is None else each.hash)]
    return f"def __hash__(self): return hash({_values('self', hashed)})"


def _values(owner: str, names: list[str]) -> str:
    return f"({''.join(f'{owner}.{name}, ' for name in names)})"


_WRITERS = {"__init__": _init, "__eq__": _eq, "__hash__": _hash}


def _repr(cls: Any) -> Callable[[Any], str]:
    @recursive_repr()
    def shown(self: Any) -> str:
        values = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(cls) if each.repr)
        return f"{self.__class__.__qualname__}({', '.join(values)})"

    return shown


def _refusals(cls: Any) -> dict[str, Any]:
    """`__setattr__` and `__delattr__`. A subclass without the decorator may set attributes that are no fields."""

    def is_frozen(self: object, name: str) -> bool:
        return type(self) is cls or any(each.name == name for each in dataclasses.fields(cls))

    def set_other(self: object, name: str, value: object) -> None:
        if is_frozen(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_other(self: object, name: str) -> None:
        if is_frozen(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_other, "__delattr__": delete_other}
