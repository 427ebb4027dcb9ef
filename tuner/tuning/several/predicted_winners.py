"""Which winners may be near the best at a size, as far as their times at other sizes tell."""

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

MAY_WIN = 1.3  # times the least that is predicted at a size: what is thought to take longer is no prospect there
TELLING = 1.8  # the same, for what is also to tell a model where it does not win
LEAST_SIZES = 12  # at which some winner was measured; fewer tell too little


class PredictedWinners:
    """What the look-up's model expects of winners. Of one that it knows too little of, it expects everything."""

    def __init__(
        self,
        spaces: Mapping[str, Space],
        winners: Mapping[str, Sequence[Config]],
        tables: Sequence[TrialTable],
        scope: Scope,
        device: DeviceInfo,
    ) -> None:
        """`tables` have what was measured, the first of them what counts where several have it."""
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
        is_told = max((len(entry.times) for entry in entries), default=0) >= LEAST_SIZES
        self._model = TimeModel(entries, scope, device.units, serves=math.inf, keep=False) if is_told else None
        self.sizes = len({sizes for entry in entries for sizes in entry.times})  # that it has learnt from

    def of(
        self,
        valid: Mapping[str, Sequence[Config]],
        sizes: Mapping[str, int],
        most: float = math.inf,
        within: float = MAY_WIN,
    ) -> dict[str, list[Config]]:
        """Of the `valid` winners at a size, by kernel, those that are thought to take at most `within` times the best;
        the best `most` of them."""
        if self._model is None:
            return {name: [*configs] for name, configs in valid.items()}
        times = self._model.times(sizes, strange=1.0)  # a trial tells what was measured nowhere near
        predicted = dict(zip(self._pairs, times, strict=True))
        here = sorted(predicted[name, config_key(config)] for name, configs in valid.items() for config in configs)
        limit = within * here[0] if here else math.inf
        if len(here) > most:
            limit = min(limit, here[int(most) - 1])
        return {
            name: [c for c in configs if not limit < predicted[name, config_key(c)] < math.inf]
            for name, configs in valid.items()
        }
