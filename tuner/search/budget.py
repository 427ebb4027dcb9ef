"""The budget of a search: a number of configurations, or a time."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tuner.errors import RequestError
from tuner.quoting import quoted


@dataclass(frozen=True)
class Budget:
    """A limit on configurations or on seconds, or none."""

    evaluations: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str | None) -> Budget:
        """Parse `100` (configurations), `90s`, `2m` or `1h`; None is no limit. Raises RequestError for other text."""
        if text is None:
            return Budget()
        units = {"s": 1, "m": 60, "h": 3600}
        number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "")
        try:
            value = float(number) if unit else int(number)
        except ValueError:
            value = 0
        if not 0 < value < 10**9:
            raise RequestError(
                f"--budget {quoted(text)}: write a number of configurations of at least 1, such as 100, or a time: "
                "90s, 2m, 1h"
            )
        return Budget(seconds=value * units[unit]) if unit else Budget(evaluations=int(value))

    @staticmethod
    def parse_time(text: object, name: str = "--budget") -> float:
        """Parse `90s`, `2m` or `1h` into seconds. Raises RequestError, which begins with `name`, for other text."""
        with contextlib.suppress(RequestError):
            if isinstance(text, str) and (seconds := Budget.parse(text).seconds) is not None:
                return seconds
        raise RequestError(f"{name} {quoted(text)}: write a time for all of it: 90s, 10m or 1h")

    def text(self) -> str | None:
        """The text that `parse` reads as this budget."""
        if self.seconds is not None:
            return f"{self.seconds:g}s"
        return None if self.evaluations is None else str(self.evaluations)


UNLIMITED = Budget()
