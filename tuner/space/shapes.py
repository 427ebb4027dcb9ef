"""Shapes of arrays, and grids, as they follow from how a kernel indexes and what it compares its indices with.

An index is a sum of products. Those that share the sizes `cols` are `cols` apart: so these sizes are the extents of the
faster dimensions, and what the others are compared with is the extent of the slowest.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tuner.space.indices import Indices, Monomial, Polynomial, text

_AXES = "xyz"
_OF_THREADS = re.compile(r"(?:threadIdx|blockIdx|blockDim|globalIdx)\.[xyz]|.*\[.*\]")
NEW_SIZES = ("rows", "batch", "blocks")  # names of a size that is the number of blocks, and no argument

Extent = str | tuple[str, str]  # of an open one its index, as text, and the axis if that is a block's number alone


class Shapes:
    """What is known of the shapes of `arrays`, whose kernels have these `bodies`, and of the kernels' grids.

    `new_sizes` are sizes that no kernel takes: numbers of blocks. `written` are arrays that a kernel may write.
    """

    def __init__(
        self,
        bodies: Sequence[Sequence[str]],
        arrays: Sequence[str],
        sizes: Sequence[str],
        written: Sequence[str],
        has_grid: bool,
    ) -> None:
        self.indices = [Indices(body, arrays) for body in bodies]
        self._sizes, self._written, self._has_grid = list(sizes), set(written), has_grid
        self.new_sizes: list[str] = []
        found = {name: self._found(name) for name in arrays}
        self._open = self._resolved([extents for extents in found.values() if extents])
        self._shapes = {name: self._closed(extents) for name, extents in found.items()}

    def shape(self, name: str) -> list[str] | None:
        """The shape of an array; None where the text does not tell."""
        return self._shapes.get(name)

    def indexed_by(self, name: str) -> str | None:
        """The extent that the elements of an array of whole numbers choose from, as indices; empty where it is open,
        None where they are no indices."""
        for indices in self.indices:
            for array, polynomials in indices.accesses.items():
                for polynomial in polynomials:
                    for apart, rest in self._groups(polynomial).items():
                        if any(atom.startswith(f"{name}[") for product in rest for atom in product):
                            extent = self._bound(indices, rest) or self._open.get(text(rest))
                            position = len(apart) if array in self._shapes else 0
                            shape = self._shapes.get(array)
                            told = shape[-1 - position] if shape and position < len(shape) else ""
                            return (extent[0] if isinstance(extent, list) else extent) or told
        return None

    def grid(self, step: int, block: Sequence[str]) -> list[str | None]:
        """The blocks of a step in x, y, z, as far as the text tells, by the threads of a block."""
        indices, used = self.indices[step], self.indices[step].atoms()
        axes = [axis for axis in _AXES if {f"blockIdx.{axis}", f"globalIdx.{axis}"} & used]
        count = 1 + max((_AXES.index(axis) for axis in axes), default=-1)
        return [self._blocks(indices, axis, block) if axis in axes else "1" for axis in _AXES[:count]]

    def _blocks(self, indices: Indices, axis: str, block: Sequence[str]) -> str | None:
        """The blocks along an axis; None where nothing tells, or what tells does not agree."""
        threads = {f"blockDim.{name}": extent for name, extent in zip(_AXES, block, strict=False)}
        known = [(p, extents) for p, words in indices.bounds if (extents := self._extents(words))]
        known += self._ranges(indices)
        found = set[str]()
        for polynomial, extents in known:
            extent = " * ".join(extents)
            if polynomial == {(f"globalIdx.{axis}",): 1} and f"blockDim.{axis}" in threads:
                found.add(f"ceil_div({extent}, {threads[f'blockDim.{axis}']})")
            steps = [(p, factor) for p, factor in polynomial.items() if f"blockIdx.{axis}" in p]
            others = [name for p, _ in steps for name in p if name != f"blockIdx.{axis}"]
            if len(steps) != 1 or any("[" in n or n in self._sizes or (n not in threads and "." in n) for n in others):
                continue
            factors = [threads.get(name, name) for name in others]
            factors += [str(steps[0][1])] if steps[0][1] != 1 else []
            tiles = " * ".join(f"({f})" if re.search(r"[-+/%]", f) else f for f in factors)
            found.add(f"ceil_div({extent}, {tiles})" if tiles else extent)
        return found.pop() if len(found) == 1 else None

    def _ranges(self, indices: Indices) -> Iterator[tuple[Polynomial, list[str]]]:
        """The parts of indices, each with the extent that it runs over."""
        for name, polynomials in indices.accesses.items():
            for polynomial in polynomials if self._shapes[name] else ():
                groups = self._groups(polynomial)
                strides = sorted({(), *groups}, key=len)
                for near, far in itertools.pairwise(strides):
                    yield groups.get(near, {}), self._in_order(Counter(far) - Counter(near))
                if (last := text(groups.get(strides[-1], {}))) in self._open:
                    yield groups[strides[-1]], [self._open[last]]

    def _found(self, name: str) -> list[Extent] | None:
        """The extents of an array by all its accesses; None where these do not tell, or do not agree."""
        if any(name in indices.others for indices in self.indices):
            return None
        found = list[list[Extent]]()
        constants = list[int]()
        for indices in self.indices:
            for polynomial in indices.accesses.get(name, ()):
                if set(polynomial) <= {()}:
                    constants.append(polynomial.get((), 0))
                elif (extents := self._by_index(indices, polynomial)) is None:
                    return None
                elif extents not in found:
                    found.append(extents)
        if not found and constants and name in self._written:
            return [str(max(constants) + 1)]
        return found[0] if len(found) == 1 else None

    def _by_index(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        groups = self._groups(polynomial)
        strides = sorted({(), *groups}, key=len)
        extents: list[Extent] = []
        for near, far in itertools.pairwise(strides):
            if Counter(near) - Counter(far):
                return None
            extents[:0] = self._in_order(Counter(far) - Counter(near))
        last = groups.get(strides[-1], {})
        if bound := self._bound(indices, last):
            return [*bound, *extents]
        if not last or not all(_OF_THREADS.fullmatch(name) for p in last for name in p if "." in name or "[" in name):
            return None
        if not any("." in name or "[" in name for p in last for name in p):
            return None
        axis = next((a for a in _AXES if last == {(f"blockIdx.{a}",): 1}), "")
        return [(text(last), axis if extents else ""), *extents]

    def _groups(self, polynomial: Polynomial) -> dict[Monomial, dict[Monomial, int]]:
        """The parts of an index by the sizes that they are multiplied by, without numbers that are added."""
        groups = dict[Monomial, dict[Monomial, int]]()
        for product, factor in polynomial.items():
            apart = tuple(name for name in product if name in self._sizes)
            if rest := tuple(name for name in product if name not in self._sizes):
                groups.setdefault(apart, {})[rest] = factor
        return groups

    def _in_order(self, sizes: Counter[str]) -> list[str]:
        return sorted(sizes.elements(), key=self._sizes.index)

    def _bound(self, indices: Indices, rest: Polynomial) -> list[str] | None:
        """What the text compares an index with; None where it does not, or with several extents."""
        (only, *more) = [*rest] or [()]
        if not more and len(only) == 1 and rest[only] == 1 and only[0] in indices.moduli:
            return self._extents(text(indices.moduli[only[0]]).split())
        bare = {product: factor for product, factor in rest.items() if product}
        found = {
            tuple(extents)
            for polynomial, words in indices.bounds
            if {product: factor for product, factor in polynomial.items() if product} == bare
            and (extents := self._extents(words))
        }
        return list(found.pop()) if len(found) == 1 else None

    def _extents(self, words: Sequence[str]) -> list[str] | None:
        """The sizes of a bound that is a product of them; None for any other."""
        plain = [word for word in words if word not in "()"]
        names, signs = plain[::2], plain[1::2]
        return list(names) if set(signs) <= {"*"} and names and set(names) <= set(self._sizes) else None

    def _resolved(self, shapes: Sequence[Sequence[Extent]]) -> dict[str, str]:
        """Sizes for open extents: the only one that no shape has, or a new one for the blocks of an axis."""
        used = {extent for shape in shapes for extent in shape if isinstance(extent, str)}
        open_ = dict.fromkeys(extent for shape in shapes for extent in shape if isinstance(extent, tuple))
        left = [size for size in self._sizes if size not in used]
        texts = dict.fromkeys(index for index, _ in open_)
        axes = {index: axis for index, axis in open_ if axis}
        if len(texts) == len(left) == 1:
            return dict.fromkeys(texts, left[0])
        if not left and self._has_grid and texts and all(index in axes for index in texts):
            free = [name for name in NEW_SIZES if name not in used]
            self.new_sizes = free[: len(texts)]
            return dict(zip(texts, self.new_sizes, strict=False))
        return {}

    def _closed(self, extents: Sequence[Extent] | None) -> list[str] | None:
        closed = [each if isinstance(each, str) else self._open.get(each[0]) for each in extents or ()]
        return [str(each) for each in closed] if closed and None not in closed else None
