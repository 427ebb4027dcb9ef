"""Checks that the arguments which a space declares match the parameters of the compiled kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tuner.errors import LaunchError, SpaceError
from tuner.space import chosen_types, structs

if TYPE_CHECKING:
    from tuner.devices.builds.interface import Interface
    from tuner.space.argument import Argument
    from tuner.space.instance import Instance
    from tuner.space.sources.source import StepSource

_POINTER = 8  # bytes


def check(interface: Interface, step: StepSource, position: int, instance: Instance) -> None:
    """Check one step of an instance against the compiled `interface`; `position` is the step's number, from 0.

    Raises LaunchError, which names the key of the space file, if they do not match.
    """
    try:
        misfit = next(_misfits(interface, step, position, instance), None)
    except SpaceError:
        return  # a shape cannot be evaluated: the launch reports that
    if misfit is not None:
        files = instance.space.files
        file = f"{files[0].name}: " if files else ""
        raise LaunchError(f"{file}{': '.join(misfit)}", "arguments")


def _misfits(interface: Interface, step: StepSource, position: int, instance: Instance) -> Iterator[tuple[str, str]]:
    """Each key of the space file that does not match the binary, and why."""
    space, scope = instance.space, instance.scope
    passed = [instance.argument(name) for name in step.arguments]
    passed = [a for a in passed if a.kind is None or a.kind.is_taken(scope)]
    sizes = interface.parameters.get(step.kernel)
    if sizes is not None and len(passed) < len(sizes):
        given = ", ".join(argument.name for argument in passed)
        counts = f"{len(passed)} ({given}) for {step.kernel}, which takes {len(sizes)}"
        yield "operation.arguments", f"{counts}; declare all of them, in the kernel's order"
    objects = interface.objects.get(step.kernel, ("",) * len(sizes or ()))
    for argument, taken in zip(passed, objects, strict=False):
        yield from _object(argument, taken, step.kernel)
    for argument, size in zip(passed, sizes or (), strict=False):
        if argument.kind is None and size:
            yield from _size(argument, size, step.kernel, instance)
    for argument in space.operation.arguments:
        if argument.kind is not None and not argument.kind.is_taken(scope):
            yield from _variable(argument, interface, instance)
    if step.kernel in interface.dynamic and space.steps[position].shared_memory.text == "0":
        message = f"is 0, but {step.kernel} uses an extern __shared__ array; write the bytes that a block needs"
        yield "shared_memory", message
    yield from _clusters(interface.clusters.get(step.kernel, ()), step)


def _clusters(declared: tuple[int, ...], step: StepSource) -> Iterator[tuple[str, str]]:
    """The key and the problem, if a kernel declares clusters that the space's do not match, or that do not divide its
    grid."""
    geometry, clusters = step.geometry, f"clusters of {declared}, as {step.kernel} declares"
    if declared and geometry.cluster not in ((1, 1, 1), declared):
        yield "cluster", f"is {geometry.cluster}, not {clusters}; remove one of the two"
    elif any(blocks % extent for blocks, extent in zip(geometry.grid, declared, strict=False)):
        yield "grid", f"{geometry.grid} is not whole {clusters}; round it up, or exclude it by a restriction"


def _object(argument: Argument, taken: str, kernel: str) -> Iterator[tuple[str, str]]:
    """The key and the problem, if the kernel takes another object than the file declares; `taken` is its type, empty
    if it is none."""
    declared = argument.kind.object_type if argument.kind is not None else ""
    if declared == taken:
        return
    is_same_kind = argument.kind is not None and argument.kind.name in taken
    if taken:
        advice = f"write `{'type: ' + taken[5:-2] if is_same_kind else 'kind: ' + re.split('[0-9_]', taken)[0]}`"
    else:
        advice = "remove `kind`"
    found = f"{kernel} takes {taken or 'no ' + declared} here"
    yield f"operation.arguments.{argument.name}.{'type' if is_same_kind else 'kind'}", f"{found}; {advice}"


def _size(argument: Argument, size: int, kernel: str, instance: Instance) -> Iterator[tuple[str, str]]:
    """The key and the problem, if the file declares an argument for which the kernel takes `size` bytes differently."""
    key = f"operation.arguments.{argument.name}"
    if argument.shape is not None:
        if size != _POINTER:
            problem = f"is an array, but {kernel} takes {size} bytes here, not a pointer"
            yield key, f"{problem}; remove `shape` and `role`"
        return
    if argument.fields:
        language, types = instance.problem.language, instance.problem.types
        if structs.layout(argument, language, types).dtype.itemsize != size:
            declared = structs.described(argument, language, types)
            advice = f"write the fields of the type that {kernel} declares, in its order"
            yield key, f"has {declared}, but {kernel} takes {size} bytes here; {advice}"
        return
    dtype = chosen_types.dtype(argument, instance.scope)
    if dtype.itemsize != size:
        sizes = f"{dtype.name} has {dtype.itemsize} bytes, but {kernel} takes {size} here"
        yield f"{key}.dtype", f"{sizes}; write the type that {kernel} declares, or the `fields:` of a struct"


def _variable(argument: Argument, interface: Interface, instance: Instance) -> Iterator[tuple[str, str]]:
    """The key and the problem, if an array is larger than the constant-memory variable that each launch copies it
    to."""
    nbytes, most = instance.nbytes(argument.name), interface.variables.get(interface.variable(argument.name))
    if most is not None and nbytes > most:
        extents = ", ".join(map(str, instance.shape(argument.name)))
        dtype = chosen_types.dtype(argument, instance.scope).name
        yield (
            f"operation.arguments.{argument.name}.shape",
            f"[{extents}] of {dtype} has {nbytes} bytes, but the variable in the source has {most}; write the "
            "variable's shape, or make the variable larger",
        )
