"""What a worker measures: a problem and a method; and what the user is told of its inputs and answers."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import field
from typing import Any

from tuner.classes import dataclass
from tuner.errors import WorkerDied
from tuner.measure.method import STANDARD, TIMEOUT, Method
from tuner.quoting import shown
from tuner.space import launch_form, operation, snapshot
from tuner.space.expressions import cases
from tuner.space.model import Space
from tuner.space.scope import Limits
from tuner.space.values.python_function import PythonFunction

START_TIMEOUT = 600.0  # seconds to open the device, and again to compute inputs and answers


@dataclass(frozen=True)
class Task:
    """The problem to measure, and the method. `timeout` is in seconds, per configuration."""

    space: Space
    sizes: dict[str, int]
    options: dict[str, float]
    method: Method = STANDARD
    timeout: float = TIMEOUT
    types: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The task as JSON for a worker, without the device."""
        scope = self.space.operation.scope(self.sizes, self.options, "", Limits(), self.types)
        return {
            "space": launch_form.to_json(self.space, scope.passed_options),
            "files": snapshot.to_json(),
            "sizes": self.sizes,
            "options": self.options,
            "types": self.types,
            "method": self.method.to_json(),
        }


def announce(space: Space, noted: Callable[[str], None]) -> None:
    """Tell the user, through `noted`, which Python functions a space file makes this run call.

    A space made in Python names those of its own program.
    """
    functions = [f for f in space.operation.python_functions if isinstance(f, PythonFunction)]
    if functions and space.files:
        noted(f"runs {shown(' and '.join(map(str, functions)))} of {space.operation_origin}")


def uncomputed(space: Space, died: WorkerDied) -> str:
    """The message for a worker that died while it computed inputs and answers."""
    what = f"the inputs and answers of {space.operation_origin}"
    if died.reason == "timeout":
        functions = " and ".join(map(str, space.operation.python_functions))
        by = f", for which {shown(functions)} is called," if functions else ""
        return f"{what}{by} were not computed within {START_TIMEOUT:g} s; compute them faster, or try a smaller size"
    return f"{what} cannot be computed: {explained(space, died)}"


def explained(space: Space, died: WorkerDied) -> WorkerDied:
    """The same error, with a hint if integer inputs without a `fill:` may be the cause: divisors or indices."""
    hint = ""
    if died.signal == signal.SIGFPE:
        hint = cases.division_hint(operation.integers_without_fill(space.operation))
    elif died.signal in (signal.SIGSEGV, signal.SIGBUS):
        hint = operation.index_hint(space.operation)
    return WorkerDied(f"{died}; {hint}", died.reason, died.signal) if hint else died
