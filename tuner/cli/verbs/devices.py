"""`tune devices`: the devices of this machine, and what they do at most."""

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
    from tuner.store.ceilings_file import KeptCeilings

LONGEST = 50  # characters in a cell; --json has all


@click.command()
@click.option("--measure", is_flag=True, help="Measure what each device does at most, and keep it.")
@DEVICE
@RESULTS
@JSON
def command(measure: bool, device: str | None, results: Path | None, as_json: bool) -> int:
    """List the devices of this machine, and their ceilings where these were measured.

    With --measure, kernels of ours copy, read and write memory, and multiply and add, as fast as each device can. That
    takes a minute or so, and wants an idle machine. Later records tell their rates as shares of these ceilings.

    Example: tune devices --measure --device cuda
    """
    from tuner import devices
    from tuner.store.ceilings_file import KeptCeilings

    kept = KeptCeilings(results)
    if measure:
        kept.check_writable()
    output.warn(kept.problems)
    descriptions, ceilings = [], {}
    names = devices.available() if device is None else [device]
    for opened in _opened(names, device is not None):
        descriptions.append(opened.info.describe())
        found = _measured(opened, kept) if measure else kept.of(opened)
        if found:
            ceilings[opened.id] = found
        opened.close()
    columns = ["device", "name", "architecture", "package", "toolchain"]
    rows = [[shortened(description[column] or "", LONGEST) for column in columns] for description in descriptions]
    data = [{**d, "ceilings": _document(ceilings.get(d["device"]))} for d in descriptions]
    parts = [output.table(columns, rows), *([_table(ceilings)] if ceilings else [])]
    output.answer(as_json, data, "\n\n".join(parts))
    if not descriptions and not names and not as_json:
        needs = (f"{backend.needs} for {kind}" for kind, backend in reversed([*devices.BACKENDS.items()]))
        output.say(f"no devices: install {', '.join(needs)}")
    return 1 if measure and len(ceilings) < len(names) else 0


def _opened(names: list[str], is_asked_for: bool) -> Iterator[Device]:
    """The devices, one after the other. Says which cannot be opened, unless the user has asked for this one: then it
    raises DeviceError."""
    from tuner import devices
    from tuner.errors import DeviceError

    for name in names:
        try:
            yield devices.open_device(name)
        except DeviceError as error:  # the others are still worth a list
            if is_asked_for:
                raise
            output.say(f"error: {error}")


def _measured(device: Device, kept: KeptCeilings) -> Ceilings | None:
    """The ceilings of a device, measured now and kept; None where that fails, which is said."""
    from rich.console import Console

    from tuner.errors import DeviceError
    from tuner.measure import ceilings, turns
    from tuner.measure.timing.clock import NOISE

    console = Console(stderr=True, markup=False, highlight=False)
    with console.status("", spinner="line") as status:
        try:
            with turns.taken(device.place):
                found = ceilings.measure(device, lambda name: status.update(f"{device.id}: {name}"), output.say)
        except DeviceError as error:
            output.say(f"error: {error}")
            return None
    noisy = [name for name, ceiling in found.rates.items() if ceiling.spread > NOISE]
    if noisy:
        output.say(
            f"warning: {device.id}: {', '.join(noisy)}: the times spread so far that they are noise; run the same "
            "command again when the machine is idle"
        )
    output.say(f"{device.id}: kept in {kept.keep(found)}")
    return found


def _document(ceilings: Ceilings | None) -> dict[str, Any] | None:
    if ceilings is None:
        return None
    return {
        "date": ceilings.date,
        "toolchain": ceilings.toolchain,
        **{name: asdict(ceiling) for name, ceiling in ceilings.rates.items()},
    }


def _table(ceilings: dict[str, Ceilings]) -> str:
    """A line for each ceiling of each device."""
    from tuner.devices.ceilings import MEMORY

    rows = []
    for device, found in ceilings.items():
        for name, ceiling in found.rates.items():
            rate = f"{ceiling.rate:,.4g} GB/s" if name in MEMORY else f"{ceiling.rate / 1e3:,.4g} TFLOP/s"
            rows.append([device, name, rate, f"{ceiling.spread:.1%}", ceiling.rounds, ceiling.kernel])
    return output.table(["device", "ceiling", "rate", "spread", "rounds", "fastest kernel"], rows)
