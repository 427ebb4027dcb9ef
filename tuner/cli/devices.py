"""`tune devices`: what this machine has."""

from __future__ import annotations

import click

from tuner.cli import output
from tuner.cli.options import JSON


@click.command()
@JSON
def command(as_json: bool) -> int:
    """The devices of this machine. Example: tune devices --json"""
    from tuner import devices

    found = []
    for name in devices.available():
        opened = devices.open_device(name)
        found.append(opened.info.describe())
        opened.close()
    if as_json:
        output.document(found)
    else:
        output.table(
            ["device", "name", "architecture", "toolchain"],
            [[d[k] for k in ("device", "name", "architecture", "toolchain")] for d in found],
        )
        if not found:
            needs = (f"{backend.needs} for {kind}" for kind, backend in reversed([*devices.BACKENDS.items()]))
            output.say(f"no devices: install {', '.join(needs)}")
    return 0
