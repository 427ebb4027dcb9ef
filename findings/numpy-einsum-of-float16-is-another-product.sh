#!/bin/sh
# The product of two matrices of float16 depends on how it is written: of ones, 4 x 8192 by 8192 x 4, `a @ b`, `np.dot` and `np.tensordot` give
# 8192, and `np.einsum("ik,kj->ij", a, b)` gives 2048, because it rounds each sum to float16 and 2049 is not one. With `optimize=True` it is 8192
# again. Of random numbers, the error is 20 times as large or more. One would expect one product, or one that adds in float32, as the GPU does.
# Package: numpy 2.4.6: einsum keeps the sums in the output, which is float16, and adds to them one by one.
# einsum is the usual way to write a reference of a contraction: its tolerance must then hide the errors of the reference.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import numpy as np

print("numpy", np.__version__)
PRODUCTS = {
    "a @ b": lambda a, b: a @ b,
    "np.dot": np.dot,
    "np.tensordot": lambda a, b: np.tensordot(a, b, 1),
    "np.einsum": lambda a, b: np.einsum("ik,kj->ij", a, b),
    "np.einsum, optimize=True": lambda a, b: np.einsum("ik,kj->ij", a, b, optimize=True),
}
ones = np.ones((4, 8192), np.float16), np.ones((8192, 4), np.float16)
rng = np.random.default_rng(0)
drawn = rng.random((16, 8192)).astype(np.float16), rng.random((8192, 16)).astype(np.float16)
exact = drawn[0].astype(float) @ drawn[1].astype(float)
found, errors = {}, {}
for name, product in PRODUCTS.items():
    found[name] = float(product(*ones)[0, 0])
    errors[name] = float(np.max(np.abs(product(*drawn) - exact) / exact))
    print(f"{name}: {found[name]} of ones; largest relative error of random numbers {errors[name]:.2g}")
assert found.pop("np.einsum") == 2048 and set(found.values()) == {8192}, "the behaviour has changed"
assert errors["np.einsum"] > 20 * errors["a @ b"], "the behaviour has changed"
EOF
env/bin/python check.py
