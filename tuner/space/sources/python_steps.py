"""What a compiler of kernels in Python files gets: the kernel, its constants, and what it may assume of arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tuner.errors import ExpressionError, GeometryError, SpaceError
from tuner.quoting import quoted, shown
from tuner.space import operation
from tuner.space.chosen_types import dtype
from tuner.space.dtypes import spelling
from tuner.space.jit import closure, function, specialisation
from tuner.space.jit.function import JitFunction
from tuner.space.sources.source import Origin, Source, StepSource
from tuner.space.values import python_function

if TYPE_CHECKING:
    from tuner.space.instance import Instance
    from tuner.space.step import Geometry, Step

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of the compiler; a space may have them as names


def steps(instance: Instance) -> tuple[StepSource, ...]:
    """The steps of one configuration. Raises SpaceError, and GeometryError if something cannot be computed."""
    try:
        pairs = zip(instance.space.steps, instance.geometries, strict=True)
        return tuple(_step(instance, step, geometry) for step, geometry in pairs)
    except ExpressionError as error:
        raise GeometryError(str(error)) from None


def function_of(step: Step) -> JitFunction:
    """The function that a step launches. Raises SpaceError if there is none."""
    known = python_function.read(step.source, function.functions)
    if step.kernel not in known:
        raise SpaceError(f"{shown(step.source)}: there is no function {quoted(step.kernel)} at its top level")
    return known[step.kernel]


def _step(instance: Instance, step: Step, geometry: Geometry) -> StepSource:
    space, own = instance.space, function_of(step)
    language = space.python_language
    assert language is not None
    passed = {name: instance.argument(name) for name in step.arguments}
    op, scope = space.operation, instance.scope
    numbers = dict(zip((a.name for a in op.by_value), operation.scalars(op, scope), strict=True))
    looped = {a.name for a in op.looped}
    signature, constants, classes = dict[str, str](), dict[str, Any](), dict[str, specialisation.Class]()
    for parameter in own.arguments:
        name = parameter.name
        if name not in passed:  # its default, which is None
            constants[name] = None
            continue
        argument = passed[name]
        word = spelling(dtype(argument, scope).name, language.name)
        if argument.shape is not None:
            signature[name] = f"*{word}"
            classes[name] = specialisation.of_array(parameter, argument, instance.unaligned)
        else:
            signature[name] = word
            is_fixed = name not in looped
            classes[name] = specialisation.of_number(parameter, numbers[name]) if is_fixed else specialisation.Class()
    constants |= dict(_constants(instance, own))
    found = closure.of(step.source, step.kernel)
    options: dict[str, Any] = {name: value for name in OPTIONS if (value := _option(instance, name)) is not None}
    if geometry.cooperative:
        options["launch_cooperative_grid"] = True
    data = {
        "language": language.name,
        "function": step.kernel,
        "signature": signature,
        "constants": constants,
        **specialisation.described(classes),
        "options": options,
        "imports": found.code[len(found.own.code) + 1 :],
    }
    text = f"{json.dumps(data)}\n{found.own.text}"
    source = Source(text, (step.kernel,), (), language.compiler, Origin(step.source, found.root, found.package))
    kept = tuple(name for name in step.arguments if not classes[name].is_one)
    return StepSource(source, step.kernel, geometry, kept)


def _option(instance: Instance, name: str) -> Any:
    """The value of an option; None if the space does not say it, or says 0 for the limit of registers."""
    try:
        value = instance.names[name]
    except KeyError:
        return None
    return None if name == "maxnreg" and not value else value


def _constants(instance: Instance, own: JitFunction) -> Iterator[tuple[str, Any]]:
    """The constants of a kernel. One that the space does not name has its default."""
    types: Mapping[str, str] = instance.problem.types
    known = {*instance.names, *instance.space.derived}  # derived values are computed when they are read
    for parameter in own.constants:
        name = parameter.name
        if name in types:
            yield name, {"dtype": spelling(types[name], instance.space.written_in[0])}
        elif name in known:
            yield name, _plain(name, instance.names[name])


def _plain(name: str, value: Any) -> Any:
    """A value in JSON. Raises GeometryError for one that is none."""
    if isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "item"):
        return value.item()
    raise GeometryError(f"{name} is {quoted(value)}, which cannot be a constant of a kernel")
