"""Every error that the package raises on purpose.

    TunerError                     base class; the command line prints it as one message
      RequestError                 the request is wrong: exit status 2
        SpaceError                 a space or operation file is invalid
          ExpressionError          an expression is not allowed, or has no value
        NoConfiguration            no configuration satisfies the restrictions at this size
        DeviceError                the device is missing, or lacks its driver
          OutOfMemory              it has too little memory
        ArgumentError              an argument of a launch has a wrong shape, dtype, order or device
          MisalignedArray          an array begins where this kernel takes none
        EnvironmentTrouble         the machine has no room, memory or descriptors, or somebody killed a process
      TrialError                   one configuration failed; the run goes on
        GeometryError              its grid, block or a derived value cannot be computed
        BuildError                 it does not compile
        ResourceError              its build needs more than the device has
        LaunchError                it does not load or launch, or it faults
        WrongResult                its output is wrong
      WorkerDied                   the process that held the device ended; its trial failed

A `TrialError` or `WorkerDied` costs one configuration. An `EnvironmentTrouble` costs none: what met it is tried again.
Any other error ends the run. An error crosses from one process to another by its name: `BY_NAME` maps names to classes.
"""

from collections.abc import Iterator, Mapping


class TunerError(Exception):
    """Base of all errors of this package; `str()` is a complete message for a user."""


class RequestError(TunerError):
    """The request cannot be carried out as it was made."""


class SpaceError(RequestError):
    """A YAML file is not a valid space; the message names file, line and key."""


class ExpressionError(SpaceError):
    """An expression is not allowed in a space file, or has no value here."""


class NoConfiguration(RequestError):
    """No configuration satisfies the restrictions at the given size on the given device."""


class DeviceError(RequestError):
    """The device is missing, or lacks its driver; or, as OutOfMemory, it has too little memory."""


class OutOfMemory(DeviceError):
    """The device has too little memory for an array."""


class ArgumentError(RequestError):
    """An argument of a launch does not fit the kernel; the message names the argument."""


class MisalignedArray(ArgumentError):
    """An array begins where this kernel takes none; another one may. It begins at a multiple of `alignment` bytes, but
    of no larger power of two."""

    def __init__(self, message: str, alignment: int = 1) -> None:
        super().__init__(message)
        self.alignment = alignment


class EnvironmentTrouble(RequestError):
    """The machine is to blame, and no configuration is known to be. `reason` is a short phrase."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class TrialError(TunerError):
    """One configuration failed. `reason` is the short phrase that failures are counted by; each class has a default."""

    reason = "failed"

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or self.reason


class GeometryError(TrialError):
    """The grid, block, shared memory or a derived value cannot be computed; the message names the expression."""

    reason = "geometry"


class BuildError(TrialError):
    """The compiler refused the source; the message is its log."""

    reason = "compile"


class ResourceError(TrialError):
    """The build needs more threads, registers or shared memory than the device has. Raised before a launch is tried."""

    reason = "resources"


class LaunchError(TrialError):
    """The device refused to load or launch the kernel, or the kernel faulted."""

    reason = "launch"


class WrongResult(TrialError):
    """The output differs from the reference by more than the error bound."""

    reason = "wrong result"


class WorkerDied(TunerError):
    """The process that held the device ended, or was stopped; `reason` says which. `signal` is the number of the signal
    that killed it; 0 without one."""

    def __init__(self, message: str, reason: str, signal: int = 0) -> None:
        super().__init__(message)
        self.reason, self.signal = reason, signal


def _tree(error: type[TunerError]) -> Iterator[type[TunerError]]:
    yield error
    for subclass in error.__subclasses__():
        yield from _tree(subclass)


BY_NAME: Mapping[str, type[TunerError]] = {error.__name__: error for error in _tree(TunerError)}
