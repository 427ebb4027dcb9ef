"""`tune devices`: list the devices of this machine, and measure their ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import output
from tuner.cli.options import DEVICE, JSON, RESULTS
from tuner.cli.screen.status import shortened

if TYPE_CHECKING:
    from tuner.devices import Device
    from tuner.devices.ceilings import Ceilings
    from tuner.store.ceilings_file import StoredCeilings

LONGEST = 50  # characters in a cell; --json has the whole text


@click.command()
@click.option("--measure", is_flag=True, help="Measure and store the ceilings of each device.")
@DEVICE
@RESULTS
@JSON
def command(measure: bool, device: str | None, results: Path | None, as_json: bool) -> int:
    """List the devices of this machine, and their measured ceilings.

    With --measure, kernels of tuner measure the peak rates at which each device copies, reads and writes memory, and
    multiplies and adds. This takes about a minute, and needs an idle machine. Later records give their rates as shares
    of these ceilings.

    Example: tune devices --measure --device cuda
    """
    from tuner import devices
    from tuner.store.ceilings_file import StoredCeilings

    stored = StoredCeilings(results)
    if measure:
        stored.check_writable()
    output.warn(stored.problems)
    descriptions, ceilings = [], {}
    names = devices.available() if device is None else [device]
    for opened in _opened(names, is_chosen=device is not None):
        descriptions.append(opened.info.describe())
        measured = _measured(opened, stored) if measure else stored.of(opened)
        if measured:
            ceilings[opened.id] = measured
        opened.close()
    columns = ["device", "name", "architecture", "package", "toolchain"]
    rows = [[_cell(description[column] or "") for column in columns] for description in descriptions]
    data = [{**d, "ceilings": _document(ceilings.get(d["device"]))} for d in descriptions]
    parts = [output.table(columns, rows), *([_table(ceilings)] if ceilings else [])]
    output.answer(as_json, data, "\n\n".join(parts))
    if not descriptions and not names and not as_json:
        needs = (f"{backend.needs} for {kind}" for kind, backend in reversed([*devices.BACKENDS.items()]))
        output.say(f"no devices: install {', '.join(needs)}")
    return 1 if measure and len(ceilings) < len(names) else 0


def _cell(text: str) -> str:
    """`text`, or as many of its parts as fit; commas separate them."""
    if len(text) <= LONGEST:
        return text
    parts, comma, _ = text[: LONGEST - 5].rpartition(", ")
    return f"{parts}, ..." if comma else shortened(text, LONGEST)


def _opened(names: list[str], is_chosen: bool) -> Iterator[Device]:
    """Open the devices one after the other. Skips those that cannot be opened, with a message; if the user has chosen
    the device, raises DeviceError instead."""
    from tuner import devices
    from tuner.errors import DeviceError

    for name in names:
        try:
            yield devices.open_apart(name)  # ceilings are times, too
        except DeviceError as error:
            if is_chosen:
                raise
            output.say(f"error: {error}")


def _measured(device: Device, stored: StoredCeilings) -> Ceilings | None:
    """Measure and store the ceilings of a device. None, with a message, if that fails."""
    from rich.console import Console

    from tuner.errors import DeviceError
    from tuner.measure import ceilings, turns
    from tuner.measure.timing.clock import NOISE

    console = Console(stderr=True, markup=False, highlight=False)
    with console.status("", spinner="line") as status:
        try:
            with turns.taken(device.place):
                measured = ceilings.measure(device, lambda name: status.update(f"{device.id}: {name}"), output.say)
        except DeviceError as error:
            output.say(f"error: {error}")
            return None
    noisy = [name for name, ceiling in measured.rates.items() if ceiling.spread > NOISE]
    if noisy:
        output.say(
            f"warning: {device.id}: {', '.join(noisy)}: times too noisy to rely on; run the same command again on an "
            "idle machine"
        )
    output.say(f"{device.id}: stored in {stored.save(measured)}")
    return measured


def _document(ceilings: Ceilings | None) -> dict[str, Any] | None:
    if ceilings is None:
        return None
    return {
        "date": ceilings.date,
        "toolchain": ceilings.toolchain,
        **{name: asdict(ceiling) for name, ceiling in ceilings.rates.items()},
    }


def _table(ceilings: dict[str, Ceilings]) -> str:
    """A table with a row for each ceiling of each device."""
    from tuner.devices.ceilings import MEMORY

    rows = []
    for device, measured in ceilings.items():
        for name, ceiling in measured.rates.items():
            rate = f"{ceiling.rate:,.4g} GB/s" if name in MEMORY else f"{ceiling.rate / 1e3:,.4g} TFLOP/s"
            rows.append([device, name, rate, f"{ceiling.spread:.1%}", ceiling.rounds, ceiling.kernel])
    return output.table(["device", "ceiling", "rate", "spread", "rounds", "fastest kernel"], rows)
