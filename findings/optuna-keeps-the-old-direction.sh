#!/bin/sh
# `create_study(study_name=..., direction="maximize", load_if_exists=True)` of a study that minimises returns it as it is: it goes on
# minimising, and `best_value` is the lowest rate; two directions become one. No warning is given, also not at the default verbosity.
# One would expect an error for another direction, as there is one for a parameter with other choices.
# Package: optuna 5.0.0, study.py, create_study. A script that goes over from times to GFLOP/s, and keeps its file, tunes for the worst.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'optuna==5.0.0'
cat >check.py <<'EOF'
import warnings

import optuna

warnings.simplefilter("error")
print("optuna", optuna.__version__)
optuna.logging.set_verbosity(optuna.logging.WARNING)
place = {"storage": "sqlite:///study.db", "study_name": "matmul"}
optuna.create_study(**place, direction="minimize")
study = optuna.create_study(**place, direction="maximize", load_if_exists=True)
for rate in (100.0, 900.0, 500.0):
    trial = study.ask()
    trial.suggest_categorical("tile", [8, 16, 32])
    study.tell(trial, rate)
several = optuna.create_study(**place, directions=["maximize", "minimize"], load_if_exists=True)
print("asked to maximise; direction:", study.direction.name, "- best of 100, 900 and 500:", study.best_value)
print("asked for two directions; there are", len(several.directions))
assert study.direction.name == "MINIMIZE" and study.best_value == 100.0, "the behaviour has changed"
assert len(several.directions) == 1, "the behaviour has changed"
EOF
env/bin/python check.py
