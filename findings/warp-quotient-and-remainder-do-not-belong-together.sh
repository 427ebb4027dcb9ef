#!/bin/sh
# In Warp, `a // b` of integers rounds down, as in Python, and `a % b` has the sign of a, as in C: -7 // 3 is -3, -7 % 3 is -1, and
# (a // b) * b + a % b is -10. The same holds for floats: `wp.floordiv(-7.0, 3.0)` is -3 and `wp.mod(-7.0, 3.0)` is -1. Only `a / b` of integers,
# which cuts off, belongs to `%`. Kernels are Python's text and look the same as with NumPy or Numba, where both round down.
# One would expect that a quotient and a remainder restore a, as in C, CUDA, Python and NumPy. Package: warp-lang 1.19.0, on a processor; numpy 2.4.6.
# Periodic borders and indices of blocks are such lines: `x // tile, x % tile` of -1 is the tile -1, place -1, in place of tile - 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'warp-lang==1.19.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
import warp as wp

wp.config.quiet = True
wp.config.kernel_cache_dir = "cache"


@wp.kernel
def integers(a: wp.array(dtype=wp.int32), b: wp.array(dtype=wp.int32), c: wp.array2d(dtype=wp.int32)):
    i = wp.tid()
    c[0, i] = a[i] // b[i]
    c[1, i] = a[i] % b[i]
    c[2, i] = a[i] / b[i]
    c[3, i] = a[i] // b[i] * b[i] + a[i] % b[i]


@wp.kernel
def floats(a: wp.array(dtype=wp.float32), b: wp.array(dtype=wp.float32), c: wp.array2d(dtype=wp.float32)):
    i = wp.tid()
    c[0, i] = wp.floordiv(a[i], b[i])
    c[1, i] = wp.mod(a[i], b[i])


print("warp-lang", version("warp-lang"), "numpy", version("numpy"))
a, b = np.array([-7, 7, -1, 7], np.int32), np.array([3, -3, 16, 3], np.int32)
found = wp.zeros((4, 4), dtype=wp.int32, device="cpu")
wp.launch(integers, 4, [wp.array(a, device="cpu"), wp.array(b, device="cpu"), found], device="cpu")
quotient, remainder, cut, restored = found.numpy()
print("a", a.tolist(), "b", b.tolist())
print("Warp:  a // b", quotient.tolist(), "a % b", remainder.tolist(), "a / b", cut.tolist(), "restored", restored.tolist())
print("NumPy: a // b", (a // b).tolist(), "a % b", (a % b).tolist(), "restored", (a // b * b + a % b).tolist())
real = wp.zeros((2, 4), dtype=wp.float32, device="cpu")
wp.launch(floats, 4, [*(wp.array(x.astype(np.float32), device="cpu") for x in (a, b)), real], device="cpu")
print("Warp, floats: floordiv", real.numpy()[0].tolist(), "mod", real.numpy()[1].tolist())
assert np.array_equal(quotient, a // b) and np.array_equal(remainder, np.fmod(a, b)), "the behaviour has changed"
assert np.array_equal(real.numpy(), [a // b, np.fmod(a, b)]), "the behaviour has changed"
assert np.array_equal(cut * b + remainder, a) and restored.tolist() == [-10, 10, -17, 7], "the behaviour has changed"
EOF
env/bin/python check.py
