"""Select the finalists of a search, and the runners-up of its record."""

from __future__ import annotations

import functools
import itertools
import logging
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tuner.measure.method import COMPARED_RUNS, COMPARED_SECONDS
from tuner.measure.results import Finals
from tuner.measure.timing.clock import FINAL_SECONDS, MAX_ROUNDS, QUICK_SECONDS
from tuner.measure.timing.race import RACE
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.default import declared_or_first
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import config_text
from tuner.store.record import RUNNERS_UP
from tuner.tuning.finals.final_round import FinalRound
from tuner.tuning.finals.finalist import Finalist
from tuner.tuning.ledger.trial import Trial

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor
    from tuner.search.pool import Pool
    from tuner.tuning.ledger.ledger import Ledger

logger = logging.getLogger(__name__)
MISLED = 0.1  # a search time that was this much too short may have kept better configurations out of the finals
MOST_ROUNDS = 3  # of finals after a search that was misled
FINALISTS = 5
MOST_TRADED_OFF = 20  # finalists of a search with several objectives
SLOW = 10.0  # times the best: so large a difference is no noise
RANKED = 500  # number of best trials from which runners-up are chosen
ROUND_MS = 1e3 * FINAL_SECONDS / MAX_ROUNDS  # longest round of which MAX_ROUNDS fit into FINAL_SECONDS
GIVEN_RUNNERS_UP = 16  # if the caller gave the configurations; the look-up predicts times at other sizes from theirs


@dataclass(frozen=True)
class Selection:
    """The finalists, best first, the Finals of their round, and the runners-up as a record stores them.

    `compared` is the number of runs of the best whose outputs were compared one after the other.
    """

    finalists: list[Finalist]
    finals: Finals
    next_best: list[dict[str, Any]] = field(default_factory=list)
    compared: int = 0


def select(
    worker: Supervisor,
    ledger: Ledger,
    announce: Callable[[int], None],
    noted: Callable[[str], None],
    among: Pool | None = None,
    sustained: float | None = None,
    quick: bool = False,
    others: Pool | None = None,
    runs: int | None = None,
) -> Selection:
    """Measure the best trials again, interleaved with the space's default and the vendor library.

    With several objectives, the non-dominated trials are measured. A trial that fails, or kills the worker, becomes a
    failed trial. If all trials fail, the next best ones are measured. With several objectives, any failure repeats the
    finals, because the failed trial may have dominated others.

    Then the best configuration is run COMPARED_RUNS times, or for COMPARED_SECONDS, and the outputs of each run are
    compared. If `runs` is given, there are that many runs, however long they take. If the configuration fails, the next
    best takes its place.

    A finalist's time may differ from its search time by more than the spread of the two explains. The finalist is then
    measured again as in the search, and the new trial replaces the old one in the ledger. If the new time shows that
    the search was misled, and trials outside the finals now look better, the finals are repeated with these trials.

    `announce` is called with the number of trials about to be measured, `noted` with messages for the user. If `among`
    is given, only its configurations can be finalists. If not, `quick` finals leave out what was RACE times slower than
    the best in the search, take the runners-up from the finalists, and measure nothing again as in the search. If
    `others` is given, its configurations can be runners-up. `sustained` and `quick` are those of `Bench.finals`.
    Raises EnvironmentTrouble if the machine stays in trouble.
    """
    objectives = worker.task.method.objectives
    several, is_short = len(objectives) > 1, quick and among is None
    final_round = FinalRound(worker, ledger, noted, sustained, quick)
    earlier: dict[ConfigKey, Trial] = {}  # the original search trials of finalists that were measured again
    rounds = 0
    while ranked := _ranked(worker, ledger, several, among):
        if is_short and not several:
            ranked = _promising(ranked, ranked[0])
        announce(len(ranked))
        if sustained is not None:
            noted("then running the best, and the vendor library if there is one, back to back for some seconds")
        default = [] if among is not None else _comparable_default(ranked, worker, ledger)
        trials = ranked + (_promising(default, ranked[0]) if is_short else default)
        finals = final_round.measured(trials)
        finalists = [Finalist(trial, final) for trial, final in zip(trials, finals.candidates, strict=True)]
        for finalist in finalists:
            result = finalist.final.failure or f"{finalist.final.time_ms:.4g} ms in {len(finalist.final.times)} rounds"
            logger.debug("finals: %s: %s", result, config_text(finalist.trial.config))
        rounds, known = rounds + 1, set(earlier)
        if not is_short:
            finalists = _again(final_round, finalists, earlier, noted)
        misled = [each for each in finalists if config_key(each.trial.config) not in known and _was_misled(each)]
        if misled and rounds < MOST_ROUNDS and _has_better(finalists, _ranked(worker, ledger, several, among)):
            noted("the search's times were wrong; comparing the best again")
            continue
        survivors = sum(finalist.final.failure is None for finalist in finalists[: len(ranked)])
        if survivors == len(ranked) or (survivors and not several):
            valid = [finalist for finalist in finalists if finalist.final.failure is None]
            best_first = sorted(valid, key=lambda finalist: finalist.values(objectives))
            compared = _repeated(final_round, worker, best_first, runs, quick, may_follow=not several and not sustained)
            if compared is None:
                continue
            most = RUNNERS_UP if others is None else GIVEN_RUNNERS_UP
            if is_short:
                runners = _among_finalists(best_first)
            else:
                candidates = functools.partial(_best, worker, ledger, others or among)
                runners = next_best(final_round, worker, best_first, candidates, most)
            return Selection(best_first, finals, runners, compared)
    return Selection([], Finals())


