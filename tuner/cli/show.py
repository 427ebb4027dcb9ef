"""`tune show`: one space."""

from __future__ import annotations

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import DEVICE, JSON, KERNEL


@click.command()
@KERNEL
@click.argument("size", required=False, default="1024")
@DEVICE
@JSON
def command(kernel: str, size: str, device: str | None, as_json: bool) -> int:
    """The space of KERNEL at SIZE (1024 if omitted).

    Without --device, limits are those of a common GPU: 1024 threads and 48 KiB of shared memory per block, and compute
    capability 8.0.

    Example: tune show sgemm/06_tiled 4096
    """
    from tuner import devices
    from tuner.search.enumeration import count
    from tuner.space import catalog, operation
    from tuner.space.model import Limits, Scope

    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    if device is None:
        language, limits = space.languages[0], Limits(compute_capability=8.0)
    else:
        opened = devices.open_device(devices.for_space(space, device))
        language, limits = opened.language, opened.limits
    scope = Scope(sizes, space.operation.options, language, limits)
    shown = {
        "kernel": space.name,
        "title": space.title,
        "languages": list(space.languages),
        "size": sizes,
        "configurations": count(space, scope),
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [{"that": r.that.text, "because": r.because} for r in space.restrictions],
        "default": dict(space.default),
        "source": str(space.source),
        "source_note": space.source_note,
    }
    if as_json:
        output.document(shown)
        return 0
    click.echo(f"{space.name}: {space.title}\n{shown['configurations']} configurations are valid at {size}")
    output.table(
        ["parameter", "values", "default"],
        [[n, " ".join(map(str, v)), space.default.get(n, "")] for n, v in space.parameters.items()],
    )
    for restriction in space.restrictions:
        click.echo(f"restriction {restriction}")
    click.echo(f"source {paths.plain(space.source)}")
    return 0
