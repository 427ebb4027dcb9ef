"""Tries again what met trouble of the machine, a few times."""

from collections.abc import Callable
from typing import TypeVar

from tuner.errors import EnvironmentTrouble

PAUSES = (0.5, 1.5)  # seconds before the second and the third attempt

T = TypeVar("T")


def patiently(action: Callable[[], T], noted: Callable[[str], None], wait: Callable[[float], object]) -> T:
    """What `action` returns. The first trouble is `noted`; a `wait` that returns true ends the attempts.

    Raises EnvironmentTrouble where every attempt meets it.
    """
    for attempt, pause in enumerate(PAUSES):
        try:
            return action()
        except EnvironmentTrouble as trouble:
            if wait(pause):
                raise
            if not attempt:
                noted(f"{trouble}; trying again")
    return action()
