"""Ties by rule: the finalists that noise cannot separate from the fastest, and which of them becomes the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.texts import config_text
from tuner.space.values import bit_classes
from tuner.store import verdicts
from tuner.tuning.finals.processes import Processes, Standing, in_all

if TYPE_CHECKING:
    from tuner.measure.method import Objective
    from tuner.measure.results import Final
    from tuner.store.verdicts import Interval
    from tuner.tuning.finals.finalist import Finalist
    from tuner.tuning.ledger.trial import Trial

TIME = "time"  # what decided if noise separates the fastest from all others
RULE_IS_OFF = ""  # what decided where the rule does not apply
REASONS = ("record", "default", "bit class", "registers", "name")  # what else decides, in this order


SameCode = Callable[[Config, Config], bool]


@dataclass(frozen=True)
class TieRule:
    """Which of several tied configurations is preferred, in this order: the existing record, the default, the larger
    bit class, fewer registers, the first name.

    `sizes` has the size of the bit class of each configuration, but none if its bits vary or are unknown.
    """

    record: Config | None = None
    default: Config | None = None
    sizes: Mapping[ConfigKey, int] = field(default_factory=dict)

    @staticmethod
    def of(record: Config | None, default: Config | None, trials: Sequence[Trial]) -> TieRule:
        """The rule for ties among `trials`. Trials with equal bits form a bit class."""
        right = {config_key(trial.config): trial.outcome.bits for trial in trials if trial.value is not None}
        return TieRule(record, default, {key: len(keys) for keys in bit_classes.classes(right) for key in keys})

    def is_of_record(self, trial: Trial) -> bool:
        """Whether a trial is of the record's configuration."""
        return self.record is not None and config_key(trial.config) == config_key(self.record)

    def rank(self, trial: Trial) -> tuple[Any, ...]:
        """A sort key, which is the smallest for the preferred trial. It has one part for each of REASONS."""
        config, registers = trial.config, trial.outcome.figures.registers
        size = self.sizes.get(config_key(config), 0)
        name = config_text(dict(sorted(config.items())))
        return (
            not self.is_of_record(trial),
            self.default is None or config_key(config) != config_key(self.default),
            -size,
            math.inf if registers is None else registers,
            name,
        )


@dataclass(frozen=True)
class Tie:
    """A finalist that is tied with the fastest. `ratio` is the interval of its time divided by the fastest's.

    `may_win`: the rule may choose it even if it is not the record's. One that is tied only because the machine is noisy
    may not, if its median ratio would give up too much.
    """

    finalist: Finalist
    ratio: Interval
    may_win: bool


@dataclass(frozen=True)
class Settlement:
    """How the finals end: `order` has the winner first and the other finalists by value.

    `ties` includes the winner; it is empty if the fastest is alone. `decided_by` says what decided.
    """

    order: list[Finalist]
    ties: list[Tie] = field(default_factory=list)
    decided_by: str = TIME


def settle(
    best_first: Sequence[Finalist], rule: TieRule | None, objectives: Sequence[Objective], is_same_code: SameCode
) -> Settlement:
    """Settle the finals by `rule`, if there is one. `best_first` are the finalists by value.

    The rule applies only to times: there are too few measurements of energy to tell which differences are noise.
    """
    tied = of_times(best_first, is_same_code)
    if rule is None or objectives[0] != "time":
        return Settlement(list(best_first), tied, RULE_IS_OFF)
    may_win = [tie.finalist for tie in tied if tie.may_win or rule.is_of_record(tie.finalist.trial)]
    if len(may_win) < 2:
        return Settlement(list(best_first), tied)
    ranks = sorted((rule.rank(finalist.trial), position) for position, finalist in enumerate(may_win))
    (first, position), (second, _) = ranks[:2]
    winner = may_win[position]
    differing = (reason for reason, one, other in zip(REASONS, first, second, strict=True) if one != other)
    others = [each for each in best_first if each is not winner]
    return Settlement([winner, *others], tied, next(differing, REASONS[-1]))


def of_times(finalists: Sequence[Finalist], is_same_code: SameCode) -> list[Tie]:
    """The finalists that noise does not separate from the fastest, and those with the same code as one of them.

    Empty if the fastest is alone. A finalist that did not take part in all processes is far slower, and so not tied.
    """
    lasting = in_all([finalist.final for finalist in finalists]) if finalists else []
    finalists = [finalist for finalist in finalists if finalist.final in lasting]
    if len(finalists) < 2:
        return []
    found = [*zip(finalists, standings([finalist.final for finalist in finalists]), strict=True)]

    def is_like(finalist: Finalist, those: Sequence[Finalist]) -> bool:
        return any(finalist is each or is_same_code(finalist.trial.config, each.trial.config) for each in those)

    tied = [finalist for finalist, standing in found if standing.is_tied]
    may_win = [finalist for finalist, standing in found if standing.may_win]
    ties = [
        Tie(finalist, standing.ratio, is_like(finalist, may_win))
        for finalist, standing in found
        if is_like(finalist, tied)
    ]
    return ties if len(ties) > 1 else []


def standings(finals: Sequence[Final]) -> list[Standing]:
    """How each finalist compares with the fastest."""
    fastest = min(in_all(finals), key=lambda final: final.time_ms)
    if len(fastest.by_process) > 1:
        processes = Processes.of(finals)
        return [processes.standing(final) for final in finals]
    ratios = [verdicts.ratio(fastest.times, final.times) for final in finals]
    are_tied = [verdicts.is_tied(ratio, fastest.time_ms) for ratio in ratios]
    return [Standing(ratio, is_tied, is_tied) for ratio, is_tied in zip(ratios, are_tied, strict=True)]
