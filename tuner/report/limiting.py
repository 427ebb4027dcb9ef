"""Performance limiters of a configuration: its share of the roofline, occupancy, register spills, and waves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.devices.builds.figures import FIGURE_NAMES, Figures, resident_blocks
from tuner.report import roofline

if TYPE_CHECKING:
    from tuner.devices.ceilings import Ceilings
    from tuner.report.contenders import Contender
    from tuner.report.subject import Subject
    from tuner.tuning.recordings.recording import Row


@dataclass(frozen=True)
class Limiting:
    """Occupancy and waves of a configuration.

    figures: registers, spills, shared and local memory of its build.
    occupancy: the theoretical occupancy, 0 to 1; None if unknown.
    threads: threads per block. grid: number of blocks.
    blocks: for each resource, how many resident blocks it allows per multiprocessor.
    waves: the grid divided by the blocks that run concurrently on the device; None if unknown.
    """

    figures: Figures
    occupancy: float | None
    threads: int
    grid: int
    blocks: Mapping[str, int] = field(default_factory=dict)
    waves: float | None = None

    @property
    def limiter(self) -> str:
        """The resource, or resources, that limit the resident blocks per multiprocessor; empty if unknown."""
        least = min(self.blocks.values(), default=0)
        return " and ".join(name for name, count in self.blocks.items() if count == least)


def bounds_of(subject: Subject, row: Row) -> Limiting | None:
    """The occupancy and waves of a configuration; None if its build is unknown, or it has several steps or launches."""
    instance, entry = subject.instance(row), subject.entry(row)
    if instance is None or entry is None or "registers" not in entry.extra:
        return None
    if len(instance.space.steps) != 1 or instance.space.order:
        return None
    (geometry,) = instance.geometries
    figures = Figures(*(_count(entry.extra.get(name)) for name in FIGURE_NAMES))
    shared = figures.shared_memory
    static = None if shared is None else max(0, shared - geometry.shared_memory)
    blocks = resident_blocks(Figures(figures.registers, figures.spills, static), geometry, instance.problem.limits)
    grid = math.prod(geometry.grid)
    concurrent = min(blocks.values(), default=0) * (subject.local_device.units if subject.local_device else 0)
    occupancy = entry.extra.get("occupancy")
    return Limiting(
        figures,
        occupancy if isinstance(occupancy, float) else None,
        math.prod(geometry.block),
        grid,
        blocks,
        grid / concurrent if concurrent else None,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def sentences(contender: Contender, ceilings: Ceilings | None, bounds: Limiting | None) -> list[str]:
    """The limiters of a configuration as sentences: its share of the roofline, then `bounds`, if known."""
    lines = []
    known = contender.rates
    roof = roofline.of(known, ceilings)
    if roof is not None and known is not None:
        lines.append(
            f"It reaches {roof.share(known):.1%} of the roofline: at an arithmetic intensity of {roof.intensity:,.3g} "
            f"FLOP/byte, the {roof.bound} ceiling bounds it."
        )
    elif known is not None and known.vs_memory:
        lines.append(f"It reaches {known.vs_memory:.1%} of the {known.memory} ceiling.")
    elif ceilings is None:
        lines.append("The ceilings of the device were not measured; run `tune devices --measure` on it.")
    if bounds is None:
        return lines
    if bounds.blocks:
        count = min(bounds.blocks.values())
        lines.append(
            f"A multiprocessor holds {count} resident {'block' if count == 1 else 'blocks'} of {bounds.threads} "
            f"threads, limited by {bounds.limiter}"
            + (f": theoretical occupancy {bounds.occupancy:.1%}." if bounds.occupancy is not None else ".")
        )
    if bounds.figures.spills:
        lines.append(f"Registers spill {bounds.figures.spills} bytes per thread to local memory.")
    elif bounds.figures.local_memory:
        lines.append(
            f"A thread has {bounds.figures.local_memory} bytes in local memory, such as arrays whose indices are known "
            "only at run time."
        )
    if bounds.waves is not None:
        full = bounds.waves / math.ceil(bounds.waves)
        lines.append(
            f"Its {bounds.grid:,} blocks run in {bounds.waves:.2f} waves: on average, {full:.0%} of the slots for "
            "resident blocks are filled."
        )
    return lines
