"""`tune show`: show the space of a kernel."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import DEVICE, JSON, KERNEL, SIZE, TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tuner.search.pool import Pool
    from tuner.space.argument import Argument
    from tuner.space.config import Config
    from tuner.space.expressions import Expression
    from tuner.space.loops import Order
    from tuner.space.model import Space
    from tuner.space.scope import Limits, Scope
    from tuner.space.step import Step


@click.command()
@KERNEL
@SIZE
@DEVICE
@TYPES
@JSON
def command(kernel: str, size: str | None, device: str | None, types: dict[str, str], as_json: bool) -> None:
    """Show the parameters, steps, restrictions and default of KERNEL at SIZE.

    If SIZE is omitted, the sizes are those that the file gives, and 1024 for the others. If the file has no default
    configuration, the first valid one is shown. Configurations are counted for the device that `tune KERNEL SIZE` would
    use. If this machine has none, they are counted for a common GPU: 1024 threads and 48 KiB of shared memory per
    block, compute capability 8.0; or for the first newer GPU on which the kernel's restrictions allow a configuration.

    Example: tune show sgemm/06_tiled 4096
    """
    from tuner.catalog import catalog
    from tuner.errors import NoConfiguration
    from tuner.search.listing import listed
    from tuner.space import chosen_types, parsing
    from tuner.space.chosen import common
    from tuner.space.default import first_valid
    from tuner.space.texts import size_text, types_text

    space = catalog.load(kernel)
    op = space.operation
    chosen = chosen_types.parse(types, op)
    sizes = parsing.parse_size(common(op) if size is None else size, op, chosen)
    counted_for, scope = _counted_for(space, device, functools.partial(op.scope, sizes, op.options, types=chosen))
    pool = None
    with contextlib.suppress(NoConfiguration):
        pool = listed(space, scope)
    default = dict(space.default) or (first_valid(space, scope) if pool else {})
    at = f"{size or size_text(sizes)}{types_text(chosen)}"
    count = f"{pool.words if pool else 0} configurations are valid at {at} on {counted_for}"
    data = _data(space, sizes, pool, counted_for, default)
    output.answer(as_json, data, _text(space, count, default))


def _data(
    space: Space, sizes: Mapping[str, int], pool: Pool | None, counted_for: str, default: Config
) -> dict[str, Any]:
    """What the space file says, and the valid configurations, as JSON data."""
    from tuner.space import loops

    op = space.operation
    return {
        "kernel": space.name,
        "title": space.title,
        "languages": list(space.written_in),
        "size": sizes,
        "types": {name: list(allowed) for name, allowed in op.types.items()},
        "configurations": pool.valid if pool else 0,
        "estimated": pool is not None and pool.is_sample,
        "counted_for": counted_for,
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [{"that": r.that.text, "because": r.because} for r in space.restrictions],
        "default": default,
        "steps": [_step(step) for step in space.steps],
        **({"order": loops.to_json(space.order)} if space.order else {}),
        "scratch": [_scratch(argument) for argument in op.scratch],
        "reference": op.reference.kind,
        "source": ", ".join(map(str, space.sources)),
        "source_note": space.source_note,
    }


def _text(space: Space, count: str, default: Config) -> str:
    """The same for people; `count` says how many configurations are valid."""
    op = space.operation
    rows = [[n, " ".join(map(str, v)), default.get(n, "")] for n, v in space.parameters.items()]
    lines = [
        f"{space.name}: {space.title}",
        count,
        *(f"type {name}: {', '.join(allowed)}" for name, allowed in op.types.items()),
        output.table(["parameter", "values", "default"], rows),
        *(_order_lines(space, space.order or tuple(range(len(space.steps)))) if space.order or space.steps[1:] else ()),
        *(_scratch_line(argument) for argument in op.scratch),
        *(f"restriction {restriction}" for restriction in space.restrictions),
        f"source {', '.join(map(str, space.sources))}",
        *([f"note: {space.source_note}"] if space.source_note else []),
        *([output.UNVERIFIED] if op.reference.kind == "none" else []),
    ]
    return "\n".join(lines)


def _counted_for(space: Space, device: str | None, scope_of: Callable[[str, Limits], Scope]) -> tuple[str, Scope]:
    """For which device configurations are counted, and the scope there."""
    from tuner import devices
    from tuner.space.default import excluding_all
    from tuner.space.scope import COMMON_GPU

    if device is None and not any(map(devices.count, devices.kinds_of(space))):
        scopes = [scope_of(space.languages[0], gpu) for gpu in (COMMON_GPU, *devices.common_limits())]
        scope = next((each for each in scopes if not excluding_all(space, each)), scopes[0])
        is_common = scope.limits == COMMON_GPU
        return "a common GPU" if is_common else f"a GPU of capability {scope.limits.compute_capability}", scope
    with contextlib.closing(devices.open_device(devices.for_space(space, device))) as opened:
        return opened.name, scope_of(opened.language, opened.limits)


def _step(step: Step) -> dict[str, Any]:
    """A step as JSON data."""
    return {
        "kernel": step.kernel,
        "source": str(step.source),
        "arguments": list(step.arguments),
        "grid": _texts(step.grid),
        "block": _texts(step.block),
        "shared_memory": step.shared_memory.text,
        "cluster": None if step.cluster is None else _texts(step.cluster),
        "cooperative": step.cooperative,
        "programmatic": step.programmatic,
        **({} if step.when is None else {"when": step.when.text}),
    }


def _order_lines(space: Space, order: Order, indent: str = "") -> Iterator[str]:
    """A line for each step and loop; what a loop launches is indented."""
    for part in order:
        if isinstance(part, int):
            yield f"{indent}{_step_line(part + 1, space.steps[part])}"
        else:
            yield f"{indent}{part.head}"
            yield from _order_lines(space, part.body, f"{indent}  ")


def _step_line(position: int, step: Step) -> str:
    geometry = [("grid", step.grid), ("block", step.block), ("cluster", step.cluster or ())]
    words = [f"{name} [{', '.join(_texts(extents))}]" for name, extents in geometry if extents]
    if step.shared_memory.text != "0":
        words.append(f"shared memory {step.shared_memory.text}")
    if step.cooperative:
        words.append("cooperative")
    if step.programmatic:
        words.append("programmatic")
    if step.when is not None:
        words.append(f"when {step.when.text}")
    return f"step {position} {step.kernel}({', '.join(step.arguments)}): {', '.join(words)}"


def _scratch(argument: Argument) -> dict[str, Any]:
    """A scratch argument as JSON data."""
    shape = [extent.text for extent in argument.shape or ()]
    return {"name": argument.name, "dtype": argument.dtype, "shape": shape, "zeroed": argument.zeroed}


def _scratch_line(argument: Argument) -> str:
    zeroed = "" if argument.zeroed == "never" else f", zeroed {argument.zeroed}"
    shape = ", ".join(extent.text for extent in argument.shape or ())
    return f"scratch {argument.name}: {argument.dtype} [{shape}]{zeroed}"


def _texts(extents: tuple[Expression, ...]) -> list[str]:
    """The texts of the extents, without trailing ones."""
    texts = [extent.text for extent in extents]
    while len(texts) > 1 and texts[-1] == "1":
        texts.pop()
    return texts
