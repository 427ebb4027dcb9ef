"""What limits a configuration: its share of the roofline, the blocks that a multiprocessor holds, spills, waves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.devices.figures import Figures, resident_blocks
from tuner.report import roofline
from tuner.space.instance import Instance

if TYPE_CHECKING:
    from tuner.devices.ceilings import Ceilings
    from tuner.exchange.recording import Row
    from tuner.report.contenders import Contender
    from tuner.report.subject import Subject


@dataclass(frozen=True)
class Limiting:
    """What limits a configuration, as far as it is known: the figures of its build, how many `blocks` of it a
    multiprocessor has room for by what would limit them, and its grid in `waves` of all that run at once."""

    figures: Figures
    occupancy: float | None
    threads: int
    grid: int
    blocks: Mapping[str, int] = field(default_factory=dict)
    waves: float | None = None

    @property
    def limiter(self) -> str:
        """What limits the number of blocks; empty where it is not known."""
        least = min(self.blocks.values(), default=0)
        return " and ".join(name for name, count in self.blocks.items() if count == least)


def bounds_of(subject: Subject, row: Row) -> Limiting | None:
    """What limits a configuration; None where its build is not known, or where it has several steps."""
    space, scope, entry = subject.space, subject.scope, subject.entry(row)
    if space is None or scope is None or entry is None or len(space.steps) != 1 or "registers" not in entry.extra:
        return None
    (geometry,) = Instance(space, subject.config(row), scope).geometries
    figures = Figures(*(_count(entry.extra.get(name)) for name in ("registers", "spills", "shared_memory")))
    shared = figures.shared_memory
    static = None if shared is None else max(0, shared - geometry.shared_memory)
    blocks = resident_blocks(Figures(figures.registers, figures.spills, static), geometry, scope.limits)
    grid = math.prod(geometry.grid)
    at_once = min(blocks.values(), default=0) * (subject.here.units if subject.here else 0)
    occupancy = entry.extra.get("occupancy")
    return Limiting(
        figures,
        occupancy if isinstance(occupancy, float) else None,
        math.prod(geometry.block),
        grid,
        blocks,
        grid / at_once if at_once else None,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def sentences(contender: Contender, ceilings: Ceilings | None, bounds: Limiting | None) -> list[str]:
    """What limits a configuration in words: its share of the roofline, and where it is known, `bounds`."""
    lines = []
    known = contender.rates
    roof = roofline.of(known, ceilings)
    if roof is not None and known is not None:
        lines.append(
            f"It reaches {roof.share(known):.1%} of the roofline: at {roof.intensity:,.3g} FLOP per byte "
            f"the {roof.bound} ceiling bounds it."
        )
    elif known is not None and known.vs_memory:
        lines.append(f"It reaches {known.vs_memory:.1%} of the {known.memory} ceiling.")
    elif ceilings is None:
        lines.append("The ceilings of the device are not known; `tune devices --measure` measures them.")
    if bounds is None:
        return lines
    if bounds.blocks:
        count = min(bounds.blocks.values())
        lines.append(
            f"A multiprocessor holds {count} of its blocks of {bounds.threads} threads at once, which "
            f"{bounds.limiter} {'limit' if ' and ' in bounds.limiter or bounds.limiter.endswith('s') else 'limits'}"
            + (f": occupancy {bounds.occupancy:.1%}." if bounds.occupancy is not None else ".")
        )
    if bounds.figures.spills:
        lines.append(f"Its registers spill {bounds.figures.spills} bytes per thread to memory.")
    if bounds.waves is not None:
        full = bounds.waves / math.ceil(bounds.waves)
        lines.append(
            f"Its {bounds.grid:,} blocks run in {bounds.waves:.2f} waves, so {full:.0%} of the places are filled on "
            "average."
        )
    return lines
