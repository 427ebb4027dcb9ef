"""`tune best`: what the look-up gives."""

from __future__ import annotations

from pathlib import Path

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, KNOWN_DEVICE, RESULTS, SIZE, warn


@click.command()
@KERNEL
@SIZE
@KNOWN_DEVICE
@RESULTS
@JSON
def command(kernel: str, size: str, device: str | None, results: Path | None, as_json: bool) -> int:
    """What the look-up gives for KERNEL at SIZE: a stored best, or the default.

    Example: tune best sgemm/07_tiled_1xn 4096
    """
    from tuner import devices, launcher
    from tuner.exchange import target as targets
    from tuner.space import catalog, operation
    from tuner.space.model import Scope, size_text

    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    if device is None or devices.is_name(device):
        opened = devices.open_device(devices.for_space(space, device))
        scope = Scope(sizes, space.operation.options, opened.language, opened.limits)
        name, found = opened.name, launcher.find(space, scope, opened, results)
    else:  # one that the store knows
        target = targets.choose(targets.Problem.parse(space, size, {}, results), device)
        name, found = target.device.name, target.found
    warn(found.notes)
    if as_json:
        record = found.record.to_json() if found.record else None
        asked = {"kernel": space.name, "device": name, "size": sizes}
        answer = {"match": found.match, "variant": found.variant, "stale": found.stale, "config": found.config}
        output.document({**asked, **answer, "record": record})
        return 0
    how = f"{found.match}{', of a variant' if found.variant else ''}{', stale' if found.stale else ''}"
    click.echo(paths.plain(f"{space.name} at {size} on {name}: {how}"))
    if found.record is None:
        click.echo(f"never tuned; the default: {output.configuration(found.config)}")
        return 0
    if found.match != "exact":
        click.echo(f"measured on {paths.plain(found.record.device)} at {size_text(found.record.sizes)}:")
    output.record(found.record)
    return 0
