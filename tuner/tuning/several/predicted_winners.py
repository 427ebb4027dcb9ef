"""Predict which winners may be near the best at a size, from their times at other sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tuner.devices import DeviceInfo
from tuner.prediction.grids import Measured
from tuner.prediction.model import TimeModel
from tuner.space.config import Config, config_key
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.tuning.several.table import TrialTable

MAY_WIN = 1.3  # times the least predicted time at a size: a winner with a longer prediction is not measured there
TELLING = 1.8  # the same, for measurements that also train a time model
LEAST_SIZES = 12  # at which some winner must have been measured; with fewer there is no prediction


class PredictedWinners:
    """Winners by their times as predicted by the look-up's time model.

    A winner with too few measurements for a prediction is assumed to be optimal.
    """

    def __init__(
        self,
        spaces: Mapping[str, Space],
        winners: Mapping[str, Sequence[Config]],
        tables: Sequence[TrialTable],
        scope: Scope,
        device: DeviceInfo,
    ) -> None:
        """`tables` have the measured times; the first table that has a time takes precedence."""
        known = {
            (name, config_key(config)): Measured(spaces[name], config, {})
            for name, configs in winners.items()
            for config in configs
        }
        times: dict[tuple[str, object], dict[tuple[int, ...], float]] = {pair: {} for pair in known}
        for table in reversed(tables):
            for sizes in table.rows():
                for pair, trial in table.ranking(sizes):
                    if pair in known:
                        times[pair][tuple(sizes.values())] = trial.value or math.nan
        entries = [Measured(entry.space, entry.config, times[pair]) for pair, entry in known.items()]
        self._pairs = [*known]
        has_enough = max((len(entry.times) for entry in entries), default=0) >= LEAST_SIZES
        self._model = TimeModel(entries, scope, device.units, serves=math.inf) if has_enough else None
        self.sizes = len({sizes for entry in entries for sizes in entry.times})  # number of training sizes

    def of(
        self,
        valid: Mapping[str, Sequence[Config]],
        sizes: Mapping[str, int],
        most: float = math.inf,
        within: float = MAY_WIN,
    ) -> dict[str, list[Config]]:
        """Those of the `valid` winners that are predicted to take at most `within` times the best at a size, by kernel.

        At most the best `most` of them are returned; without a model, all.
        """
        if self._model is None:
            return {name: [*configs] for name, configs in valid.items()}
        pairs = {(name, config_key(config)) for name, configs in valid.items() for config in configs}
        times = self._model.times(sizes, is_valid=lambda each: self._pairs[each] in pairs, within=within)
        predicted = dict(zip(self._pairs, times, strict=True))
        ascending = sorted(predicted[pair] for pair in pairs)
        limit = within * ascending[0] if ascending else math.inf
        if len(ascending) > most:
            limit = min(limit, ascending[int(most) - 1])
        return {
            name: [c for c in configs if not limit < predicted[name, config_key(c)] < math.inf]
            for name, configs in valid.items()
        }
