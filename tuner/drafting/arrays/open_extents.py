"""Finds sizes for the extents that no index bounds: the only size that is left, or a new one for a number of blocks."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.drafting.arrays.bounds import Extent, Open, by_length

if TYPE_CHECKING:
    from tuner.drafting.arrays.index_extents import IndexExtents
    from tuner.drafting.arrays.indices import Indices

NEW_SIZES = ("rows", "batch", "blocks")  # names for a size that is a number of blocks and no kernel argument


class OpenExtents:
    """The sizes for the open extents among those `found` of arrays.

    by_index: the size of each, by its index
    new_sizes: numbers of blocks that are no kernel argument; only if `has_grid`

    every: the indices of all kernels, which `single` reads, and which have the words `read`
    same: sizes that other accesses tell, by index
    """

    def __init__(
        self,
        found: Sequence[Sequence[Extent] | None],
        every: Sequence[Indices],
        single: IndexExtents,
        sizes: Sequence[str],
        read: set[str],
        same: Mapping[str, str],
        has_grid: bool,
    ) -> None:
        self._every, self._single, self._sizes, self._read = every, single, sizes, read
        self._same, self._has_grid = same, has_grid
        self.new_sizes: list[str] = []
        self.by_index = self._resolved(found)

    @property
    def axes_of_new(self) -> dict[str, int]:
        """The axes of the blocks whose numbers are new sizes, by these sizes."""
        every = {f"blockIdx.{axis}": at for at, axis in enumerate("xyz")}
        return {
            size: every[index] for index, size in self.by_index.items() if size in self.new_sizes and index in every
        }

    def _resolved(self, found: Sequence[Sequence[Extent] | None]) -> dict[str, str]:
        """Sizes for open extents, by index: the only unused size that no kernel reads, or a new one for blocks."""
        every = [extent for extents in found for extent in extents or ()]
        used = {word for extent in every if isinstance(extent, str) for word in re.findall(r"\w+", extent)}
        left = [size for size in self._sizes if size not in used]
        open_ = [extent for extent in every if isinstance(extent, Open)]
        told = {each.index: bound for each in open_ if each.axis and (bound := self._of_layout(each.axis))}
        told |= {each.index: self._same[each.index] for each in open_ if each.index in self._same}
        open_ = [each for each in open_ if each.index not in told]
        return told | self._of_left(found, open_, used | {*told.values()}, left) if open_ else told

    def _of_left(
        self, found: Sequence[Sequence[Extent] | None], open_: Sequence[Open], used: set[str], left: list[str]
    ) -> dict[str, str]:
        """Sizes for open extents that no array tells: the only one that is left, or a new one for blocks."""
        left = [size for size in left if size not in used]
        texts, axes = dict.fromkeys(each.index for each in open_), {each.index for each in open_ if each.axis}
        if None in found and not axes.issuperset(texts):
            return {}  # an array of unknown shape may have the size that is left
        has_planes = any(len(each) > 2 and isinstance(each[0], Open) for each in found if each)
        if not self._read.isdisjoint(left):  # which may be something else, such as a trip count
            left = [] if self._read.issuperset(left) and has_planes else left
            if left:
                return {}
        if len(texts) == len(left) == 1:
            return dict.fromkeys(texts, left[0])
        if len(axes) == len(left) == 1 and not any("[" in each for each in texts):
            return dict.fromkeys(axes, left[0])
        if not left and self._has_grid and axes.issuperset(texts) and not any(map(self._is_bounded, axes)):
            self.new_sizes = [name for name in NEW_SIZES if name not in used][: len(texts)]
            return dict(zip(texts, self.new_sizes, strict=False))
        return {}

    def _is_bounded(self, block: str) -> bool:
        """Whether a comparison already tells the number of blocks along an axis, by its block index."""
        atoms = {block, block.replace("blockIdx", "globalIdx")}
        every = (index for indices in self._every for index, _ in self._single.bounds(indices).less)
        return any(not atoms.isdisjoint(product) for index in every for product in index)

    def _of_layout(self, axis: str) -> str:
        """The number of values that a block index along an axis has, as strides tell it: `batch` for b in
        `c * batch * n + b * n`. Empty if there is none, or several, or if a kernel that has the index tells none."""
        found, block = set[tuple[str, ...]](), {(f"blockIdx.{axis}",): 1}
        for indices in self._every:
            own, is_read = set[tuple[str, ...]](), False
            for polynomial in (each for every in indices.accesses.values() for each in every):
                groups = self._single.groups(polynomial)
                is_read |= block in groups.values()
                for near, far in itertools.pairwise(by_length(groups)):
                    if groups.get(near) == block and not Counter(near) - Counter(far):
                        own.add(tuple((Counter(far) - Counter(near)).elements()))
            found |= own or ({()} if is_read else set())
        (only, *more) = found or [()]
        return only[0] if len(only) == 1 and not more else ""
