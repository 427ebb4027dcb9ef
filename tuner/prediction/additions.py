"""Add measured times to a trained time model, without training it again.

What a new time says beyond the model's prediction at its size is interpolated like the residuals of the training sizes:
the new sizes of an entry become further pairs, whose weights explain the differences. Coefficients, traits and the
regret stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.prediction.amounts import Array, Capacity
from tuner.prediction.cost_terms import CostTerms
from tuner.prediction.fitting import sums
from tuner.prediction.grids import Sizes
from tuner.prediction.learning import DEVIATION, MOST_RESIDUAL, NOISE
from tuner.prediction.nearness import scales_of, solve, squared_distances
from tuner.prediction.trained import Trained


def added(trained: Trained, cost: CostTerms, capacity: Capacity, times: Mapping[int, Mapping[Sizes, float]]) -> Trained:
    """The state with these times in ms, by entry. Times at sizes that an entry cannot run are left out."""
    new = sorted({size for of_entry in times.values() for size in of_entry})
    if not new:
        return trained
    numbers, learnt = {size: number for number, size in enumerate(new)}, trained.learnt
    amounts = cost.amounts(new)
    schedule = cost.schedule(amounts, capacity)
    summed = sums(cost.terms(amounts, schedule), learnt.factors, learnt.unseen)
    features, scales = cost.features(amounts, schedule), scales_of(cost.has_tiles, cost.widths)
    ends = learnt.counts.cumsum()
    counts, parts = learnt.counts.copy(), list[tuple[Any, ...]]()
    for entry, end in enumerate(ends.tolist()):
        pairs = slice(end - int(learnt.counts[entry]), end)
        own: tuple[Any, ...] = learnt.sizes[pairs], learnt.own[pairs], learnt.weights[pairs], learnt.errors[pairs]
        rows = np.array([numbers[s] for s in times.get(entry, ()) if np.isfinite(summed[numbers[s], entry])], int)
        if len(rows):
            scale = scales[int(trained.is_kernel[entry])]
            here = np.concatenate([features.shared[rows], features.own[rows, entry]], axis=1)
            near = _covariance(here * scale, learnt.places(pairs) * scale)
            logs = np.log([times[entry][new[row]] for row in rows] / summed[rows, entry])
            errors = np.clip(logs, -MOST_RESIDUAL, MOST_RESIDUAL) - near @ own[2]
            covariance = _covariance(here * scale, here * scale) + NOISE**2 / DEVIATION**2 * np.eye(len(rows))
            weights = solve(covariance, errors)
            further = rows + len(trained.sizes), features.own[rows, entry], weights, errors**2
            own = tuple(np.concatenate(each) for each in zip(own, further, strict=True))
            counts[entry] += len(rows)
        parts.append(own)
    rows_, own_, weights_, errors_ = (np.concatenate(each) for each in zip(*parts, strict=True))
    state = learnt._replace(
        counts=counts, sizes=rows_, shared=np.concatenate([learnt.shared, features.shared]), own=own_,
        weights=weights_.astype(np.float32), errors=errors_.astype(np.float32),
    )  # fmt: skip
    return Trained(
        trained.entries, trained.grids, trained.routines, (*trained.sizes, *new), state, trained.units, trained.cache
    )


def _covariance(ones: Array, others: Array) -> Array:
    covariance: Array = np.exp(-np.sqrt(squared_distances(ones, others)))
    return covariance
