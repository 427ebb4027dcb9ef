"""The budget of a search: a number of configurations, a time, or both."""

from __future__ import annotations

import contextlib

from tuner.classes import dataclass
from tuner.errors import OptionError, RequestError
from tuner.quoting import quoted

UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Budget:
    """A limit on configurations, on seconds, on both, or none."""

    evaluations: int | None = None
    seconds: float | None = None

    @staticmethod
    def parse(text: str | None) -> Budget:
        """Parse `100` (configurations), `90s`, `2m`, `1h`, or both as in `100,2m`; None is no limit.

        Raises OptionError for other text.
        """
        if text is None:
            return Budget()
        limits = [_limit(part.strip()) for part in text.split(",")]
        counts = [limit.evaluations for limit in limits if limit is not None and limit.evaluations is not None]
        times = [limit.seconds for limit in limits if limit is not None and limit.seconds is not None]
        if None in limits or len(counts) > 1 or len(times) > 1:
            raise OptionError(
                f"{quoted(text)}: write a number of configurations from 1 to 999999999, such as 100, or a time: 90s, "
                "2m, 1h, or both: 100,2m",
                "budget",
            )
        return Budget(counts[0] if counts else None, times[0] if times else None)

    @staticmethod
    def parse_time(text: object, name: str = "--budget") -> float:
        """Parse `90s`, `2m` or `1h` into seconds. Raises RequestError, which begins with `name`, for other text."""
        with contextlib.suppress(RequestError):
            budget = Budget.parse(text) if isinstance(text, str) else UNLIMITED
            if budget.seconds is not None and budget.evaluations is None:
                return budget.seconds
        raise RequestError(f"{name} {quoted(text)}: write a time for all of it: 90s, 10m or 1h")

    def text(self) -> str | None:
        """The text that `parse` reads as this budget."""
        limits = [] if self.evaluations is None else [str(self.evaluations)]
        limits += [] if self.seconds is None else [f"{self.seconds:g}s"]
        return ",".join(limits) or None


def _limit(text: str) -> Budget | None:
    """A limit on configurations or on seconds; None for text that is neither."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "")
    try:
        value = float(number) if unit else int(number)
    except ValueError:
        return None
    if not 0 < value < 10**9:
        return None
    return Budget(seconds=value * UNITS[unit]) if unit else Budget(evaluations=int(value))


UNLIMITED = Budget()
