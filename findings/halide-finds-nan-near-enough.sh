#!/bin/sh
# In Halide, NaN is below every tolerance and above every threshold: `abs(a - 2) <= 1e-5` and `a > 1.5` are true where a is NaN, `a != a` is
# false and `a == a` true. In `strict_float`, all are right but `<=` and `>=`, which stay true of NaN: they are computed as "not greater" and
# "not less". `is_nan` is right in any case. One would expect false, as in C, CUDA and NumPy without options, or at least in strict_float.
# Package: halide 21.0.0, numpy 2.4.6, on a processor.
# A comparison with a reference that is written in Halide passes a kernel that writes NaN everywhere, and a reference with a threshold
# (a rectifier, a clamp, a mask) differs from the same lines in CUDA.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'halide==21.0.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import halide as hl
import numpy as np

print("halide", version("halide"), "numpy", version("numpy"))
values = np.repeat(np.array([np.nan, 1, 2], np.float32), 100)
x, a = hl.Var("x"), hl.Buffer(values)
two, near = hl.f32(2), hl.f32(1e-5)
TESTS = {
    "abs(a - 2) <= 1e-5": lambda a: hl.abs(a - two) <= near,
    "a > 1.5": lambda a: a > hl.f32(1.5),
    "a >= 1.5": lambda a: a >= hl.f32(1.5),
    "a == a": lambda a: a == a,
    "a != a": lambda a: a != a,
    "is_nan(a)": hl.is_nan,
}


def count(condition):
    """Of how many elements the condition is true."""
    function = hl.Func()
    function[x] = hl.select(condition, 1, 0)
    return int(np.sum(np.array(function.realize([len(values)]))))


with np.errstate(invalid="ignore"):
    right = [int(np.sum(each)) for each in (abs(values - 2) <= 1e-5, values > 1.5, values >= 1.5)]
    right += [int(np.sum(each)) for each in (values == values, values != values, np.isnan(values))]
default = [count(test(a[x])) for test in TESTS.values()]
strict = [count(hl.strict_float(test(a[x]))) for test in TESTS.values()]
print("a is 100 NaN, 100 ones and 100 twos")
for text, *each in zip(TESTS, default, strict, right, strict=True):
    print(f"{text}: {each[0]} by default, {each[1]} in strict_float, {each[2]} in NumPy")
assert right == [100, 100, 100, 200, 100, 100]
assert default == [200, 200, 200, 300, 0, 100], "the behaviour has changed"
assert strict == [200, 100, 200, 200, 100, 100], "the behaviour has changed"
EOF
env/bin/python check.py
