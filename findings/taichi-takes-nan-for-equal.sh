#!/bin/sh
# In Taichi, `a != b` is false where a is NaN, whatever b is, so that a kernel which counts the elements that differ from a reference finds
# none among NaN; `x != x`, the test for NaN, is false, too. This is so by default and with fast_math=False; `not (a == b)` is right, as
# are ti.math.isnan and the other comparisons. `x == x` of NaN is true by default and false with fast_math=False.
# One would expect true: != is the one comparison that IEEE 754, C, CUDA, Python and NumPy have true of NaN.
# Package: taichi 1.7.4, numpy 2.4.6, on a processor (arch=ti.cpu).
# Counting mismatches is how kernels are tested on the device. A kernel that writes NaN everywhere passes such a test.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'taichi==1.7.4' 'numpy==2.4.6'
cat >check.py <<'EOF'
import numpy as np
import taichi as ti

TEXTS = ("a != b", "a != a", "not (a == b)", "a == b", "a == a", "isnan(a)")


def counts(a, b, **how):
    """Of how many elements each of the TEXTS is true."""
    ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False, cpu_max_num_threads=1, **how)

    @ti.kernel
    def count(a: ti.types.ndarray(), b: ti.types.ndarray(), found: ti.types.ndarray()):
        for i in a:
            x, y = a[i], b[i]
            if x != y:
                found[0] += 1
            if x != x:
                found[1] += 1
            if not (x == y):
                found[2] += 1
            if x == y:
                found[3] += 1
            if x == x:
                found[4] += 1
            if ti.math.isnan(x):
                found[5] += 1

    found = np.zeros(len(TEXTS), np.int32)
    count(a, b, found)
    return found.tolist()


print("taichi", ".".join(map(str, ti.__version__)), "numpy", np.__version__)
result, reference = np.repeat(np.array([np.nan, 1, 2], np.float32), 100), np.full(300, 2, np.float32)
default, exact = counts(result, reference), counts(result, reference, fast_math=False)
right = [int(np.sum(each)) for each in (result != reference, result != result, ~(result == reference))]
right += [int(np.sum(each)) for each in (result == reference, result == result, np.isnan(result))]
print("a is 100 NaN, 100 ones and 100 twos; b is 2")
for text, *each in zip(TEXTS, default, exact, right, strict=True):
    print(f"{text}: {each[0]} by default, {each[1]} with fast_math=False, {each[2]} in NumPy")
assert right == [200, 100, 200, 100, 200, 100]
assert exact == [100, 0, 200, 100, 200, 100], "the behaviour has changed"
assert default == [100, 0, 200, 100, 300, 100], "the behaviour has changed"
EOF
env/bin/python check.py
