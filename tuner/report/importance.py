"""How much each parameter matters: the share of the variance of log time that it explains by itself (fANOVA).

Hutter, Hoos, Leyton-Brown: An Efficient Approach for Assessing Hyperparameter Importance, ICML 2014, as Optuna has it.
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
TREES = 16  # with more, shares change in their second digit, and a page takes seconds longer
MOST_TRIALS = 2000  # that a forest is grown from, drawn at random
FEWEST_TRIALS = 20  # fewer tell nothing


def why_no_shares(subject: Subject) -> str:
    """Why nothing can be told, as a sentence; empty where something can."""
    count = len(subject.times)
    if count < FEWEST_TRIALS:
        return f"{count} trials have a time; fewer than {FEWEST_TRIALS} tell nothing."
    if not _varying(subject):
        return "No parameter varies in what was measured."
    return "" if len(set(subject.times.values())) > 1 else "All trials took the same time."


def shares(subject: Subject) -> dict[str, float]:
    """The share of each parameter that varies, the largest first; what their sum lacks to 1 depends on several of them
    together. Empty for too few trials, or where all take the same time."""
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
    places = {name: list(subject.parameters).index(name) for name in varying}
    # A parameter's values are numbered: a forest splits their order, and needs one column for each.
    numbers = {name: {value: i for i, value in enumerate(declared)} for name, declared in varying.items()}
    distributions = {name: IntDistribution(0, len(declared) - 1) for name, declared in varying.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study()
        study.add_trials(
            [
                optuna.trial.create_trial(
                    params={name: numbers[name][row[place]] for name, place in places.items()},
                    distributions=dict(distributions),
                    value=math.log(subject.times[row]),
                )
                for row in rows
            ]
        )
        found = get_param_importances(
            study, evaluator=FanovaImportanceEvaluator(n_trees=TREES, seed=0), normalize=False
        )
    return {name: float(share) for name, share in found.items()}


def _varying(subject: Subject) -> dict[str, list[Value]]:
    """The declared values of the parameters that vary in what was measured."""
    measured = {
        name: dict.fromkeys(row[position] for row in subject.times) for position, name in enumerate(subject.parameters)
    }
    return {name: list(subject.parameters[name]) for name, values in measured.items() if len(values) > 1}
