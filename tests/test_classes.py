"""`tuner.classes.dataclass` makes what the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from tuner import classes


class Base:
    """A point: fields of each kind, and methods of its own."""

    kind: ClassVar[str] = "point"
    x: int
    y: float = 0.5
    names: dict[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


def made(decorator: Any, **options: Any) -> Any:
    """A class of these fields, and one that inherits from it."""
    methods = {"__post_init__": Base.__post_init__, "names": field(default_factory=dict), "__doc__": Base.__doc__}
    own = {"y": 0.5, "kind": "point", "note": field(default="", compare=False, repr=False)}
    types = {"__annotations__": dict(Base.__annotations__), "__module__": __name__}
    point = decorator(frozen=True, **options)(type("Point", (), {**methods, **own, **types}))
    more = {
        "__annotations__": {"z": "int"},
        "z": 3,
        "__module__": __name__,
        "__doc__": "More.",
        "__eq__": lambda *_: True,
    }
    return point, decorator(frozen=True, **options)(type("More", (point,), more))


def changed(value: Any, name: str) -> Any:
    """The attributes of a value with another one, which can also be deleted."""
    setattr(value, name, 7)
    after = dict(vars(value))
    delattr(value, name)
    return after, dict(vars(value))


def parameters(cls: Any) -> Any:
    """The names of the parameters, and whether each has a default."""
    return [(name, each.default == each.empty) for name, each in inspect.signature(cls).parameters.items()]


def outcome(action: Any, cls: Any) -> Any:
    """What an action makes of a class and of an object of it, or its error."""
    value = cls(1, names={"b": 2})
    try:
        return action(cls, value)
    except Exception as error:
        return type(error), str(error)


ACTIONS = (
    lambda cls, _: cls(),
    lambda cls, _: cls(1, 2, 3, 4, 5, 6),
    lambda cls, _: cls(1, w=1),
    lambda cls, _: cls(-1),
    lambda cls, _: cls(1).names is cls(1).names,
    lambda cls, _: cls.__match_args__,
    lambda _, x: setattr(x, "x", 2),
    lambda _, x: delattr(x, "x"),
    lambda cls, _: changed(type("Plain", (cls,), {})(1), "own"),
    lambda cls, _: changed(type("Plain", (cls,), {})(1), "x"),
    lambda _, x: dataclasses.asdict(x),
    lambda _, x: dataclasses.replace(x, y=7) == dataclasses.replace(x, y=7),
    lambda cls, x: (x == cls(1, names={"b": 2}, note="other"), x == cls(2), x == 1, x != cls(2)),
    lambda cls, x: vars(copy.copy(x)) == vars(x) and type(copy.copy(x)) is cls,
    lambda cls, _: hash(cls(1, names=())) == hash(cls(1, names=(), note="other")),
    lambda _, x: len({x: 1}),
    lambda _, x: type(x).__repr__ is not object.__repr__ and repr(x),
)


@pytest.mark.parametrize("options", [{}, {"eq": False}, {"repr": False}])
def test_a_frozen_class_is_as_the_standard_library_makes_it(options: dict[str, bool]) -> None:
    pairs = zip(made(classes.dataclass, **options), made(dataclasses.dataclass, **options), strict=True)
    for ours, theirs in pairs:
        assert parameters(ours) == parameters(theirs)  # of a class that has no object yet
        for action in ACTIONS:
            assert outcome(action, ours) == outcome(action, theirs)


def test_a_subclass_without_a_repr_of_its_own_shows_the_fields_of_its_base() -> None:
    shown = []
    for decorator in (classes.dataclass, dataclasses.dataclass):
        point = made(decorator)[0]
        body = {"__annotations__": {"w": int}, "w": 1, "__doc__": "Quiet."}
        shown.append(repr(decorator(frozen=True, repr=False)(type("Quiet", (point,), body))(1)))
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("types", "values", "error"),
    [
        ({"a": int, "b": int}, {"b": field(kw_only=True)}, "Odd.b is not a parameter by position"),
        ({"a": int, "b": int}, {"b": field(init=False)}, "Odd.b is not a parameter by position"),
        ({"a": int, "b": dataclasses.InitVar[int]}, {}, "Odd.b is not a parameter by position"),
        ({"a": int, "b": int}, {"a": 1}, "Odd: non-default argument 'b' follows default 'a'"),
    ],
)
def test_a_class_that_it_cannot_make_is_refused_at_its_definition(
    types: dict[str, Any], values: dict[str, Any], error: str
) -> None:
    with pytest.raises(TypeError, match=error):
        classes.dataclass(frozen=True)(type("Odd", (), {"__annotations__": types, "__doc__": "Odd.", **values}))


def test_it_is_pickled_and_refuses_to_change() -> None:
    value = Pair(1, "b")
    assert pickle.loads(pickle.dumps(value)) == value
    assert repr(value) == "Pair(a=1, b='b')"
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        value.a = 2


@classes.dataclass(frozen=True)
class Pair:
    """Two values."""

    a: int
    b: str
