"""A configuration: the values of the parameters, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Value = int | float | bool | str
Config = dict[str, Value]
ConfigKey = tuple[tuple[str, bool, Value], ...]


def config_key(config: Mapping[str, Value]) -> ConfigKey:
    """A configuration as a key of a dictionary. In it, True is not 1."""
    return tuple((name, isinstance(value, bool), value) for name, value in sorted(config.items()))


def contains(values: Iterable[Value], value: Value) -> bool:
    """Whether `values` contain `value`. True is not 1, because they render differently; but 2.0 is 2."""
    return any(v == value and isinstance(v, bool) == isinstance(value, bool) for v in values)
