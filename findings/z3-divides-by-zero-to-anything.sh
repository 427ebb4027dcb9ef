#!/bin/sh
# To Z3, `threads % rows == 0` holds for rows = 0, and so do `threads / rows == 5` and `threads % rows == 7`: division by zero may have any result, so a
# condition that some result satisfies is satisfied. All three conditions hold at once. Of threads in 32, 64 and rows in 0, 1, 2, six pairs are
# listed, of which two have rows = 0, where Python raises ZeroDivisionError. And -7 / -2 is 4 with the remainder 1: in Python 3 and -1, in C 3 and -1.
# Packages: z3-solver 5.4.1.0. SMT-LIB defines both, but the operators are those of Python.
# A solver that enumerates a space so has configurations that no restriction in Python allows, and on which a kernel or its grid divides by zero.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'z3-solver==5.4.1.0'
cat >check.py <<'END'
import z3

threads, rows = z3.Ints("threads rows")


def listed(*conditions):
    solver = z3.Solver()
    solver.add(z3.Or(threads == 32, threads == 64), z3.Or(rows == 0, rows == 1, rows == 2), *conditions)
    found = []
    while solver.check() == z3.sat:
        values = [solver.model()[variable] for variable in (threads, rows)]
        found.append(tuple(value.as_long() for value in values))
        solver.add(z3.Or(threads != values[0], rows != values[1]))
    return sorted(found)


divisible = listed(threads % rows == 0)
both = listed(threads / rows == 5, threads % rows == 7)
quotient, remainder = z3.simplify(z3.IntVal(-7) / z3.IntVal(-2)), z3.simplify(z3.IntVal(-7) % z3.IntVal(-2))
print("z3", z3.get_version_string(), "threads % rows == 0:", divisible)
print("threads / rows == 5 and threads % rows == 7:", both)
print("-7 / -2:", quotient, "remainder", remainder, "; in Python:", -7 // -2, -7 % -2)
assert divisible == [(32, 0), (32, 1), (32, 2), (64, 0), (64, 1), (64, 2)], "the behaviour has changed"
assert both == [(32, 0), (64, 0)] and (quotient.as_long(), remainder.as_long()) == (4, 1), "the behaviour has changed"
END
env/bin/python check.py