def _again(
    final_round: FinalRound,
    finalists: Sequence[Finalist],
    earlier: dict[ConfigKey, Trial],
    noted: Callable[[str], None],
) -> list[Finalist]:
    """The finalists, after measuring again those whose time has changed by more than its spread.

    They are measured as in the search, and only once each. `earlier` holds the original search trials of finalists that
    were measured again; this function adds to it. A finalist that fails when it is measured again has failed.
    """
    keys = [config_key(finalist.trial.config) for finalist in finalists]
    changed = [
        finalist
        for key, finalist in zip(keys, finalists, strict=True)
        if key not in earlier and finalist.final.failure is None and finalist.has_changed and not finalist.is_spread
    ]
    if changed:
        noted(f"measuring {len(changed)} of them once more as in the search, because their times there were different")
    later = final_round.searched_again([finalist.trial for finalist in changed])
    for finalist, trial in zip(changed, later, strict=True):
        earlier[config_key(trial.config)] = finalist.trial
    trials = {config_key(trial.config): trial for trial in later}
    again = [
        replace(finalist, trial=trials.get(key, finalist.trial), earlier=earlier.get(key))
        for key, finalist in zip(keys, finalists, strict=True)
    ]
    return [
        replace(each, final=replace(each.final, failure=failure))
        if each.final.failure is None and (failure := each.trial.outcome.failure) is not None
        else each
        for each in again
    ]


def _was_misled(finalist: Finalist) -> bool:
    """Whether the search's time of a finalist was far better than its time when it was measured again."""
    again = finalist.trial.time_ms
    if finalist.earlier is None or again is None:
        return False
    return again > (1 + MISLED) * (finalist.earlier.time_ms or 0.0)


def _has_better(finalists: Sequence[Finalist], ranked: Sequence[Trial]) -> bool:
    """Whether trials that were not in the finals are better than the best of them."""
    present = {config_key(finalist.trial.config) for finalist in finalists}
    best = min((f.final.time_ms for f in finalists if f.final.failure is None), default=math.inf)
    return any(config_key(trial.config) not in present and (trial.time_ms or 0.0) < best for trial in ranked)


def _repeated(
    final_round: FinalRound,
    worker: Supervisor,
    best_first: list[Finalist],
    runs: int | None,
    quick: bool,
    may_follow: bool,
) -> int | None:
    """Compare many runs of the first of `best_first`, and return their number; 0 without a reference.

    Finalists that fail are removed from the list. If `may_follow`, the next best then takes the place of a failed one.
    Returns None if the finals must be repeated: no finalist is left, or one failed and the next best may not follow.
    """
    if worker.task.space.operation.reference.kind == "none":
        return 0
    seconds = None if runs is not None else QUICK_SECONDS if quick else COMPARED_SECONDS
    while best_first:
        compared = final_round.repeated(best_first[0].trial, runs or COMPARED_RUNS, seconds)
        if compared is not None:
            return compared
        del best_first[0]
        if not may_follow:
            break
    return None


def _ranked(worker: Supervisor, ledger: Ledger, several: bool, among: Pool | None) -> list[Trial]:
    return _front(worker, ledger) if several else list(itertools.islice(_best(worker, ledger, among), FINALISTS))


