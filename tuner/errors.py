"""Every error that the package raises on purpose.

    TunerError                     base class; the command line prints it as one message
      RequestError                 the request is invalid: exit status 2
        OptionError                an option has a wrong value
        SpaceError                 a space or operation file is invalid
          ExpressionError          an expression is not allowed, or has no value
        NoConfiguration            no configuration satisfies the restrictions at this size
        DeviceError                the device or its driver is missing
          OutOfMemory              the device has too little memory
        ArgumentError              an argument of a launch has a wrong shape, dtype, order or device
          MisalignedArray          an array is less aligned than the kernel needs
        EnvironmentTrouble         the machine is at fault: a full disk, a missing file, a killed process
      TrialError                   one configuration failed; the run continues
        GeometryError              its grid, block or a derived value cannot be computed
        BuildError                 it does not compile
        ResourceError              its build needs more than the device has
        LaunchError                it does not load or launch, or it faults
        WrongResult                its output is wrong
      WorkerDied                   the process that held the device ended; its trial failed

A `TrialError` or `WorkerDied` fails one configuration: compiler, driver or comparison say so of its kernel. After an
`EnvironmentTrouble`, the same work is tried again, and no configuration fails; any error of a worker that is not in
this tree becomes one. Any other error ends the run. An error is passed between processes by its class name; `BY_NAME`
maps names to classes.
"""

from collections.abc import Iterator, Mapping
from typing import Any


class TunerError(Exception):
    """Base of all errors of this package. `str()` is a complete message for the user."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.args, vars(self))  # constructors take more than the message


class RequestError(TunerError):
    """The request cannot be fulfilled as made."""


class OptionError(RequestError):
    """An option has a wrong value. `fault` is the value and what is wrong with it; `str()` is for the command line."""

    def __init__(self, fault: str, option: str = "") -> None:
        super().__init__(f"--{option} {fault}" if option else fault)
        self.fault, self.option = fault, option

    @property
    def in_python(self) -> str:
        """The message for a program, in which the option is a keyword."""
        return f"{self.option.replace('-', '_')}={self.fault}" if self.option else self.fault


class SpaceError(RequestError):
    """A YAML file is not a valid space; the message names file, line and key."""


class ExpressionError(SpaceError):
    """An expression of a space file is not allowed, or has no value for these sizes and parameters."""


class NoConfiguration(RequestError):
    """No configuration satisfies the restrictions at the given size on the given device."""


class DeviceError(RequestError):
    """The device or its driver is missing; as OutOfMemory, the device has too little memory."""


class OutOfMemory(DeviceError):
    """The device has too little memory for an array."""


class ArgumentError(RequestError):
    """An argument of a launch does not fit the kernel; the message names the argument."""


class MisalignedArray(ArgumentError):
    """An array's address is less aligned than this kernel needs; other kernels may accept it.

    `alignment` is the address's alignment in bytes: the largest power of two that divides it.
    """

    def __init__(self, message: str, alignment: int = 1) -> None:
        super().__init__(message)
        self.alignment = alignment


class EnvironmentTrouble(RequestError):
    """The machine is at fault, not a configuration. `reason` is a short phrase."""

    def __init__(self, message: str, reason: str = "machine trouble") -> None:
        super().__init__(message)
        self.reason = reason


class TrialError(TunerError):
    """One configuration failed. `reason` is the short phrase under which failures are counted; each class has a
    default."""

    reason = "failed"

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or self.reason


class GeometryError(TrialError):
    """A grid, block, shared memory size or derived value cannot be computed; the message names the expression."""

    reason = "geometry"


class BuildError(TrialError):
    """The compiler rejected the source; the message is its log."""

    reason = "compile"


class ResourceError(TrialError):
    """The build needs more threads, registers or shared memory than the device has. Raised before any launch."""

    reason = "resources"


class LaunchError(TrialError):
    """The driver could not load or launch the kernel, or the kernel faulted."""

    reason = "launch"


class WrongResult(TrialError):
    """The output differs from the answer by more than the bound."""

    reason = "wrong result"


class WorkerDied(TunerError):
    """The process that held the device ended or was stopped.

    `reason` says which; `signal` is the number of the signal that killed the process, or 0.
    """

    def __init__(self, message: str, reason: str, signal: int = 0) -> None:
        super().__init__(message)
        self.reason, self.signal = reason, signal


def _unpickled(kind: type[TunerError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> TunerError:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


def _tree(error: type[TunerError]) -> Iterator[type[TunerError]]:
    yield error
    for subclass in error.__subclasses__():
        yield from _tree(subclass)


BY_NAME: Mapping[str, type[TunerError]] = {error.__name__: error for error in _tree(TunerError)}
