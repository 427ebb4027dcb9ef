"""`tuner.dispatch(..., as_=)`: what was tuned for the way in which a program launches the family's kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.store import lookup
from tuner.store.lookup import Candidate
from tuner.store.rejected import Rejections

if TYPE_CHECKING:
    from tuner.devices import Device
    from tuner.space.deployments import Deployment
    from tuner.space.scope import Scope
    from tuner.store.lookup import Query
    from tuner.store.store import Store


def candidates(
    kernels: Iterable[tuple[Query, Store]], scope: Scope, device: Device, deployment: Deployment, library: bool
) -> Iterator[tuple[Query, Candidate]]:
    """The best configurations of exact records of this deployment, the fastest first; none without such records.

    A record whose vendor library was faster is left out if the `library` is a candidate.
    """
    found: list[tuple[float, Query, Candidate]] = []
    for query, store in kernels:
        asked = replace(query, scope=scope, conditions=device.conditions, deployment=deployment)
        rejections = Rejections(asked)
        own = [record for record in store.records if record.is_of_deployment(deployment) and record.is_verified]
        for fit in lookup.best_fits(own, asked):
            record = fit.record
            is_slower = library and record.library_ms is not None and record.library_ms < record.time_ms
            is_right = query.space.valid(record.config, scope) and rejections.reason(record.config) is None
            if fit.match == "exact" and not fit.stale and is_right and not is_slower:
                found.append((record.time_ms, asked, Candidate(record.config, "exact", record)))
    yield from ((asked, candidate) for _, asked, candidate in sorted(found, key=lambda each: each[0]))
