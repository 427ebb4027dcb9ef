#!/bin/sh
# `a // b` and `a % b` of 8-bit integers are wrong in Taichi: 255 // 56 of u8 is 1, 127 // -16 of i8 is 0, and of random operands most
# quotients and nearly all remainders are wrong. 16, 32 and 64 bits are right, as are 8 bits divided by a literal. `ti.raw_mod` of unsigned
# integers of any width takes operands of the upper half for negative numbers: of u32, 4000000000 mod 7 is 4294967295.
# One would expect the quotient, or an error for a type that is not supported.
# Package: taichi 1.7.4, on a processor (arch=ti.cpu).
# Images and 8-bit weights are u8 and i8: where Taichi is the quick reference for a kernel, it accuses a right one. Cast to ti.i32 first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'taichi==1.7.4' 'numpy==2.4.6'
cat >check.py <<'EOF'
import numpy as np
import taichi as ti

ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False)
print("taichi", ".".join(map(str, ti.__version__)))


@ti.kernel
def divide(a: ti.types.ndarray(), b: ti.types.ndarray(), result: ti.types.ndarray()):
    for i in a:
        result[0, i] = a[i] // b[i]
        result[1, i] = a[i] % b[i]
        result[2, i] = ti.raw_mod(a[i], b[i])


def wrong(a, b):
    """How many quotients, remainders and raw remainders are wrong, and the first results."""
    result = np.empty((3, len(a)), a.dtype)
    divide(a, b, result)
    return [int(np.sum(result[row] != right)) for row, right in enumerate((a // b, a % b, np.fmod(a, b)))], result[:, 0]


COUNT = 1000
found = {}
for kind in (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32):
    random, limits = np.random.default_rng(0), np.iinfo(kind)
    a = random.integers(limits.min + 1, limits.max, COUNT, kind, endpoint=True)
    b = random.integers(2, 100, COUNT, kind)
    found[kind.__name__] = wrong(a, b)[0]
    print(f"{kind.__name__}: of {COUNT}, {found[kind.__name__][0]} of //, {found[kind.__name__][1]} of % and", end=" ")
    print(f"{found[kind.__name__][2]} of raw_mod are wrong")
for kind, a, b in ((np.uint8, 255, 56), (np.int8, 127, -16), (np.uint32, 4000000000, 7)):
    quotient, remainder, raw = wrong(np.array([a], kind), np.array([b], kind))[1]
    print(f"{kind.__name__}: {a} // {b} = {quotient}, {a} % {b} = {remainder}, raw_mod {raw}; right: {a // b}, {a % b}, {int(np.fmod(a, b))}")
assert all(found[kind][0] > 500 and found[kind][1] > 900 for kind in ("uint8", "int8")), "the behaviour has changed"
assert all(found[kind][:2] == [0, 0] for kind in ("uint16", "int16", "uint32", "int32")), "the behaviour has changed"
assert all((found[kind][2] > 400) == (kind[0] == "u") for kind in found), "the behaviour has changed"
EOF
env/bin/python check.py
