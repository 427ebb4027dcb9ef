"""The conditions of a trial: values that its result depends on, such as the number of threads, and that are not part of
its problem, space, device or method.

They are values by name. A name that is absent stands for its default, so a trial without conditions was measured with
all defaults, as every trial was that is older than the name. Only other values are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tuner.classes import dataclass

Value = int | float | str


@dataclass(frozen=True)
class Conditions:
    """The values that are not their defaults, by name: `{"OMP_NUM_THREADS": 1}`.

    A value that the environment sets has the name of its variable.
    """

    values: Mapping[str, Value] = field(default_factory=dict)

    @staticmethod
    def of(effective: Mapping[str, Value], defaults: Mapping[str, Value]) -> Conditions:
        """The conditions under which `effective` values differ from `defaults`, which has each name."""
        return Conditions({name: value for name, value in sorted(effective.items()) if value != defaults[name]})

    def and_also(self, others: Conditions) -> Conditions:
        """These conditions and `others`, which have other names."""
        return Conditions({**self.values, **others.values})

    def __bool__(self) -> bool:
        """Whether any value is not its default."""
        return bool(self.values)

    def __str__(self) -> str:
        """`OMP_NUM_THREADS=1, OMP_SCHEDULE=dynamic`; empty without conditions."""
        return ", ".join(f"{name}={value}" for name, value in sorted(self.values.items()))

    @property
    def identity(self) -> str:
        """The text that a digest or a key gets; empty without conditions, so those of older trials are unchanged."""
        return f" conditions {sorted(self.values.items())}" if self.values else ""

    def instead_of(self, other: Conditions) -> str:
        """How they differ from `other`, as `OMP_NUM_THREADS=1 instead of the default`; empty if they are the same."""
        ours, others = self.values, other.values
        changed = [name for name in sorted(ours.keys() | others.keys()) if ours.get(name) != others.get(name)]
        return ", ".join(
            f"{name}={ours[name]} instead of {others.get(name, 'the default')}"
            if name in ours
            else f"the default {name} instead of {others[name]}"
            for name in changed
        )


DEFAULT = Conditions()
