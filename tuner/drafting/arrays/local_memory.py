"""Infers from a kernel's stores how many elements of a block's local memory it needs.

Nothing but the kernel fills this memory, so a right kernel reads only what it has stored: reads need no more.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from tuner.drafting.arrays.indices import AXES, Indices
from tuner.drafting.arrays.planes import evaluated
from tuner.drafting.polynomials import Polynomial, added, atom, times, written
from tuner.space.sources.tokens import matching

_READ = "read of "  # before the name of an array where it is only read


class StoredMemory:
    """The local memory of a kernel with these tokens as `body`.

    block: the threads of a block in x, y, z, as expressions
    names: the parameters and sizes that an extent may have
    numbers: the macros and constants that are numbers
    """

    def __init__(
        self, body: Sequence[str], block: Sequence[str], names: Collection[str], numbers: Mapping[str, int]
    ) -> None:
        self._body, self._names = body, names
        self._numbers = {name: number for name, number in numbers.items() if name not in names}
        self._block = {f"blockDim.{axis}": extent for axis, extent in zip(AXES, block, strict=False)}

    def elements(self, array: str) -> str:
        """The number of elements of an array, as an expression; empty if that is not certain, as where an address is
        passed on or cast."""
        indices = Indices([*_without_reads(self._body, array)], [array], [*self._names])
        stores = indices.accesses[array]
        if array in indices.others or not stores or _is_passed_on(self._body, indices.aliases[array]):
            return ""
        largest = [self._largest(indices, store) for store in stores]
        known = [each for each in largest if each is not None]
        most = (each for each in known if all(min(added(each, o, -1).values(), default=0) >= 0 for o in known))
        found = next(most, None) if len(known) == len(largest) else None
        return "" if found is None else written(added(found, {(): 1}))

    def _largest(self, indices: Indices, index: Polynomial) -> Polynomial | None:
        """The largest value of an index; None if it is unknown."""
        total: Polynomial = {}
        for product, factor in index.items():
            part: Polynomial | None = {(): factor}
            for name in product:
                value = self._largest_of(indices, name) if factor > 0 else self._constant(name)
                if value is None or part is None:
                    return None
                part = times(part, value)
            total = added(total, part or {})
        return total

    def _largest_of(self, indices: Indices, name: str) -> Polynomial | None:
        """The largest value of a name or of another atom; None if it is unknown."""
        if (constant := self._constant(name)) is not None:
            return constant
        if name.startswith("threadIdx."):
            threads = self._constant(f"blockDim.{name[-1]}")
            return None if threads is None else added(threads, {(): -1})
        if name in indices.remainders:
            divisor = self._of_constants(indices.remainders[name][1])
            return None if divisor is None else added(divisor, {(): -1})
        if name in indices.quotients:
            dividend, divisor = indices.quotients[name]
            above, below = self._largest(indices, dividend), self._of_constants(divisor)
            if above is None or not below:
                return None
            return added(atom(f"ceil_div({written(added(above, {(): 1}))}, {written(below)})"), {(): -1})
        if name in indices.unsteady:
            return None
        limits = {written(limit): limit for limit in self._limits(indices, name)}
        return self._of_constants(limits.popitem()[1]) if len(limits) == 1 else None

    @staticmethod
    def _limits(indices: Indices, name: str) -> Iterator[Polynomial]:
        """The largest values of a variable that comparisons tell."""
        for left, words in indices.bounds:
            if left == {(name,): 1}:
                yield added(indices.polynomial(words), {(): -1})
        yield from (
            indices.polynomial(right) for sign, left, right in indices.compared if (sign, left) == ("<=", {(name,): 1})
        )

    def _of_constants(self, value: Polynomial) -> Polynomial | None:
        """A value in which all names are known."""
        total: Polynomial = {}
        for product, factor in value.items():
            part: Polynomial = {(): factor}
            for name in product:
                constant = self._constant(name)
                if constant is None:
                    return None
                part = times(part, constant)
            total = added(total, part)
        return total

    def _constant(self, name: str) -> Polynomial | None:
        """The value of a name that is the same in all threads and known before a launch; None for any other."""
        if name in self._block:
            extent = self._block[name]
            return evaluated(_product(extent), self._numbers)
        return evaluated(atom(name), self._numbers) if name in self._names or name in self._numbers else None


def _product(extent: str) -> Polynomial:
    """An extent of a block as a product of names and numbers, or else as one atom in brackets."""
    if re.fullmatch(r"\w+(?: \* \w+)*", extent) is None:
        return atom(f"({extent})")
    total: Polynomial = {(): 1}
    for factor in extent.split(" * "):
        total = times(total, {(): int(factor)} if factor.isdecimal() else atom(factor))
    return total


def _without_reads(body: Sequence[str], array: str) -> Iterator[str]:
    """The tokens of a kernel, with another name in place of the array's where it is declared, or an element is read."""
    for at, word in enumerate(body):
        is_element = word == array and body[at + 1 : at + 2] == ("[",)
        yield f"{_READ}{word}" if is_element and not _is_stored(body, at) else word


def _is_stored(body: Sequence[str], at: int) -> bool:
    """Whether the element of an array at a position is stored, or a part of it as in `s[i].x = v`, or its address is
    taken. What `+=` adds to has been stored before."""
    end = matching(body, at + 1) + 1
    while body[end : end + 1] in ((".",), ("[",)):
        end = end + 2 if body[end] == "." else matching(body, end) + 1
    is_assigned = body[end : end + 1] == ("=",) and body[end + 1 : end + 2] != ("=",)
    return is_assigned or _is_address(body, at)


def _is_address(body: Sequence[str], at: int) -> bool:
    """Whether the address of the element at a position is taken, and it is no operand of `&` or `&&`."""
    before = body[at - 2] if at > 1 else ""
    is_operand = before in ("&", "]") or (before.isidentifier() and before != "return") or before[:1].isdigit()
    return body[at - 1 : at] == ("&",) and not is_operand


def _is_passed_on(body: Sequence[str], names: Collection[str]) -> bool:
    """Whether more than an element may be stored at an address in an array, which has these names: it goes neither into
    an atomic function nor into a pointer, whose accesses are known."""
    taken = (at for at, each in enumerate(body) if each in names and body[at + 1 : at + 2] == ("[",))
    before = (body[max(0, at - 3) : at - 1] for at in taken if _is_address(body, at))
    return any(words[-1:] != ("=",) and not (words[1:] == ("(",) and words[0].startswith("atom")) for words in before)
