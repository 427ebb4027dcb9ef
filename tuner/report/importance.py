"""Importance of parameters: the share of the variance of log(time) that each one explains by itself (fANOVA).

Hutter, Hoos, Leyton-Brown: An Efficient Approach for Assessing Hyperparameter Importance, ICML 2014, in Optuna's
implementation.
"""

from __future__ import annotations

import math
import random
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.report.subject import Subject
    from tuner.space.config import Value


METHOD = "fANOVA of Optuna"
TREES = 16  # of the random forest; more change only the second digit of shares, and take seconds longer
MOST_TRIALS = 2000  # to which the forest is fitted, drawn at random
FEWEST_TRIALS = 20  # below this, shares are meaningless


def why_no_shares(subject: Subject) -> str:
    """Why there are no shares, as a sentence; empty if there are."""
    count = len(subject.times)
    if count < FEWEST_TRIALS:
        return f"{count} trials have a time; importance needs at least {FEWEST_TRIALS}."
    if not _varying(subject):
        return "No parameter varies among the trials."
    return "" if len(set(subject.times.values())) > 1 else "All trials took the same time."


def shares(subject: Subject) -> dict[str, float]:
    """The share (0 to 1) of each parameter that varies, the largest first. Interactions of parameters explain the rest,
    to 1. Empty if there are too few trials, or all took the same time."""
    if why_no_shares(subject):
        return {}
    rows, varying = list(subject.times), _varying(subject)
    if len(rows) > MOST_TRIALS:
        rows = random.Random(0).sample(rows, MOST_TRIALS)  # noqa: S311
    if len(varying) == 1:
        return dict.fromkeys(varying, 1.0)
    import optuna
    from optuna.distributions import IntDistribution
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    positions = {name: list(subject.parameters).index(name) for name in varying}
    # Values are encoded by their index: the forest splits on their order, and needs one numeric column per parameter.
    codes = {name: {value: i for i, value in enumerate(declared)} for name, declared in varying.items()}
    distributions = {name: IntDistribution(0, len(declared) - 1) for name, declared in varying.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study()
        study.add_trials(
            [
                optuna.trial.create_trial(
                    params={name: codes[name][row[position]] for name, position in positions.items()},
                    distributions=dict(distributions),
                    value=math.log(subject.times[row]),
                )
                for row in rows
            ]
        )
        importances = get_param_importances(
            study, evaluator=FanovaImportanceEvaluator(n_trees=TREES, seed=0), normalize=False
        )
    return {name: float(share) for name, share in importances.items()}


def _varying(subject: Subject) -> dict[str, list[Value]]:
    """The declared values of the parameters that vary among the trials that succeeded."""
    measured = {
        name: dict.fromkeys(row[position] for row in subject.times) for position, name in enumerate(subject.parameters)
    }
    return {name: list(subject.parameters[name]) for name, values in measured.items() if len(values) > 1}
