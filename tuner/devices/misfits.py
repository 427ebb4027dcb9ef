"""Whether a space gives a launch what its binary takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.errors import LaunchError, SpaceError
from tuner.space import chosen_types, operation

if TYPE_CHECKING:
    from tuner.devices.interface import Interface
    from tuner.space.argument import Argument
    from tuner.space.instance import Instance
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.space.sources.source import StepSource

_POINTER = 8  # bytes


def check(interface: Interface, step: StepSource, position: int, instance: Instance) -> None:
    """Raise LaunchError, with the key of the space file, where a launch of this step would not fit its binary."""
    try:
        misfit = next(_misfits(interface, step, position, instance.space, instance.scope), None)
    except SpaceError:
        return  # a shape without a value: a launch reports it
    if misfit is not None:
        files = instance.space.files
        file = f"{files[0].name}: " if files else ""
        raise LaunchError(f"{file}{': '.join(misfit)}", "arguments")


def _misfits(
    interface: Interface, step: StepSource, position: int, space: Space, scope: Scope
) -> Iterator[tuple[str, str]]:
    """Each key of the space file that does not fit, and why."""
    by_name = {argument.name: argument for argument in space.operation.arguments}
    passed = [by_name[name] for name in step.arguments]
    passed = [a for a in passed if a.kind is None or a.kind.is_parameter(scope.language)]
    sizes = interface.parameters.get(step.kernel)
    if sizes is not None and len(passed) < len(sizes):
        given = ", ".join(argument.name for argument in passed)
        many = f"{len(passed)} ({given}) for {step.kernel}, which takes {len(sizes)}"
        yield "operation.arguments", f"{many}; write one for each, in its order"
    for argument, size in zip(passed, sizes or (), strict=False):
        if argument.kind is None:
            yield from _size(argument, size, step.kernel, scope)
    for argument in space.operation.arguments:
        if argument.kind is not None and not argument.kind.is_parameter(scope.language):
            yield from _variable(argument, interface, scope)
    if step.kernel in interface.dynamic and space.steps[position].shared_memory.text == "0":
        message = f"is 0, and {step.kernel} uses an array that is extern __shared__; write the bytes that a block needs"
        yield "shared_memory", message


def _size(argument: Argument, size: int, kernel: str, scope: Scope) -> Iterator[tuple[str, str]]:
    """Whether the kernel takes `size` bytes for an argument that the file declares otherwise."""
    where = f"operation.arguments.{argument.name}"
    if argument.shape is not None:
        if size != _POINTER:
            yield where, f"is an array, and {kernel} takes {size} bytes here, no address; leave `shape` and `role` out"
        return
    dtype = chosen_types.dtype(argument, scope)
    if dtype.itemsize != size:
        takes = f"{dtype.name} has {dtype.itemsize} bytes, and {kernel} takes {size} here"
        yield f"{where}.dtype", f"{takes}; write the type of the source, and take what is no number apart there"


def _variable(argument: Argument, interface: Interface, scope: Scope) -> Iterator[tuple[str, str]]:
    """Whether an array is larger than the variable of constant memory that each launch fills with it."""
    nbytes, most = operation.nbytes(argument, scope), interface.variables.get(argument.name)
    if most is not None and nbytes > most:
        extents = ", ".join(map(str, operation.shape(argument, scope)))
        message = (
            f"[{extents}] of {chosen_types.dtype(argument, scope).name} has {nbytes} bytes, and the variable of the "
        )
        yield (
            f"operation.arguments.{argument.name}.shape",
            f"{message}source {most}; write its extents, or make it larger",
        )
