"""Fallback if nothing of the family was measured on this device: look up each of its kernels, and offer the best match
first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tuner.classes import cached_property, dataclass
from tuner.errors import NoConfiguration
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store import lookup
from tuner.store.lookup import MATCHES, Candidate, Query
from tuner.store.record import Record
from tuner.store.rejected import Rejections
from tuner.store.store import Store

_Order = tuple[int, bool, int]  # index of the match, stale, negative index of the kernel


@dataclass(frozen=True)
class _Kernel:
    """A kernel's query, the records that may serve it at some size, and the best match (index) that one may have."""

    query: Query
    records: Sequence[Record]
    best: int


class Fallback:
    """The look-ups of several kernels, whose times are not compared with one another."""

    def __init__(self, stores: Sequence[Store], queries: Sequence[Query]) -> None:
        """`queries` are of the kernels on one device; their sizes do not matter."""
        self._stores, self._queries = stores, queries

    def candidates(self, scope: Scope, judge: Callable[[Space], Rejections]) -> Iterator[tuple[Space, Candidate]]:
        """The first candidate of each kernel, the best match first.

        A kernel is looked up only when its best possible match is next in order. Raises NoConfiguration if no kernel
        has a candidate.
        """
        queue: list[tuple[_Order, Candidate | None]] = [
            ((kernel.best, False, -position), None) for position, kernel in enumerate(self._kernels)
        ]
        failure, is_empty = None, True
        while queue:
            order, candidate = heapq.heappop(queue)
            query, records = self._kernels[-order[2]].query, self._kernels[-order[2]].records
            if candidate is not None:
                is_empty = False
                yield query.space, candidate
                continue
            try:
                candidates = lookup.candidates(records, replace(query, scope=scope, units=0))
                candidate = next(judge(query.space).last(candidates))
            except NoConfiguration as error:
                failure = error
                continue
            heapq.heappush(queue, ((MATCHES.index(candidate.match), candidate.stale, order[2]), candidate))
        if is_empty and failure is not None:
            raise failure

    @cached_property
    def _kernels(self) -> list[_Kernel]:
        """Computed when first needed, because it is slow and most devices never need it."""
        return [_kernel(store, query) for store, query in zip(self._stores, self._queries, strict=True)]


def _kernel(store: Store, query: Query) -> _Kernel:
    space = query.space
    records = [r for r in store.records if any(space.possible(config, query.scope) for config in r.configs)]
    matches = [fit.match for fit in lookup.best_fits(records, query)]
    # A record of this device that is of the nearest size now may be exact at another size.
    levels = [MATCHES.index("exact" if match == "nearest_size" else match) for match in matches]
    return _Kernel(query, records, min(levels, default=MATCHES.index("default")))
