"""The steps of the ladders and their shipped records, for the picture and the pages of the course."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tuner import paths
from tuner.catalog import kernel_lists
from tuner.devices.ceilings import FMA, TENSOR, Ceilings
from tuner.report import store_tables
from tuner.space.texts import short_size
from tuner.store import ceilings_file
from tuner.store.record import Record

DEVICE, FAMILIES = "NVIDIA H200", {"sgemm": FMA, "hgemm": TENSOR}  # each with the ceiling of the units that it uses
NOWHERE = Path("/nowhere")  # in place of the user's own records


@dataclass(frozen=True)
class Step:
    """A stage, and its record on DEVICE at LADDER_SIZE, if it has one."""

    kernel: str
    record: Record | None

    @property
    def tuned(self) -> float | None:
        """GFLOP/s of the best configuration."""
        return self.record.gflops if self.record else None

    @property
    def published(self) -> float | None:
        """GFLOP/s of the published constants, measured in the same final round."""
        r = self.record
        return r.gflops * r.time_ms / r.default_ms if r and r.gflops and r.default_ms else None

    @property
    def library(self) -> float | None:
        """GFLOP/s of the vendor library, measured in the same final round."""
        r = self.record
        return r.gflops * r.time_ms / r.library_ms if r and r.gflops and r.library_ms else None


@dataclass(frozen=True)
class Ladder:
    """The steps of a family in order. Rates are in GFLOP/s; the vendor library's is the median over the steps."""

    family: str
    steps: list[Step]
    library: str
    library_rate: float
    ceiling: str
    ceiling_rate: float

    @property
    def measured(self) -> list[Step]:
        return [step for step in self.steps if step.tuned]


def ladders() -> list[Ladder]:
    """All ladders of DEVICE, from the records and ceilings that ship."""
    records = {
        row.kernel: row.record
        for row in store_tables.rows(DEVICE, NOWHERE)
        if short_size(row.record.sizes) == store_tables.LADDER_SIZE and row.record.device == DEVICE
    }
    return [_ladder(family, ceiling, records) for family, ceiling in FAMILIES.items()]


def _ladder(family: str, ceiling: str, records: Mapping[str, Record]) -> Ladder:
    steps = [Step(name, records.get(name)) for name in sorted(kernel_lists.names()) if name.startswith(f"{family}/")]
    libraries = [step for step in steps if step.library]
    library = next(step.record.library for step in libraries if step.record and step.record.library)
    rate = median(step.library for step in libraries if step.library)
    return Ladder(family, steps, library.partition(" ")[0], rate, ceiling, _ceiling(ceiling))


def _ceiling(name: str) -> float:
    """A measured ceiling in GFLOP/s, from the newest entry of DEVICE."""
    entries = json.loads((paths.shipped("results") / ceilings_file.FILE).read_text(encoding="utf-8"))["devices"]
    known = [ceilings for ceilings in map(Ceilings.from_json, entries) if ceilings.device == DEVICE]
    return max(known, key=lambda ceilings: ceilings.date).rates[name].rate
