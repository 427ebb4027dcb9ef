"""The runners-up of a record: which configurations a look-up may choose in place of its best."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tuner.space.config import Config, config_key
from tuner.space.instance import Instance
from tuner.store.record import RUNNERS_UP

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.tuning.finals.final_round import FinalRound
    from tuner.tuning.finals.finalist import Finalist
    from tuner.tuning.ledger.trial import Trial

GIVEN_RUNNERS_UP = 16  # if the caller gave the configurations; the look-up predicts times at other sizes from theirs
RANKED = 500  # number of best trials from which runners-up are chosen


def among_finalists(finalists: Sequence[Finalist]) -> list[dict[str, Any]]:
    """All finalists but the first, as `next_best` returns them."""
    return [_entry(finalist.trial, finalist.final.time_ms) for finalist in finalists[1:]]


def _entry(trial: Trial, time_ms: float) -> dict[str, Any]:
    return {"config": trial.config, "time_ms": time_ms}


def runners_up(space: Space, scope: Scope, ranked: Sequence[Config], most: int = RUNNERS_UP) -> list[Config]:
    """Choose at most `most` runners-up, best first. `ranked` begins with the record's best configuration.

    How well the last wave of blocks fills the device depends on the size. So at another size, a configuration with
    another grid is more likely to be the best than a near twin of the winner. Up to half of the runners-up are the best
    configurations of other grids. The next ones are the best of each other pair of grid and block. The rest are the
    best of all others.
    """
    geometries = [Instance(space, config, scope).geometries for config in ranked]
    grids = _firsts([tuple(step.grid for step in steps) for steps in geometries])[1 : 1 + most // 2]
    blocks = _firsts([tuple((step.grid, step.block) for step in steps) for steps in geometries])[1:]
    positions = list(dict.fromkeys([*grids, *blocks, *range(1, len(ranked))]))[:most]
    return [ranked[position] for position in sorted(positions)]


def _firsts(values: Sequence[Hashable]) -> list[int]:
    """The position of each distinct value's first occurrence, in ascending order."""
    firsts: dict[Hashable, int] = {}
    for position, value in enumerate(values):
        firsts.setdefault(value, position)
    return list(firsts.values())


def next_best(
    final_round: FinalRound,
    space: Space,
    scope: Scope,
    finalists: Sequence[Finalist],
    best: Callable[[], Iterator[Trial]],
    most: int,
) -> list[dict[str, Any]]:
    """The runners-up of the first of `finalists`, as a record stores them: configurations with times in ms, best first.

    They are chosen among the `best` trials. A look-up may choose any of them, so each is verified as finalists are. One
    that fails is replaced by another. Those that the round has no time left for are left out.
    """
    right = {config_key(finalist.trial.config) for finalist in finalists}
    while True:
        trials = {config_key(trial.config): trial for trial in itertools.islice(best(), RANKED)}
        times = {key: trial.time_ms or 0.0 for key, trial in trials.items()}
        times |= {config_key(f.trial.config): f.final.time_ms for f in finalists}
        trials |= {config_key(f.trial.config): f.trial for f in finalists}
        first = config_key(finalists[0].trial.config)
        ranked = sorted(times, key=lambda key: (key != first, times[key]))
        configs = runners_up(space, scope, [trials[key].config for key in ranked], most)
        unknown = [trials[key] for config in configs if (key := config_key(config)) not in right]
        if not unknown:
            return [_entry(trials[key], times[key]) for key in map(config_key, configs)]
        for part in final_round.parts(unknown):
            if final_round.is_late:
                return [_entry(trials[key], times[key]) for key in map(config_key, configs) if key in right]
            for trial, failure in zip(part, final_round.verified(part), strict=True):
                if failure is None:
                    right.add(config_key(trial.config))
