"""A configuration: the values of the parameters, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_VALUES = 10_000  # of a parameter
Value = int | float | bool | str
Config = dict[str, Value]
ConfigKey = tuple[tuple[str, bool, Value], ...]


def config_key(config: Mapping[str, Value]) -> ConfigKey:
    """A configuration as a dictionary key, in which True differs from 1."""
    return tuple([(name, value is True or value is False, value) for name, value in sorted(config.items())])


def contains(values: Iterable[Value], value: Value) -> bool:
    """Whether `values` contain `value`. True differs from 1, because they render differently; 2.0 equals 2."""
    return any(v == value and isinstance(v, bool) == isinstance(value, bool) for v in values)
