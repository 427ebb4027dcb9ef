"""`tune show`: the space of a kernel."""

import click

from tuner.cli import output
from tuner.cli.options import DEVICE, JSON, KERNEL


@click.command()
@KERNEL
@click.argument("size", required=False, default="1024")
@DEVICE
@JSON
def command(kernel: str, size: str, device: str | None, as_json: bool) -> None:
    """Show the parameters, restrictions and default of KERNEL at SIZE.

    SIZE is 1024 if omitted. Configurations are counted for the device that `tune KERNEL SIZE` would take. Where this
    machine has none, they are counted for a common GPU: 1024 threads and 48 KiB of shared memory per block, and compute
    capability 8.0.

    Example: tune show sgemm/06_tiled 4096
    """
    from tuner import devices
    from tuner.search.enumeration import count
    from tuner.space import catalog, operation
    from tuner.space.model import COMMON_GPU, Scope

    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    if device is None and not any(map(devices.count, devices.kinds_of(space))):
        counted_for, language, limits = "a common GPU", space.languages[0], COMMON_GPU
    else:
        local_device = devices.open_device(devices.for_space(space, device))
        counted_for, language, limits = local_device.name, local_device.language, local_device.limits
        local_device.close()
    configurations = count(space, Scope(sizes, space.operation.options, language, limits))
    data = {
        "kernel": space.name,
        "title": space.title,
        "languages": list(space.languages),
        "size": sizes,
        "configurations": configurations,
        "counted_for": counted_for,
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [{"that": r.that.text, "because": r.because} for r in space.restrictions],
        "default": dict(space.default),
        "reference": space.operation.reference.kind,
        "source": str(space.source),
        "source_note": space.source_note,
    }
    rows = [[n, " ".join(map(str, v)), space.default.get(n, "")] for n, v in space.parameters.items()]
    lines = [
        f"{space.name}: {space.title}",
        f"{configurations} configurations are valid at {size} on {counted_for}",
        output.table(["parameter", "values", "default"], rows),
        *(f"restriction {restriction}" for restriction in space.restrictions),
        f"source {space.source}",
    ]
    if space.operation.reference.kind == "none":
        lines.append("reference: none: its results are unverified")
    output.answer(as_json, data, "\n".join(lines))
