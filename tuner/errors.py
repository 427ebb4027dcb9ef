"""Every error the package raises on purpose.

    TunerError                     anything below; the command line prints it as one message
      RequestError                 the request was wrong: exit status 2
        SpaceError                 a space or operation file says something it may not
          ExpressionError          an expression cannot be read, or cannot be evaluated
        NoConfiguration            the restrictions leave nothing to run at this size
        DeviceError                the device asked for is not there, or too small
        ArgumentError              an argument of a launch has a wrong shape, dtype, order or device
      TrialError                   skip this configuration and go on
        GeometryError              its grid, block or a derived value cannot be computed
        BuildError                 it does not compile
        ResourceError              its build needs more than the device has
        LaunchError                it does not load or launch
        WrongResult                it computes something else
      WorkerDied                   the process that held the device is gone (the trial it ran failed)

A `TrialError` costs one configuration; everything else ends the run. `BY_NAME` has each class by its name, so that an
error crosses from one process to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class TunerError(Exception):
    """Base of all errors of this package; `str()` is a complete message for a user."""


class RequestError(TunerError):
    """The request cannot be carried out as it was made."""


class SpaceError(RequestError):
    """A YAML file is not a valid space; the message names file, line and key."""


class ExpressionError(SpaceError):
    """An expression is not one that a space file may contain, or has no value here."""


class NoConfiguration(RequestError):
    """No configuration satisfies the restrictions at the given size on the given device."""


class DeviceError(RequestError):
    """The device is missing, lacks its driver, or has too little memory."""


class ArgumentError(RequestError):
    """An argument of a launch does not fit; the message names the argument."""


class TrialError(TunerError):
    """One configuration failed. `reason` is a short, countable phrase for it: the class's own unless a closer one is
    given."""

    reason = "failed"

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or self.reason


class GeometryError(TrialError):
    """The configuration has no grid, block, shared memory or derived value; the message names the expression."""

    reason = "geometry"


class BuildError(TrialError):
    """The compiler refused the source; the message is its log."""

    reason = "compile"


class ResourceError(TrialError):
    """The build needs more threads, registers or shared memory than the device has; no device was asked."""

    reason = "resources"


class LaunchError(TrialError):
    """The device refused to load or launch the kernel, or the kernel faulted."""

    reason = "launch"


class WrongResult(TrialError):
    """The output differs from the reference by more than the bound."""

    reason = "wrong result"


class WorkerDied(TunerError):
    """The process that holds the device ended or was stopped; `reason` says how."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def _tree(error: type[TunerError]) -> Iterator[type[TunerError]]:
    yield error
    for kind in error.__subclasses__():
        yield from _tree(kind)


BY_NAME: Mapping[str, type[TunerError]] = {kind.__name__: kind for kind in _tree(TunerError)}
