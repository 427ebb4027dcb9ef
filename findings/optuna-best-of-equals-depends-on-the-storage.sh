#!/bin/sh
# Of trials with equal values, study.best_trial is the one that finished first if the study is in memory, and the one with the lowest
# number if it is in SQLite or in a journal: trial 2 or trial 0 of the same three. One would expect one rule.
# Package: optuna 5.0.0, storages: InMemoryStorage replaces its best trial by a better one alone; the others search all trials.
# Times of a timer with coarse ticks, and objectives such as registers or bytes, are often equal: two processes that take the "best" of
# the same measurements build different kernels.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'optuna==5.0.0'
cat >check.py <<'EOF'
from importlib.metadata import version

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

optuna.logging.set_verbosity(optuna.logging.ERROR)
storages = {
    "memory": None,
    "SQLite": "sqlite:///study.db",
    "journal": JournalStorage(JournalFileBackend("study.log")),
}
found = {}
print("optuna", version("optuna"))
for name, storage in storages.items():
    study = optuna.create_study(storage=storage, direction="minimize")
    trials = [study.ask() for _ in range(3)]
    for trial in reversed(trials):
        study.tell(trial, 1.0)
    found[name] = study.best_trial.number
    print(f"{name}: trials 2, 1 and 0 finish in this order, each with 1.0; the best is trial {found[name]}")
assert found == {"memory": 2, "SQLite": 0, "journal": 0}, "the behaviour has changed"
EOF
env/bin/python check.py
