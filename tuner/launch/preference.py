"""Candidates in order of preference: the first that builds, and warnings of those that do not."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable
from typing import TypeVar

from tuner.devices import Device
from tuner.errors import DeviceError, TrialError
from tuner.space.texts import config_text
from tuner.store.lookup import Candidate

logger = logging.getLogger(__name__)

T = TypeVar("T")


def first_that_builds(
    choices: Iterable[tuple[str, Candidate, Callable[[], T]]], device: Device, stacklevel: int
) -> T | None:
    """The first of `choices` that builds and loads; None if there is nothing to try.

    A choice is a kernel's name, a candidate, and a function that builds it, or returns None if it is not available.
    Warns of the candidate's notes, and of the error of a better choice that was skipped. Raises the first error if
    none builds.
    """
    failure: TrialError | DeviceError | None = None
    for name, candidate, build in choices:
        label = f"{name}, {config_text(candidate.config)}, on {device.id}"
        try:
            kernel = build()
        except (TrialError, DeviceError) as error:
            failure = failure or _labelled(error, label)
            continue
        if kernel is None:
            continue
        logger.debug("%s: match %s", label, candidate.match)
        for note in candidate.notes:
            warnings.warn(note, stacklevel=stacklevel)
        if failure is not None:
            reason = str(failure).partition("\n")[0]
            warnings.warn(
                f"{kernel!r}: used because a better configuration does not run here: {reason}", stacklevel=stacklevel
            )
        return kernel
    if failure is not None:
        raise failure
    return None


def _labelled(error: TrialError | DeviceError, label: str) -> TrialError | DeviceError:
    """The same error, with `label` in front of its text."""
    text = f"{label}: {error}"
    labelled = DeviceError(text) if isinstance(error, DeviceError) else type(error)(text, error.reason)
    labelled.__cause__ = error
    return labelled
