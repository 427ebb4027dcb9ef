"""The loops of a configuration in words, for the comments of exported files."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.space import structs
from tuner.space.instance import Instance
from tuner.space.loops import Loop, Order


def lines(instance: Instance) -> list[str]:
    """The order of the launches, if steps are in loops or have conditions; else empty. Raises ExpressionError."""
    schedule = instance.schedule
    if schedule is None:
        return []
    count = sum(len(each) for stretch in schedule.stretches for each in stretch.passes[:1])
    repeated = " and more, as long as a flag says so" if any(stretch.flag for stretch in schedule.stretches) else ""
    return [
        f"The steps are launched in this order, {count} launches{repeated}:",
        *_lines(instance, instance.space.order, "  "),
    ]


def _lines(instance: Instance, order: Order, indent: str) -> Iterator[str]:
    for part in order:
        if isinstance(part, Loop):
            yield f"{indent}{part.head}"
            yield from _lines(instance, part.body, f"{indent}  ")
        else:
            step = instance.space.steps[part]
            condition = "" if step.when is None else f" when {step.when.text}"
            grid = ", ".join(extent.text for extent in step.grid)
            scalars = [a for a in instance.space.operation.looped if a.name in step.arguments]
            values = "".join(f", {name} = {text}" for a in scalars for name, text in structs.values(a))
            yield f"{indent}{step.kernel} with grid [{grid}]{values}{condition}"
