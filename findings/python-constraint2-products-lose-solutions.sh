#!/bin/sh
# "threads * rows * pad <= 64", where a padding may be 0, lists 15 of 18 configurations: those with 0 are lost, since 32 * 4 alone is over 64. With
# a factor of 0.25 or 0.5 it lists 9 of 17, and "== 64" 3 of 6. With two variables all are listed, and for "<= -4" of a product with negative
# values none. The same condition as a function lists all. The class MaxProdConstraint was made with values below 1 in mind, but fails here.
# One would expect what Python makes of the text, whatever the order in which variables get their values.
# Package: python-constraint2 2.9.0: its forward check hides values. With forwardcheck=False, as in Kernel Tuner 1.5.0, only the last is lost.
# Limits of shared memory are such products, with element sizes of 0.5 bytes and paddings of 0: what fits is never measured.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'python-constraint2==2.9.0'
cat >check.py <<'EOF'
import itertools
from importlib.metadata import version

from constraint import OptimizedBacktrackingSolver, Problem

print("python-constraint2", version("python-constraint2"))


def solutions(condition, domains, **options):
    problem = Problem(OptimizedBacktrackingSolver(**options))
    for name, values in domains.items():
        problem.addVariable(name, values)
    problem.addConstraint(*condition)
    return sorted(tuple(found[name] for name in domains) for found in problem.getSolutions())


def check(text, expected, **domains):
    valid = sorted(values for values in itertools.product(*domains.values()) if eval(text, dict(zip(domains, values))))
    listed = solutions((text,), domains)
    unchecked = solutions((text,), domains, forwardcheck=False)
    function = solutions((eval(f"lambda {', '.join(domains)}: {text}"), list(domains)), domains)
    missing = [values for values in valid if values not in listed]
    print(f"{text}: {len(listed)} of {len(valid)}; as a function {len(function)}, unchecked {len(unchecked)}; missing", *missing[:3])
    assert function == valid and set(listed) <= set(valid), "the behaviour has changed"
    assert (len(listed), len(valid), len(unchecked)) == expected, "the behaviour has changed"


rows, sizes = [1, 2, 4], [32, 64, 128]
check("threads * rows * pad <= 64", (15, 18, 18), threads=[16, 32, 64], rows=rows, pad=[0, 1, 2])
check("threads * rows * bytes <= 64", (9, 17, 17), threads=sizes, rows=rows, bytes=[0.25, 0.5, 1])
check("threads * rows * bytes == 64", (3, 6, 6), threads=[32, 64, 128, 256], rows=rows, bytes=[0.5, 1, 2])
check("threads * bytes <= 32", (6, 6, 6), threads=sizes, bytes=[0.25, 0.5, 1])
check("step * rows <= -4", (0, 3, 0), step=[-2, -1, 1], rows=rows)
EOF
env/bin/python check.py
