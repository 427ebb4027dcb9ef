"""What the host code around a kernel says: sizes of arrays, grids, and block sizes, in the kernel's terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.drafting.host.kernel_names import KernelNames
from tuner.drafting.host.program import HostProgram
from tuner.drafting.host.sites import Site, sites
from tuner.drafting.host.terms import Terms
from tuner.drafting.polynomials import Polynomial, written
from tuner.space.sources.prototype import Parameter, Prototype


@dataclass(frozen=True)
class Said:
    """What host code says of the kernels with certain block sizes.

    counts: the numbers of elements of arrays, over names of the draft.
    grids: for each step, the extents of its grid; None where they are unknown.
    new: sizes that no kernel takes, with their numbers on the host.
    values: scalars that follow from other sizes.
    """

    counts: Mapping[str, Polynomial] = field(default_factory=dict)
    grids: Sequence[Sequence[str | None]] = ()
    new: Mapping[str, int | None] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)


class HostLaunches:
    """The launches of `steps` in a program. numbers: the macros and constants of the kernels."""

    def __init__(
        self,
        program: HostProgram | None,
        steps: Sequence[Prototype],
        numbers: Collection[str],
        item_bytes: Callable[[Parameter], int | None],
    ) -> None:
        self._numbers = numbers
        self._sites = [sites(program, step, item_bytes) if program else [] for step in steps]

    @property
    def fixed(self) -> set[str]:
        """The macros and constants of the kernels that are extents of arrays and no part of a block size."""
        every = [site for found in self._sites for site in found]
        own = {f":{name}#0": name for name in self._numbers}
        blocks = {name for site in every for each in site.block or () for name in _names(each)}
        found = {name for site in every for each in site.arrays.values() for name in _names(each)}
        return {own[name] for name in found - blocks if name in own}

    @property
    def configured(self) -> set[str]:
        """The macros and constants of the kernels in the grids and blocks of launches."""
        every = [each for found in self._sites for site in found for each in (*(site.block or ()), *(site.grid or ()))]
        names = {name for each in every for name in _names(each)}
        return {name for name in self._numbers if any(re.search(rf":{name}#0\b", each) for each in names)}

    def is_block(self, name: str) -> bool:
        """Whether a launch's block size has a macro or constant of this name."""
        every = (each for found in self._sites for site in found for each in site.block or ())
        return any(f":{name}#0" in _names(each) for each in every)

    def block(self, step: int) -> list[int | None]:
        """The numbers of threads in x, y, z that all launches of a step have; None if unknown."""
        found = [[site.number_of(each) for each in site.block] for site in self._sites[step] if site.block]
        return found[0] if found and all(each == found[0] for each in found) else []

    def number(self, name: str) -> int | None:
        """The number that all launches pass for a scalar or a template parameter."""
        every = [site for found in self._sites for site in found if name in site.scalars]
        numbers = {site.number_of(site.scalars[name]) for site in every}
        return numbers.pop() if len(numbers) == 1 else None

    @property
    def literals(self) -> set[str]:
        """The scalars for which a launch passes a number that has no name."""
        every = [site for found in self._sites for site in found]
        return {name for site in every for name, value in site.scalars.items() if set(value) <= {()}}

    def said(self, names: KernelNames, blocks: Sequence[Sequence[str]]) -> Said:
        """What the launches say in the terms of the kernels, whose block sizes are `blocks`."""
        counts, new, grids = dict[str, Polynomial](), dict[str, int | None](), list[list[str | None]]()
        values = dict[str, set[str]]()
        for found, block in zip(self._sites, blocks, strict=True):
            terms = [(site, Terms(site, names, block)) for site in found]
            for name in dict.fromkeys(name for site in found for name in site.arrays):
                each = [said for site, term in terms if name in site.arrays and (said := term.said(site.arrays[name]))]
                if each and all(other == each[0] for other in each) and counts.setdefault(name, each[0]) != each[0]:
                    del counts[name]
                elif any(other != each[0] for other in each):
                    counts.pop(name, None)
            grids.append([*_grid(terms)])
            for _, term in terms:
                new |= term.new
            for site, term in terms:
                for name in names.sizes:
                    if name in site.scalars:
                        values.setdefault(name, set()).add(_written(term.value(name)))
        certain = {name: each.pop() for name, each in values.items() if len(each) == 1}
        return Said(counts, grids, new, {name: value for name, value in certain.items() if value not in ("", name)})


def _written(value: Polynomial | None) -> str:
    return "" if value is None else written(value)


def _grid(terms: Sequence[tuple[Site, Terms]]) -> Iterator[str | None]:
    """The extents of a grid on which all launches agree; None for the others."""
    every = [(site.grid, term) for site, term in terms if site.grid]
    for axis in range(max((len(grid) for grid, _ in every), default=0)):
        found = {_written(term.blocks(grid[axis], axis)) if axis < len(grid) else "1" for grid, term in every}
        yield found.pop() or None if len(found) == 1 else None


def _names(value: Polynomial) -> Iterator[str]:
    return (name for product in value for name in product)
