#!/bin/sh
# `a[1:] += a[:-1]` is another program in Numba: it reads what it has written, so that ones become 1, 2, 3, ..., where NumPy gives 1, 2, 2, ...; `a += a.T`
# adds twice below the diagonal. With parallel=True, `a[:] = a[::-1]` and `a[1:] = a[:-1]`, right without, are wrong, too. numexpr does this with
# out=: `evaluate("a", {"a": a[::-1]}, out=a)`. One would expect a copy where the two overlap, as NumPy makes one since 1.13. No warning is given.
# Packages: numba 0.68.1, numexpr 2.14.2; NumPy 2.4.6.
# Stencils, scans and transposes in place are usual references: they are verified in NumPy, and jitted when arrays become large.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numba==0.68.1' 'numexpr==2.14.2' 'numpy==2.4.6'
cat >check.py <<'END'
import numba
import numexpr
import numpy as np

numba.set_num_threads(1)


def add_shifted(a):
    a[1:] += a[:-1]


def add_transposed(a):
    a += a.T


def shift(a):
    a[1:] = a[:-1]


def reverse(a):
    a[:] = a[::-1]


def reverse_in_numexpr(a):
    numexpr.evaluate("a", {"a": a[::-1]}, out=a)


def after(function, a):
    a = a.copy()
    function(a)
    return a


row, square = np.arange(10, dtype=np.float32), np.arange(9, dtype=np.float32).reshape(3, 3)
print("numba", numba.__version__, "ones:", after(numba.njit(add_shifted), np.ones(5)), "NumPy:", after(add_shifted, np.ones(5)))
for function, argument, is_right, is_right_in_parallel in (
    (add_shifted, row, False, False),
    (add_transposed, square, False, False),
    (shift, row, True, False),
    (reverse, row, True, False),
):
    expected = after(function, argument)
    found = [np.array_equal(after(numba.njit(function, parallel=parallel), argument), expected) for parallel in (False, True)]
    print(function.__name__, "is right:", found[0], "with parallel=True:", found[1])
    assert found == [is_right, is_right_in_parallel], "the behaviour has changed"
found = after(reverse_in_numexpr, row)
print("numexpr", numexpr.__version__, "reversed:", found)
assert not np.array_equal(found, row[::-1]), "the behaviour has changed"
END
env/bin/python check.py
