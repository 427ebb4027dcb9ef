#!/bin/sh
# A value 16.0 that is enqueued for an integer parameter is 16.0 in `study.ask(distributions).params`, and 16 of `trial.suggest_int` and
# in the same trial once it is read from the study. No warning is given. One would expect an integer everywhere, or an error.
# Package: optuna 5.0.0: suggest_int converts what Trial._suggest returns; Study.ask, whose distribution is the same, does not.
# Configurations out of a CSV file or a pandas table hold 16.0: the kernel that is built and timed has `#define BLOCK 16.0`, or fails to
# compile where the value sizes an array, and the study files its time under 16.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'optuna==5.0.0'
cat >check.py <<'EOF'
from importlib.metadata import version

import optuna
from optuna.distributions import IntDistribution

optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study()
study.enqueue_trial({"block": 16.0})
study.enqueue_trial({"block": 16.0})
asked = study.ask({"block": IntDistribution(1, 64)})
suggested = study.ask().suggest_int("block", 1, 64)
print("optuna", version("optuna"))
print(f"ask: #define BLOCK {asked.params['block']}; suggest_int: #define BLOCK {suggested}")
study.tell(asked, 1.0)
stored = study.trials[0].params["block"]
print(f"stored: #define BLOCK {stored}")
assert repr(asked.params["block"]) == "16.0", "the behaviour has changed"
assert repr(suggested) == repr(stored) == "16", "the behaviour has changed"
EOF
env/bin/python -W error check.py
