"""Finds data-dependent indices: elements of other arrays, and values that atomics return."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from tuner.drafting.arrays.indices import Indices

_ELEMENT = "@"
_PLAIN = re.compile(rf"(?:\( \w+ \) )?(?:__ldg \( & )?({_ELEMENT}|\w+)(?: \. \w+)?(?: \))*")
_CHANGE = r"(?:(?:[-+*/%&|^]|< <|> >) =|\+ \+|- -) "
_ROWS = re.compile(r"(\w+) \[ [^\[\]]* ?\](?= \[)")
_INNERMOST = re.compile(r"(\w+) \[ ([^\[\]]*) ?\]")


class Choices:
    """The data-dependent indices among the `indices` of kernels with these `arrays`; `body` is their tokens."""

    def __init__(self, indices: Sequence[Indices], arrays: Sequence[str], body: str, inputs: Collection[str]) -> None:
        self._indices, self._arrays, self._body, self._inputs = indices, arrays, body, inputs

    def is_placed(self, name: str) -> bool:
        """Whether an array is indexed by what an atomic returns: the order of its elements may differ between runs. It
        may not if inputs are indexed by it, too, as by the number of a piece of work."""
        return bool(self._counters(name).difference(*map(self._counters, self._inputs)))

    def counts_places(self, name: str) -> bool:
        """Whether an array holds counters whose atomics return indices of another array."""
        return any(name in self._counters(array) for array in self._arrays)

    def _counters(self, name: str) -> set[str]:
        """The arrays whose atomics return indices of the array `name`."""
        found = {
            match[1] for atom in self._atoms(name) if (match := re.search(r"\batomic\w* \( (?:[&*()] )*(\w+)", atom))
        }
        return found - {name}

    def indices_into(self, name: str) -> list[str]:
        """The arrays whose elements are indices into the array `name`."""
        return [each for each in self._arrays if any(atom.startswith(f"{each}[") for atom in self._atoms(name))]

    def plainly_into(self, name: str) -> list[str]:
        """The arrays whose indices are elements of an array as they are; empty if any index is computed from them."""
        found = dict[str, None]()
        for indices in self._indices:
            for array, polynomials in indices.accesses.items():
                for polynomial in polynomials:
                    read = [atom for product in polynomial for atom in product if re.search(rf"\b{name}\[", atom)]
                    if read and (polynomial != {(read[0],): 1} or not read[0].startswith(f"{name}[")):
                        return []
                    found |= dict.fromkeys([array] * bool(read))
        return [*found]

    def is_limit(self, name: str) -> bool:
        """Whether indices are compared with the elements of an array."""
        return any(
            atom.startswith(f"{name}[")
            for indices in self._indices
            for smaller, words in indices.bounds
            if not any("[" in each for product in smaller for each in product)  # or elements are compared
            for product in indices.polynomial(words)
            for atom in product
        )

    def indexed_by_copies(self, names: Collection[str]) -> dict[str, bool]:
        """The arrays whose indices are copies of elements of an array (`names`: its name and aliases), or are computed
        from copies, and the kernels' own arrays whose indices are elements without a copy; each with whether they are
        elements as they are."""
        copies, found = self._copies(names), dict[str, bool]()
        for array, index in _elements(self._body, names):
            read = {name for name in copies if name in _words(index)}
            is_direct = _ELEMENT in index.split() and bool(self._declarations(array))
            if (read or is_direct) and array not in names:
                is_plain = _PLAIN.fullmatch(index.strip()) is not None
                found[array] = found.get(array, True) and is_plain and all(copies[name] for name in read)
        for array in (each for each in self._arrays if each not in names):
            moves = re.findall(rf"(?<!\. )\b{array} \+ ([A-Za-z_]\w*)", self._body)  # a pointer
            found |= dict.fromkeys([array] * (not copies.keys().isdisjoint(moves)), False)
        return found

    def declared(self, name: str) -> list[str]:
        """The extents with which kernels declare an array of their own; empty if they differ, or declare none."""
        found = self._declarations(name)
        return re.findall(r"\[ ([^\[\]]+) \]", found.pop()) if len(found) == 1 else []

    def _declarations(self, name: str) -> set[str]:
        """The extents, in brackets, of each declaration of an array in the kernels."""
        return {*re.findall(rf"(?<!return )\b[A-Za-z_]\w* {name} ((?:\[ [^\[\]]+ \] )+)[;=]", self._body)}

    def _copies(self, names: Collection[str]) -> dict[str, bool]:
        """The local variables that take elements, each with whether it holds nothing else."""
        assigned = [(name, _values(text, names)) for name, text in re.findall(r"\b(\w+) = (?!=)([^;]*)", self._body)]
        copies = dict[str, bool]()
        while True:
            known = {**copies}
            for name, value in assigned:
                if _ELEMENT in value.split() or _words(value) & copies.keys():
                    plain = _PLAIN.fullmatch(value.strip())
                    copies[name] = copies.get(name, True) and plain is not None and copies.get(plain[1], True)
            for name in copies:
                if re.search(rf"\b{name} {_CHANGE}|{_CHANGE}{name}\b", self._body):
                    copies[name] = False
            if copies == known:
                return copies

    def _atoms(self, name: str) -> Iterator[str]:
        """The atoms of the indices of an array."""
        for indices in self._indices:
            for polynomial in indices.accesses.get(name, ()):
                for product in polynomial:
                    yield from product


def _words(text: str) -> set[str]:
    """The names in an expression, without those of members."""
    return {*re.findall(r"(?<!\. )\b[A-Za-z_]\w*", text)}


def _elements(body: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each array with an index, in tokens joined by blanks. In an index, a mark stands for each element of the arrays
    `names`; elements of others are left out. A name with several indices comes with each of them."""
    left = body
    while _INNERMOST.search(left):
        yield from _INNERMOST.findall(left)
        left = _ROWS.sub(r"\1", left) if _ROWS.search(left) else left
        left = _INNERMOST.sub(lambda found: _ELEMENT if found[1] in names else "#", left)


def _values(text: str, names: Collection[str]) -> str:
    """An expression with a mark in place of each element of the arrays `names`, and without those of others."""
    while match := _INNERMOST.search(text):
        text = text[: match.start()] + (_ELEMENT if match[1] in names else "#") + text[match.end() :]
    return text
