"""`tune show`: the space of a kernel."""

import click

from tuner.cli import output
from tuner.cli.options import DEVICE, JSON, KERNEL, TYPES


@click.command()
@KERNEL
@click.argument("size", required=False, default="1024")
@DEVICE
@TYPES
@JSON
def command(kernel: str, size: str, device: str | None, types: dict[str, str], as_json: bool) -> None:
    """Show the parameters, restrictions and default of KERNEL at SIZE.

    SIZE is 1024 if omitted. Configurations are counted for the device that `tune KERNEL SIZE` would take. Where this
    machine has none, they are counted for a common GPU: 1024 threads and 48 KiB of shared memory per block, and compute
    capability 8.0.

    Example: tune show sgemm/06_tiled 4096
    """
    from tuner import devices
    from tuner.search.enumeration import count
    from tuner.space import catalog, chosen_types, operation
    from tuner.space.scope import COMMON_GPU, Scope
    from tuner.space.texts import types_text

    space = catalog.load(kernel)
    op = space.operation
    chosen = chosen_types.parse(types, op)
    sizes = operation.parse_size(size, op, chosen)
    if device is None and not any(map(devices.count, devices.kinds_of(space))):
        counted_for, language, limits = "a common GPU", space.languages[0], COMMON_GPU
    else:
        local_device = devices.open_device(devices.for_space(space, device))
        counted_for, language, limits = local_device.name, local_device.language, local_device.limits
        local_device.close()
    configurations = count(space, Scope(sizes, op.options, language, limits, chosen))
    data = {
        "kernel": space.name,
        "title": space.title,
        "languages": list(space.languages),
        "size": sizes,
        "types": {name: list(allowed) for name, allowed in op.types.items()},
        "configurations": configurations,
        "counted_for": counted_for,
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [{"that": r.that.text, "because": r.because} for r in space.restrictions],
        "default": dict(space.default),
        "reference": space.operation.reference.kind,
        "source": ", ".join(map(str, space.sources)),
        "source_note": space.source_note,
    }
    rows = [[n, " ".join(map(str, v)), space.default.get(n, "")] for n, v in space.parameters.items()]
    lines = [
        f"{space.name}: {space.title}",
        f"{configurations} configurations are valid at {size}{types_text(chosen)} on {counted_for}",
        *(f"type {name}: {', '.join(allowed)}" for name, allowed in op.types.items()),
        output.table(["parameter", "values", "default"], rows),
        *(f"restriction {restriction}" for restriction in space.restrictions),
        f"source {', '.join(map(str, space.sources))}",
    ]
    if space.operation.reference.kind == "none":
        lines.append(output.UNVERIFIED)
    output.answer(as_json, data, "\n".join(lines))
