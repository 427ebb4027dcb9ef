"""Shapes of arrays, and grids, as they follow from how a kernel indexes and what it compares its indices with.

An index is a sum of products. Those that share the sizes `cols` are `cols` apart: so these sizes are the extents of the
faster dimensions, and what the others are compared with is the extent of the slowest.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tuner.space.indices import Indices, Monomial, Polynomial, text

_AXES = "xyz"
_OF_THREADS = re.compile(r"(?:threadIdx|blockIdx|blockDim|globalIdx)\.[xyz]|.*\[.*\]")
NEW_SIZES = ("rows", "batch", "blocks")  # names of a size that is the number of blocks, and no argument


@dataclass(frozen=True)
class Open:
    """An extent that no comparison tells: its index, and the axis if that is the number of a block alone, between whose
    blocks there are others."""

    index: str
    axis: str = ""


Extent = str | Open
BLOCKS_APART = 2  # extents that are numbers of the source, between those of blocks: one may be a tile


@dataclass(frozen=True)
class Names:
    """What a kernel takes, as far as shapes are about it: `arrays`, those that are `written`, and `sizes`. `numbers`
    are macros and constants of the source: they may be extents."""

    arrays: Sequence[str]
    written: Sequence[str]
    sizes: Sequence[str]
    numbers: Mapping[str, int]


class Shapes:
    """What is known of the shapes of arrays, whose kernels have these `bodies`, and of the kernels' grids.

    `new_sizes` are sizes that no kernel takes: numbers of blocks, where `has_grid`. `fixed` are the numbers that are
    extents: with another one, the kernel takes other arrays.
    """

    def __init__(self, bodies: Sequence[Sequence[str]], names: Names, has_grid: bool) -> None:
        self.indices = [Indices(body, names.arrays) for body in bodies]
        self._names, self._has_grid = names, has_grid
        self._sizes: list[str] = [*names.sizes]
        found = {name: self._found(name) for name in names.arrays}
        self._sizes += self._limits()
        for name, extents in found.items():
            if (other := None if _is_told(extents) else self._found(name)) and _is_told(other, BLOCKS_APART):
                found[name] = other
        self.new_sizes: list[str] = []
        self._open = self._resolved([*found.values()])
        every = {extent for extents in found.values() for extent in extents or ()}
        self.fixed = {name: number for name, number in names.numbers.items() if name in every}
        self._sizes = [*names.sizes, *self.fixed]
        self._shapes = {name: self._closed(extents) for name, extents in found.items()}

    def _limits(self) -> list[str]:
        """The numbers that something is compared with."""
        bounds = [indices.polynomial(words) for indices in self.indices for _, words in indices.bounds]
        return [name for name in self._names.numbers if any((name,) in bound for bound in bounds)]

    def shape(self, name: str) -> list[str] | None:
        """The shape of an array; None where the text does not tell."""
        return self._shapes.get(name)

    def indexed_by(self, name: str) -> str | None:
        """The extent that the elements of an array of whole numbers choose from, as indices; empty where it is open,
        None where they are no indices."""
        for indices in self.indices:
            for array, polynomials in indices.accesses.items():
                groups = [item for polynomial in polynomials for item in self._groups(polynomial).items()]
                for apart, rest in groups:
                    if any(atom.startswith(f"{name}[") for product in rest for atom in product):
                        shape = self._shapes[array] or []
                        bound = self._bound(indices, rest) or [self._open.get(text(rest), "")]
                        return self._number(bound[0]) or (shape[-1 - len(apart)] if len(apart) < len(shape) else "")
                    if any(re.match(rf"\(+[^\[%]*\b{name}\[[^%]*$", atom) for product in rest for atom in product):
                        return ""  # of what is computed of them
        return None

    def indices_into(self, name: str) -> list[str]:
        """The arrays whose elements choose which element of another array the kernel touches."""
        atoms = [
            atom
            for indices in self.indices
            for polynomial in indices.accesses.get(name, ())
            for product in polynomial
            for atom in product
        ]
        return [each for each in self._names.arrays if any(atom.startswith(f"{each}[") for atom in atoms)]

    def axis_of(self, name: str) -> int | None:
        """The axis by the numbers of whose blocks an array that is written is indexed, and by nothing else; None where
        it is not."""
        if name not in self._names.written:
            return None
        every = [polynomial for indices in self.indices for polynomial in indices.accesses.get(name, ())]
        others = any(name in indices.others for indices in self.indices)
        axes = [axis for axis in range(3) if every and all(p == {(f"blockIdx.{_AXES[axis]}",): 1} for p in every)]
        return axes[0] if axes and not others else None

    def is_limit(self, name: str) -> bool:
        """Whether indices are compared with the elements of an array."""
        return any(
            atom.startswith(f"{name}[")
            for indices in self.indices
            for _, words in indices.bounds
            for product in indices.polynomial(words)
            for atom in product
        )

    def grid(self, step: int, block: Sequence[str]) -> list[str | None]:
        """The blocks of a step in x, y, z, as far as the text tells, by the threads of a block."""
        indices, used = self.indices[step], self.indices[step].atoms()
        axes = [axis for axis in _AXES if {f"blockIdx.{axis}", f"globalIdx.{axis}"} & used]
        count = 1 + max((_AXES.index(axis) for axis in axes), default=-1)
        return [self._blocks(indices, axis, block) if axis in axes else "1" for axis in _AXES[:count]]

    def steps_over_grid(self, step: int) -> bool:
        """Whether a loop of a step goes on behind all that the blocks of the grid have done."""
        steps = (name for _, steps in self.indices[step].loops.values() for p in steps for each in p for name in each)
        return any(name.startswith(("gridDim.", "get_global_size")) for name in steps)

    def _blocks(self, indices: Indices, axis: str, block: Sequence[str]) -> str | None:
        """The blocks along an axis; None where nothing tells, or what tells does not agree."""
        threads = {f"blockDim.{name}": extent for name, extent in zip(_AXES, block, strict=False)}
        found = set[str]()
        for polynomial, extents in (*self._bounds(indices), *self._ranges(indices)):
            extent, polynomial = " * ".join(map(self._number, extents)), self._begun(indices, polynomial)
            if polynomial == {(f"globalIdx.{axis}",): 1} and f"blockDim.{axis}" in threads:
                found.add(f"ceil_div({extent}, {threads[f'blockDim.{axis}']})")
            steps = [(p, factor) for p, factor in polynomial.items() if f"blockIdx.{axis}" in p]
            others = [name for p, _ in steps for name in p if name != f"blockIdx.{axis}"]
            if len(steps) != 1 or not all(n in threads or (n.isidentifier() and n not in self._sizes) for n in others):
                continue
            factors = [threads.get(name, name) for name in others]
            factors += [str(steps[0][1])] if steps[0][1] != 1 else []
            tiles = " * ".join(f"({f})" if re.search(r"[-+/%]", f) else f for f in factors)
            found.add(f"ceil_div({extent}, {tiles})" if tiles else extent)
        return found.pop() if len(found) == 1 else None

    def _begun(self, indices: Indices, polynomial: Polynomial) -> Polynomial:
        """Of the variable of a loop within a block alone, what it begins with."""
        (only, *more) = [*polynomial] or [()]
        start, steps = indices.loops.get(only[0], ({}, [])) if len(only) == 1 and not more else ({}, [])
        within = (
            name.startswith("blockDim.") or (name.isidentifier() and name not in self._sizes)
            for step in steps
            for product in step
            for name in product
        )
        return start if start and all(within) else polynomial

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
        found, constants = list[list[Extent]](), list[int]()
        for indices in self.indices:
            for polynomial in indices.accesses.get(name, ()):
                if set(polynomial) <= {()}:
                    constants.append(polynomial.get((), 0))
                elif (extents := self._by_index(indices, polynomial)) is None:
                    return None
                elif extents not in found:
                    found.append(extents)
        if not found and constants and name in self._names.written:
            return [str(max(constants) + 1)]
        longer = [e for e in found if len(found) == 2 and isinstance(e[0], str) and " + " in e[0]]  # row_ptr[row + 1]
        return longer[0] if longer else found[0] if len(found) == 1 else None

    def _by_index(self, indices: Indices, polynomial: Polynomial) -> list[Extent] | None:
        groups = self._groups(polynomial)
        strides = sorted({(), *groups}, key=len)
        extents: list[Extent] = []
        for near, far in itertools.pairwise(strides):
            if Counter(near) - Counter(far):
                return None
            extents[:0] = self._in_order(Counter(far) - Counter(near))
        last, beyond = groups.get(strides[-1], {}), polynomial.get((), 0)
        if bound := self._bound(indices, last):
            if (
                len(bound) == len(strides) == 1
                and beyond > 0
                and polynomial not in (p for p, _ in self._bounds(indices))
            ):
                return [f"{bound[0]} + {beyond}"]
            return [*bound, *extents]
        atoms = [name for product in last for name in product if "." in name or "[" in name]
        if not atoms or not all(map(_OF_THREADS.fullmatch, atoms)):
            return None
        axis = next((a for a in _AXES if last == {(f"blockIdx.{a}",): 1}), "")
        return [Open(text(last), axis if extents else ""), *extents]

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
            extents = self._product(indices.moduli[only[0]])
            return None if extents is None else [*extents]
        found = {tuple(extents) for polynomial, extents in self._bounds(indices) if _bare(polynomial) == _bare(rest)}
        return list(found.pop()) if len(found) == 1 else None

    def _bounds(self, indices: Indices) -> Iterator[tuple[Polynomial, list[str]]]:
        """What is less than a product of sizes: of `i < n - 1`, it is i + 1."""
        for polynomial, words in indices.bounds:
            limit = indices.polynomial(words)
            if (extents := self._product(_bare(limit))) is not None:
                less = {**polynomial, (): polynomial.get((), 0) - limit.get((), 0)}
                yield {product: factor for product, factor in less.items() if factor}, extents

    def _product(self, limit: Polynomial) -> list[str] | None:
        """The sizes of a product of sizes; None for anything else."""
        names = next(iter(limit)) if len(limit) == 1 and set(limit.values()) == {1} else ()
        return self._in_order(Counter(names)) if names and set(names) <= set(self._sizes) else None

    def _resolved(self, found: Sequence[Sequence[Extent] | None]) -> dict[str, str]:
        """Sizes for open extents: the only one that no shape has, or a new one for the blocks of an axis."""
        every = [extent for extents in found for extent in extents or ()]
        used = {word for extent in every if isinstance(extent, str) for word in extent.split()}
        left = [size for size in self._names.sizes if size not in used]
        open_ = [extent for extent in every if isinstance(extent, Open)]
        texts, axes = dict.fromkeys(each.index for each in open_), {each.index for each in open_ if each.axis}
        if None in found and not axes.issuperset(texts):
            return {}  # an array of which nothing is known may have any size
        if len(texts) == len(left) == 1:
            return dict.fromkeys(texts, left[0])
        if not left and self._has_grid and axes.issuperset(texts):
            self.new_sizes = [name for name in NEW_SIZES if name not in used][: len(texts)]
            return dict(zip(texts, self.new_sizes, strict=False))
        return {}

    def _closed(self, extents: Sequence[Extent] | None) -> list[str] | None:
        closed = [each if isinstance(each, str) else self._open.get(each.index) for each in extents or ()]
        return [self._number(each) for each in closed if each] if closed and None not in closed else None

    def _number(self, extent: str) -> str:
        return str(self.fixed.get(extent, extent))


def _is_told(extents: Sequence[Extent] | None, apart: int = 0) -> bool:
    """Whether all extents are told, but that of blocks, where these are more than `apart` extents apart."""
    if not extents:
        return False
    first, *others = extents
    return isinstance(first, str) or (first.axis != "" and len(others) >= apart)


def _bare(polynomial: Polynomial) -> dict[Monomial, int]:
    """Without the number that is added."""
    return {product: factor for product, factor in polynomial.items() if product}
