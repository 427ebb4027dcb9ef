"""Functions that a program passes when it makes a space in Python. They run in the process of that program alone."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import field
from typing import Any

from tuner.classes import dataclass
from tuner.space.expressions.function_names import named

_P = inspect.Parameter
_KINDS = {
    kind.name: kind
    for kind in (_P.POSITIONAL_ONLY, _P.POSITIONAL_OR_KEYWORD, _P.VAR_POSITIONAL, _P.KEYWORD_ONLY, _P.VAR_KEYWORD)
}


@dataclass(frozen=True)
class FunctionObject:
    """A function, as far as other processes know it.

    place: the file and line of its definition; empty if unknown.
    token: tells it from the others of its process.
    parameters: name, kind, and whether it has a default, of each parameter.
    target: the function; None in other processes.
    """

    name: str
    place: str
    token: str
    parameters: tuple[tuple[str, str, bool], ...]
    target: Callable[..., Any] | None = field(default=None, compare=False)

    @staticmethod
    def of(target: Callable[..., Any]) -> FunctionObject:
        """The function of this process. Raises ValueError if its parameters are unknown."""
        name, place = named(target)
        try:
            signature = inspect.signature(target).parameters.values()
        except (TypeError, ValueError):
            raise ValueError(f"{name}: its parameters are unknown; define it with `def`") from None
        parameters = tuple((p.name, p.kind.name, p.default is not p.empty) for p in signature)
        parts = (target.__func__, target.__self__) if isinstance(target, types.MethodType) else (target,)
        return FunctionObject(name, place, " ".join(str(id(part)) for part in parts), parameters, target)

    @property
    def signature(self) -> inspect.Signature:
        """Its parameters. Defaults stand for whatever they are."""
        made = [
            inspect.Parameter(name, _KINDS[kind], default=None if has_default else inspect.Parameter.empty)
            for name, kind, has_default in self.parameters
        ]
        return inspect.Signature(made)

    @property
    def origin(self) -> str:
        """`tune.py:12: expected()`, for messages."""
        return f"{self.place}: {self}" if self.place else str(self)

    def __str__(self) -> str:
        return self.name
