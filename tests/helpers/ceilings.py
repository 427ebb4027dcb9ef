"""Ceilings written by hand, of a device that is not here."""

from __future__ import annotations

from pathlib import Path

from tuner.devices import Device
from tuner.devices.ceilings import Ceiling, Ceilings
from tuner.store.ceilings_file import StoredCeilings

RATES = {"copy": 1e5, "read": 2e5, "write": 3e5, "FMA": 4e6, "tensor": 5e6}
CEILINGS = Ceilings(
    device="Elsewhere", kind="cuda", architecture="sm_90a", toolchain="NVRTC 1", date="2026-11-22T00:00:00+00:00",
    version="0.1.0", cache=None, rates={name: Ceiling(rate, 0.01, 9, "by hand") for name, rate in RATES.items()},
)  # fmt: skip


def keep(folder: Path, device: Device, cache: int | None = None) -> None:
    """Put these ceilings, as those of `device`, into a store."""
    about = {"device": device.name, "kind": device.kind, "toolchain": device.toolchain, "cache": cache}
    StoredCeilings(folder).save(Ceilings(**{**vars(CEILINGS), **about}))
