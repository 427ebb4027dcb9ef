"""`tune devices`: the devices of this machine."""

import click

from tuner.cli import output
from tuner.cli.options import JSON


@click.command()
@JSON
def command(as_json: bool) -> None:
    """List the devices of this machine.

    Example: tune devices --json
    """
    from tuner import devices
    from tuner.errors import DeviceError

    descriptions = []
    for name in devices.available():
        try:
            device = devices.open_device(name)
        except DeviceError as error:  # the others are still worth a list
            output.say(f"error: {error}")
            continue
        descriptions.append(device.info.describe())
        device.close()
    columns = ["device", "name", "architecture", "toolchain", "package"]
    rows = [[description[column] or "" for column in columns] for description in descriptions]
    output.answer(as_json, descriptions, output.table(columns, rows))
    if not descriptions and not as_json:
        needs = (f"{backend.needs} for {kind}" for kind, backend in reversed([*devices.BACKENDS.items()]))
        output.say(f"no devices: install {', '.join(needs)}")
