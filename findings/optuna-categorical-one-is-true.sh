#!/bin/sh
# A trial that was run with True is stored as 1 if the choices are [1, True, ...], because choices are looked up by ==; the same
# holds for 2 and 2.0. One would expect the choice that was asked for, or an error for choices that are equal.
# Package: optuna 5.0.0, CategoricalDistribution.to_internal_repr.
# As macros of a kernel, 1 and True (or 2 and 2.0f) are different code: the study files one under the other.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'optuna==5.0.0'
cat >check.py <<'EOF'
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
print("optuna", optuna.__version__)
study = optuna.create_study()
for value in (1, True, 2, 2.0):
    study.enqueue_trial({"x": value})
for _ in range(4):
    trial = study.ask()
    trial.suggest_categorical("x", [1, True, 2, 2.0])
    study.tell(trial, 0.0)
found = [trial.params["x"] for trial in study.trials]
print("asked for 1, True, 2, 2.0; the study says", found)
assert list(map(repr, found)) == ["1", "1", "2", "2"], "the behaviour has changed"
EOF
env/bin/python check.py
