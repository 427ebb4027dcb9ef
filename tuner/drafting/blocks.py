"""The threads of a block, as they follow from how far apart threads are in what a kernel computes of their numbers.

In `(blockIdx.y * ROWS + j) * BY + threadIdx.y`, the next thread is 1 apart, the next j is BY, and the next block is
ROWS * BY. Between a thread and what is next to it there are as many as a block has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

from tuner.drafting.indices import Indices
from tuner.drafting.polynomials import Monomial, Polynomial

_PART = re.compile(r"\((threadIdx\.[xyz])\) / \((\w+)\)")  # the number of a warp
_QUOTIENT = re.compile(r"\([\w *+]+\) / \([\w *]+\)")
MOST_THREADS = 1024

Ratio = tuple[int, Monomial]  # a number and the names that it is multiplied by


class Blocks:
    """What `indices` tell by the macros and constants `names`; `sizes` are what a kernel takes."""

    def __init__(self, indices: Indices, names: Collection[str], sizes: Collection[str]) -> None:
        self._indices, self._names, self._sizes = indices, names, sizes

    def extent(self, axis: str) -> str:
        """The threads of a block along an axis; empty where nothing tells, or where what tells does not agree."""
        steps, loops, blocks, threads = set[Ratio](), set[Ratio](), set[Ratio](), set[Ratio]()
        tiles = set[tuple[Ratio, Ratio]]()
        for polynomial, step in self._polynomials():
            for product, factor, warp in self._of_thread(polynomial, axis):
                apart = (factor, tuple(name for name in product if "threadIdx." not in name))
                steps |= {_times(r, warp) for r in self._steps(step, apart)}
                for mover, ratio in self._ratios(polynomial, product, apart):
                    ratio = _times(ratio, warp)
                    kind = blocks if mover.startswith("blockIdx.") else threads if "threadIdx." in mover else loops
                    kind.add(ratio)
                    tiles |= {(ratio, limit) for limit in self._limits(mover)}
        within = {r for r in loops if any(_divides(r, block) for block in blocks)} if blocks else loops
        for found in (steps, {r for r, limit in tiles if limit in blocks}, within, blocks, threads):
            if told := _one(found):
                return told
        return ""

    def _polynomials(self) -> Iterator[tuple[Polynomial, list[Polynomial]]]:
        """What the kernel computes of threads; beside what a loop begins with, its steps."""
        indices = self._indices
        for polynomials in indices.accesses.values():
            yield from ((polynomial, []) for polynomial in polynomials)
        yield from ((polynomial, []) for polynomial, _ in indices.bounds)
        yield from ((polynomial, []) for polynomial in indices.locals())
        yield from indices.loops.values()

    def _of_thread(self, polynomial: Polynomial, axis: str) -> Iterator[tuple[Monomial, int, Ratio]]:
        """The product that has the number of a thread, or that of its warp with the threads of one."""
        found = [(product, factor) for product, factor in polynomial.items() if self._thread(product, axis)]
        if len(found) == 1 and (warp := self._thread(found[0][0], axis)):
            yield *found[0], warp

    def _thread(self, product: Monomial, axis: str) -> Ratio | None:
        for name in product:
            if name == f"threadIdx.{axis}":
                return 1, ()
            if (part := _PART.fullmatch(name)) and part[1] == f"threadIdx.{axis}":
                return (int(part[2]), ()) if part[2].isdecimal() else (1, (part[2],))
        return None

    def _steps(self, steps: list[Polynomial], apart: Ratio) -> Iterator[Ratio]:
        """How many threads apart the steps of a loop are, whose variable begins with the number of a thread."""
        for step in steps:
            for product, factor in step.items() if len(step) == 1 else ():
                rest = tuple(name for name in product if not name.startswith("gridDim."))
                if (ratio := _ratio((factor, rest), apart)) and self._is_known(ratio):
                    yield ratio

    def _ratios(self, polynomial: Polynomial, thread: Monomial, apart: Ratio) -> Iterator[tuple[str, Ratio]]:
        """How many threads apart the next of whatever else moves is, such as a block or the turn of a loop."""
        moving = Counter(mover for product in polynomial if (mover := self._mover(product)))
        for product, factor in polynomial.items():
            mover = self._mover(product)
            if product == thread or not mover or moving[mover] > 1:
                continue
            rest = list(product)
            rest.remove(mover)
            stride: Ratio = factor, tuple(rest)
            _, steps = self._indices.loops.get(mover, ({}, []))
            if len(steps) == 1 == len(steps[0]):
                ((more, number),) = steps[0].items()
                stride = _times(stride, (number, more))
            if (ratio := _ratio(stride, apart)) and self._is_known(ratio):
                yield mover, ratio

    def _limits(self, loop: str) -> Iterator[Ratio]:
        """What a loop's variable is less than, where its steps are more than 1."""
        _, steps = self._indices.loops.get(loop, ({}, []))
        for polynomial, words in self._indices.bounds if steps and steps != [{(): 1}] else ():
            limit = self._indices.polynomial(words)
            if polynomial == {(loop,): 1} and len(limit) == 1:
                ((product, factor),) = limit.items()
                yield factor, product

    def _mover(self, product: Monomial) -> str:
        """The only factor that is no macro, constant or size; empty where there are others."""
        found = [name for name in product if name not in self._names and name not in self._sizes]
        return found[0] if len(found) == 1 else ""

    def _is_known(self, ratio: Ratio) -> bool:
        number, names = ratio
        return ratio != (1, ()) and number <= MOST_THREADS and all(map(self._is_number, names))

    def _is_number(self, name: str) -> bool:
        """Whether a factor is a macro or constant, or a quotient of such: `(BM * BN) / (TM * TN)`."""
        words = re.findall(r"[A-Za-z_]\w*", name) if _QUOTIENT.fullmatch(name) else [name]
        return bool(words) and all(word in self._names for word in words)


def _one(found: Collection[Ratio]) -> str:
    """The one that divides all others, in words; empty where there is none, or where it has several names."""
    least = [each for each in found if all(_divides(each, other) for other in found)]
    if len(least) != 1 or len(least[0][1]) > 1:
        return ""
    number, names = least[0]
    return " * ".join([*([str(number)] if number > 1 or not names else []), *names]).replace(" / ", " // ")


def _ratio(stride: Ratio, apart: Ratio) -> Ratio | None:
    """How often `apart` is in `stride`; None where it is not."""
    more, less = Counter(stride[1]), Counter(apart[1])
    if less - more or apart[0] <= 0 or stride[0] <= 0 or stride[0] % apart[0]:
        return None
    return stride[0] // apart[0], tuple(sorted((more - less).elements()))


def _divides(one: Ratio, other: Ratio) -> bool:
    return _ratio(other, one) is not None


def _times(one: Ratio, other: Ratio) -> Ratio:
    return one[0] * other[0], tuple(sorted(one[1] + other[1]))
