"""Repeat an action that failed because of trouble of the machine, and tell such trouble from a configuration's own."""

import time
from collections.abc import Callable
from typing import TypeVar

from tuner.devices.environment import PERHAPS_ITS_OWN
from tuner.errors import EnvironmentTrouble, TrialError, WorkerDied

PAUSES = (0.5, 1.5)  # seconds before the second and third attempt

T = TypeVar("T")


def with_retries(
    action: Callable[[], T], noted: Callable[[str], None], wait: Callable[[float], object] = time.sleep
) -> T:
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


def own_failure(error: WorkerDied | TrialError | EnvironmentTrouble) -> str:
    """Why a configuration failed, as `reason: log`. Raises the error again if only the machine can have caused it."""
    if isinstance(error, EnvironmentTrouble) and error.reason not in PERHAPS_ITS_OWN:
        raise error
    return f"{error.reason}: {error}"
