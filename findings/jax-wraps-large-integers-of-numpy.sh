#!/bin/sh
# JAX takes an int64 array of NumPy for int32, modulo 2**32, and says nothing: `jnp.asarray(np.array([2**31 + 5, 2**40]))` is -2147483643, 0.
# So do `jnp.sum`, `jax.jit`, `jax.device_put` and `jnp.from_dlpack`, and an index of 2**32 + 3 reads element 3. The same numbers as a list
# are an OverflowError, and with `dtype=jnp.int64` there is a warning. One would expect the error or the warning in every case.
# Packages: jax 0.10.2, jaxlib 0.10.2, numpy 2.4.6, on a processor, with the default of 32 bits (jax_enable_x64 is off).
# Hashes, offsets into arrays of over 2**31 elements and sums of integers are such numbers: a JAX reference, or a kernel called through
# JAX, gets others than the kernel that was tuned.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'jax==0.10.2' 'jaxlib==0.10.2' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings

import jax
import jax.numpy as jnp
import numpy as np

warnings.simplefilter("error")
print("jax", jax.__version__, "numpy", np.__version__)
large = np.array([2**31 + 5, 2**40])


def shown(name, function):
    try:
        result = np.asarray(function()).tolist()
    except (OverflowError, UserWarning) as problem:
        result = type(problem).__name__
    print(f"{name}: {result}")
    return result


wrapped = [-2147483643, 0]
assert shown("asarray", lambda: jnp.asarray(large)) == wrapped, "the behaviour has changed"
assert shown("device_put", lambda: jax.device_put(large)) == wrapped, "the behaviour has changed"
assert shown("jit", lambda: jax.jit(lambda x: x)(large)) == wrapped, "the behaviour has changed"
assert shown("from_dlpack", lambda: jnp.from_dlpack(large)) == wrapped, "the behaviour has changed"
assert shown("sum", lambda: jnp.sum(large)) == wrapped[0], "the behaviour has changed"
assert shown("index", lambda: jnp.arange(10)[np.array([2**32 + 3])]) == [3], "the behaviour has changed"
assert shown("asarray of a list", lambda: jnp.asarray(large.tolist())) == "OverflowError"
assert shown("asarray, dtype=int64", lambda: jnp.asarray(large, dtype=jnp.int64)) == "UserWarning"
EOF
JAX_PLATFORMS=cpu env/bin/python check.py
