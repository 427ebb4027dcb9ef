"""Records written by hand: of a host kernel, and of a GPU kernel on devices that are not here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.method import PROTOCOL
from tuner.space.model import Space
from tuner.space.sources import rendering
from tuner.store.record import Record
from tuner.store.store import Store

HOST_KERNEL = "sgemm/01_host_blocked"
HOST_SPACE = catalog.load(HOST_KERNEL)
HOST_SIGNATURE = rendering.signature(HOST_SPACE)
KERNEL = "sgemm/07_tiled_1xn"
SPACE = catalog.load(KERNEL)
SIGNATURE = rendering.signature(SPACE)
H200, H200_NVL, H100, A100 = "NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
SLICE = "NVIDIA H200 MIG 1g.18gb"
RTX = "NVIDIA GeForce RTX 3090"


def record(**changes: Any) -> Record:
    """A record of HOST_KERNEL, as tuning writes it."""
    plain = Record(
        device="Here", kind="host", architecture="x86_64", sizes=sizes(64), options={"alpha": 1.0, "beta": 0.0},
        config={"block_size": 8, "openmp": 0}, time_ms=1.0, spread=0.01, rounds=9, gflops=1.0, library=None,
        library_ms=None, vs_library=None, error=1e-6, bound=1e-3, signature=HOST_SIGNATURE, toolchain="cc 1",
        configurations=12, evaluated=12, failed={}, strategy="brute_force", date="2026-11-21T00:00:00+00:00",
        version="0.1.0", protocol=PROTOCOL,
    )  # fmt: skip
    return replace(plain, **changes)


def sizes(n: int, **more: int) -> dict[str, int]:
    return {"M": n, "N": n, "K": n, "batch": 1, **more}


def host_config(block: int) -> dict[str, int]:
    return {"block_size": block, "openmp": 0}


def config(tile: int) -> dict[str, int]:
    return {"block_size_x": 32, "block_size_y": 32 // tile, "tile_size_x": 4, "tile_size_y": tile, "fixed_sizes": 0}


def at(size: int, device: str = H200, tile: int = 8, **changes: Any) -> Record:
    """A record of KERNEL."""
    architecture = "sm_80" if device == A100 else "sm_90a"
    plain = record(device=device, kind="cuda", architecture=architecture, sizes=sizes(size), config=config(tile))
    return replace(plain, **{"signature": SIGNATURE, **changes})


def imported(record: Record) -> Record:
    return replace(record, error=None, bound=None)


def stale(record: Record) -> Record:
    return replace(record, signature="an earlier one")


def choosy(device: Device, space: Space, modes: list[int]) -> Record:
    """A record of a kernel whose parameter is `mode`: the best configuration and its runners-up have these modes."""
    best, *others = ({"mode": mode} for mode in modes or [0])
    return record(
        device=device.name,
        kind=device.kind,
        architecture=device.architecture,
        sizes=sizes(16),
        options=dict(space.operation.options),
        config=best,
        signature=rendering.signature(space),
        next=[{"config": config, "time_ms": 2.0} for config in others],
        conditions=dict(device.conditions.values),
    )


def stored(folder: Path, *records: Record) -> Path:
    """`folder` as a store that holds these records of KERNEL."""
    for each in records:
        Store(KERNEL, folder).add(each)
    return folder


FAR = record(device="Elsewhere", architecture="arm64", config=host_config(16))
NEAR = record(sizes=sizes(128), config=host_config(64))
EXACT = record(config=host_config(8))
