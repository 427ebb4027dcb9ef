#!/bin/sh
# Python's sqlite3 stores an integer of NumPy as its bytes: `np.int64(16)` in a column of integers is a BLOB of 8 bytes, which `tile = 16`
# does not find and which MAX(tile) prefers to every number. np.int32, np.float32 and np.bool_ are stored so, too; np.float64 is a number.
# No error is raised, except in tables that are STRICT. One would expect the number, or the error that sqlite3 has for other unknown types:
# it takes for bytes whatever has a buffer.
# Packages: numpy 2.4.6. Seen with CPython 3.11 and SQLite 3.40.
# What a sampler draws (`rng.choice([16, 32])`) and what a row of pandas holds are such integers: a log of trials in SQLite does not find
# a configuration that was measured, so it is measured again, and `GROUP BY tile` has one group for 16 and another for its bytes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import platform
import sqlite3

import numpy as np

print("CPython", platform.python_version(), "SQLite", sqlite3.sqlite_version, "numpy", np.__version__)
trials = sqlite3.connect(":memory:")
trials.execute("CREATE TABLE trials (tile INTEGER, time REAL)")


def one(query, *values):
    return trials.execute(query, values).fetchone()[0]


drawn = np.random.default_rng(0).choice([16])
for tile in (16, 32, drawn):
    trials.execute("INSERT INTO trials VALUES (?, ?)", (tile, 1.0))
stored = trials.execute("SELECT tile, TYPEOF(tile) FROM trials").fetchall()
print(f"stored 16, 32 and {drawn!r}:", *stored)
found = one("SELECT COUNT(*) FROM trials WHERE tile = 16"), one("SELECT COUNT(DISTINCT tile) FROM trials")
print("rows with tile = 16:", found[0], "different tiles:", found[1], "largest:", one("SELECT MAX(tile) FROM trials"))
assert stored[2] == (b"\x10" + bytes(7), "blob") and found == (1, 3), "the behaviour has changed"
assert one("SELECT MAX(tile) FROM trials") == stored[2][0], "the behaviour has changed"
kinds = {type(value).__name__: one("SELECT TYPEOF(?)", value) for value in (np.int32(1), np.float32(1), np.bool_(1), np.float64(1))}
print(kinds)
assert kinds.popitem() == ("float64", "real") and set(kinds.values()) == {"blob"}, "the behaviour has changed"
try:
    one("SELECT ?", 1j)
except sqlite3.Error as error:
    print("a complex number:", error)
EOF
env/bin/python check.py
