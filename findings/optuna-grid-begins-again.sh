#!/bin/sh
# A study of Optuna's GridSampler that is continued with one value more evaluates the whole grid again: after [1, 2, 4, 8], the grid
# [1, 2, 4, 8, 16] has five more trials, four of them as before. No message is given. Where the grid is the same, it goes on.
# One would expect the one configuration that is new: trials of another grid are not counted, although their parameters are in it.
# Package: optuna 5.0.0, samplers/_grid.py. To add a value to a finished grid is usual, and costs the whole grid of measurements.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'optuna==5.0.0'
cat >check.py <<'EOF'
import warnings

import optuna

warnings.simplefilter("error", UserWarning)
print("optuna", optuna.__version__)
optuna.logging.set_verbosity(optuna.logging.WARNING)


def tiles_after(tiles):
    sampler = optuna.samplers.GridSampler({"tile": tiles}, seed=0)
    study = optuna.create_study(
        storage="sqlite:///study.db", study_name="matmul", load_if_exists=True, sampler=sampler
    )
    study.optimize(lambda trial: 1 / trial.suggest_int("tile", 1, 16), n_trials=20)
    return sorted(trial.params["tile"] for trial in study.trials)


first, longer = tiles_after([1, 2, 4, 8]), tiles_after([1, 2, 4, 8, 16])
print("evaluated:", first, "- with 16 added:", longer)
assert first == [1, 2, 4, 8], "the behaviour has changed"
assert longer == [1, 1, 2, 2, 4, 4, 8, 8, 16], "the behaviour has changed"
EOF
env/bin/python check.py
