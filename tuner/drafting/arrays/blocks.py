"""Infers block sizes from the strides of threadIdx, blockIdx and loop variables in index expressions.

In `(blockIdx.y * ROWS + j) * BY + threadIdx.y`, threads have the stride 1, the loop variable j has the stride BY, and
blocks have the stride ROWS * BY. The block size is the stride of the next level (here j) in units of the thread stride.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator

from tuner.drafting.arrays.indices import Indices
from tuner.drafting.polynomials import Monomial, Polynomial

_PART = re.compile(r"\((threadIdx\.[xyz])\) / \((\w+)\)")  # a warp index
_QUOTIENT = re.compile(r"\([\w *+]+\) / \([\w *]+\)")
MOST_THREADS = 1024

Ratio = tuple[int, Monomial]  # a factor times a product of names


class Blocks:
    """Block sizes inferred from `indices`; `names` are macros and constants, `sizes` kernel arguments."""

    def __init__(self, indices: Indices, names: Collection[str], sizes: Collection[str]) -> None:
        self._indices, self._names, self._sizes = indices, names, sizes

    def extent(self, axis: str) -> str:
        """The block size along an axis, as an expression; empty if it is unknown or ambiguous."""
        steps, loops, blocks, threads = set[Ratio](), set[Ratio](), set[Ratio](), set[Ratio]()
        tiles = set[tuple[Ratio, Ratio]]()
        for polynomial, step in self._polynomials():
            for product, factor, warp in self._of_thread(polynomial, axis):
                unit = (factor, tuple(name for name in product if "threadIdx." not in name))
                steps |= {_times(r, warp) for r in self._steps(step, unit)}
                for variable, ratio in self._ratios(polynomial, product, unit):
                    ratio = _times(ratio, warp)
                    is_thread = "threadIdx." in variable
                    kind = blocks if variable.startswith("blockIdx.") else threads if is_thread else loops
                    kind.add(ratio)
                    tiles |= {(ratio, limit) for limit in self._limits(variable)}
        within = {r for r in loops if any(_divides(r, block) for block in blocks)} if blocks else loops
        for strides in (steps, {r for r, limit in tiles if limit in blocks}, within, blocks, threads):
            if stride := _common_stride(strides):
                return stride
        return ""

    def _polynomials(self) -> Iterator[tuple[Polynomial, list[Polynomial]]]:
        """Every expression of the kernel. The start value of a loop variable comes with the steps of its loop."""
        indices = self._indices
        for polynomials in indices.accesses.values():
            yield from ((polynomial, []) for polynomial in polynomials)
        yield from ((polynomial, []) for polynomial, _ in indices.bounds)
        yield from ((polynomial, []) for polynomial in indices.locals())
        yield from indices.loops.values()

    def _of_thread(self, polynomial: Polynomial, axis: str) -> Iterator[tuple[Monomial, int, Ratio]]:
        """The term that contains the thread index of `axis`: its product, its factor, and the threads per index value.

        A thread index has one thread per value, a warp index 32. Yields nothing unless exactly one term contains it.
        """
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

    def _steps(self, steps: list[Polynomial], unit: Ratio) -> Iterator[Ratio]:
        """The steps of a loop whose variable starts at the thread index, in units of the thread stride `unit`."""
        for step in steps:
            for product, factor in step.items() if len(step) == 1 else ():
                rest = tuple(name for name in product if not name.startswith("gridDim."))
                if (ratio := _ratio((factor, rest), unit)) and self._is_known(ratio):
                    yield ratio

    def _ratios(self, polynomial: Polynomial, thread: Monomial, unit: Ratio) -> Iterator[tuple[str, Ratio]]:
        """The strides of the block indices, loop variables and other thread indices, in units of the thread stride."""
        uses = Counter(variable for product in polynomial if (variable := self._variable(product)))
        for product, factor in polynomial.items():
            variable = self._variable(product)
            if product == thread or not variable or uses[variable] > 1:
                continue
            rest = list(product)
            rest.remove(variable)
            stride: Ratio = factor, tuple(rest)
            _, steps = self._indices.loops.get(variable, ({}, []))
            if len(steps) == 1 == len(steps[0]):
                ((more, number),) = steps[0].items()
                stride = _times(stride, (number, more))
            if (ratio := _ratio(stride, unit)) and self._is_known(ratio):
                yield variable, ratio

    def _limits(self, loop: str) -> Iterator[Ratio]:
        """The upper limits of a loop variable whose step is not 1."""
        _, steps = self._indices.loops.get(loop, ({}, []))
        for polynomial, words in self._indices.bounds if steps and steps != [{(): 1}] else ():
            limit = self._indices.polynomial(words)
            if polynomial == {(loop,): 1} and len(limit) == 1:
                ((product, factor),) = limit.items()
                yield factor, product

    def _variable(self, product: Monomial) -> str:
        """The index variable of a product: its only factor that is no macro, constant or size; empty if not unique."""
        found = [name for name in product if name not in self._names and name not in self._sizes]
        return found[0] if len(found) == 1 else ""

    def _is_known(self, ratio: Ratio) -> bool:
        number, names = ratio
        return ratio != (1, ()) and number <= MOST_THREADS and all(map(self._is_number, names))

    def _is_number(self, name: str) -> bool:
        """Whether a factor is a macro or constant, or a quotient of them, as in `(BM * BN) / (TM * TN)`."""
        words = re.findall(r"[A-Za-z_]\w*", name) if _QUOTIENT.fullmatch(name) else [name]
        return bool(words) and all(word in self._names for word in words)


def _common_stride(strides: Collection[Ratio]) -> str:
    """The stride that divides all others, as an expression; empty if there is none or it multiplies several names."""
    least = [each for each in strides if all(_divides(each, other) for other in strides)]
    if len(least) != 1 or len(least[0][1]) > 1:
        return ""
    number, names = least[0]
    return " * ".join([*([str(number)] if number > 1 or not names else []), *names]).replace(" / ", " // ")


def _ratio(stride: Ratio, unit: Ratio) -> Ratio | None:
    """`stride` divided by `unit`; None if it is not a multiple."""
    more, less = Counter(stride[1]), Counter(unit[1])
    if less - more or unit[0] <= 0 or stride[0] <= 0 or stride[0] % unit[0]:
        return None
    return stride[0] // unit[0], tuple(sorted((more - less).elements()))


def _divides(one: Ratio, other: Ratio) -> bool:
    return _ratio(other, one) is not None


def _times(one: Ratio, other: Ratio) -> Ratio:
    return one[0] * other[0], tuple(sorted(one[1] + other[1]))