def _best(worker: Supervisor, ledger: Ledger, among: Pool | None = None) -> Iterator[Trial]:
    """The successful trials of valid configurations, best first; only those of a pool, if there is one."""
    trials = (trial for trial in ledger.best if among is None or among.find(trial.config) is not None)
    return (trial for trial in trials if worker.task.space.valid(trial.config, worker.scope))


def _promising(trials: Sequence[Trial], best: Trial) -> list[Trial]:
    """The trials that the search did not find RACE times slower than the best."""
    return [trial for trial in trials if trial.values[0] <= RACE * best.values[0]]


def _front(worker: Supervisor, ledger: Ledger) -> list[Trial]:
    """The non-dominated trials, best first. If there are too many, MOST_TRADED_OFF of them at even intervals."""
    trials = {trial.values: trial for trial in reversed(list(_best(worker, ledger)))}
    front = [trials[values] for values in non_dominated(list(trials))]
    count = min(len(front), MOST_TRADED_OFF)
    return [front[round(i * (len(front) - 1) / max(1, count - 1))] for i in range(count)]


def non_dominated(points: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The distinct points that no other point dominates, in ascending order.

    A point dominates another if it is as small or smaller in every value.
    """
    front: list[tuple[float, ...]] = []
    for point in sorted(set(points)):  # a later point never dominates an earlier one
        if not any(all(a <= b for a, b in zip(other, point, strict=True)) for other in front):
            front.append(point)
    return front


def _comparable_default(ranked: Sequence[Trial], worker: Supervisor, ledger: Ledger) -> list[Trial]:
    """The default's trial; none if it is among `ranked`, invalid, too slow, or missing."""
    trial = default_trial(worker.task.space, worker.scope, ledger)
    if trial is None or trial in ranked or not worker.task.space.valid(trial.config, worker.scope):
        return []
    return [] if is_too_slow(trial.time_ms or 0.0, ranked[0].time_ms or 0.0) else [trial]


def is_too_slow(time_ms: float, best_ms: float) -> bool:
    """Whether a configuration is so slow that interleaving it would leave too few rounds for the best.

    A time below ROUND_MS is never too slow, however short the best configuration's time was in the search.
    """
    return time_ms > max(SLOW * best_ms, ROUND_MS)


def default_trial(space: Space, scope: Scope, ledger: Ledger) -> Trial | None:
    """The successful trial of the space's default, or of the first valid configuration if the space has no default."""
    key = config_key(declared_or_first(space, scope))
    return next((trial for trial in ledger.best if config_key(trial.config) == key), None)


def _among_finalists(finalists: Sequence[Finalist]) -> list[dict[str, Any]]:
    """All finalists but the first, as `next_best` returns them."""
    return [_entry(finalist.trial, finalist.final.time_ms) for finalist in finalists[1:]]


def next_best(
    final_round: FinalRound,
    worker: Supervisor,
    finalists: Sequence[Finalist],
    best: Callable[[], Iterator[Trial]],
    most: int,
) -> list[dict[str, Any]]:
    """The runners-up of the first of `finalists`, as a record stores them: configurations with times in ms, best first.

    Each is verified as finalists are. One that fails is replaced by another. `best` returns the successful trials of
    the ledger, best first.
    """
    right = {config_key(finalist.trial.config) for finalist in finalists}
    while True:
        trials = {config_key(trial.config): trial for trial in itertools.islice(best(), RANKED)}
        times = {key: trial.time_ms or 0.0 for key, trial in trials.items()}
        times |= {config_key(f.trial.config): f.final.time_ms for f in finalists}
        trials |= {config_key(f.trial.config): f.trial for f in finalists}
        first = config_key(finalists[0].trial.config)
        ranked = sorted(times, key=lambda key: (key != first, times[key]))
        configs = runners_up(worker.task.space, worker.scope, [trials[key].config for key in ranked], most)
        unknown = [trials[key] for config in configs if (key := config_key(config)) not in right]
        if not unknown:
            return [_entry(trials[key], times[key]) for key in map(config_key, configs)]
        for trial, failure in zip(unknown, final_round.verified(unknown), strict=True):
            if failure is None:
                right.add(config_key(trial.config))


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


def _entry(trial: Trial, time_ms: float) -> dict[str, Any]:
    return {"config": trial.config, "time_ms": time_ms}
