"""Finds data-dependent indices: elements of other arrays, and values that atomics return."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuner.drafting.indices import Indices


class Choices:
    """The data-dependent indices among the `indices` of kernels with these `arrays`."""

    def __init__(self, indices: Sequence[Indices], arrays: Sequence[str]) -> None:
        self._indices, self._arrays = indices, arrays

    def is_placed(self, name: str) -> bool:
        """Whether an array is indexed by what an atomic returns: the order of its elements may differ between runs."""
        return any(self._counters(name))

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

    def _atoms(self, name: str) -> Iterator[str]:
        """The atoms of the indices of an array."""
        for indices in self._indices:
            for polynomial in indices.accesses.get(name, ()):
                for product in polynomial:
                    yield from product
