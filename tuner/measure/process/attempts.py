"""Repeat an action that failed because of trouble of the machine."""

from collections.abc import Callable
from typing import TypeVar

from tuner.errors import EnvironmentTrouble

PAUSES = (0.5, 1.5)  # seconds before the second and third attempt

T = TypeVar("T")


def with_retries(action: Callable[[], T], noted: Callable[[str], None], wait: Callable[[float], object]) -> T:
    """Call `action` up to three times until it meets no EnvironmentTrouble, and return its result.

    `noted` receives a message about the first trouble. `wait` sleeps for some seconds; if it returns true, no attempt
    follows. Raises EnvironmentTrouble if every attempt meets it.
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
