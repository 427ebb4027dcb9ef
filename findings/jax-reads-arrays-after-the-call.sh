#!/bin/sh
# JAX reads an array of NumPy after the call that got it: `y = f(x); x[:] = 5` with a jitted f gives, of matrices of 1500 x 1500, mostly what f
# makes of the 5. And `jax.device_put(x)` shares its memory with x if x begins at a multiple of 64 bytes: a later `x[:] = 2` changes the array of
# JAX, which never changes otherwise; at other addresses it is a copy. `jnp.array` and `jnp.asarray` copy, before they return.
# One would expect that a call has read its arguments when it returns, or an error where they are written.
# Packages: jax 0.10.2, jaxlib 0.10.2, numpy 2.4.6, on a processor.
# A reference in JAX, followed by a kernel that works in place on the same array, is computed of what the kernel wrote, and agrees
# with a wrong kernel. Which it is depends on the size, the load and the address. `jax.block_until_ready`, or a copy, helps.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'jax==0.10.2' 'jaxlib==0.10.2' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np

print("jax", version("jax"), jax.devices())


def array(size, offset):
    """float32 numbers that begin this many bytes after a multiple of 64."""
    raw = np.empty(4 * size + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    return raw[start : start + 4 * size].view(np.float32)


cube = jax.jit(lambda a: a @ a @ a)
size, others, early = 1500, {0: 0, 4: 0}, 0
for offset in others:
    for _ in range(10):
        x = array(size * size, offset).reshape(size, size)
        x[:] = 0.01
        expected = np.array(cube(jnp.array(x)).block_until_ready())
        result = cube(x)
        x[:] = 5
        others[offset] += not np.array_equal(np.asarray(result), expected)
        x[:] = 0.01
        result = cube(x).block_until_ready()
        x[:] = 5
        early += not np.array_equal(np.asarray(result), expected)
print("of 10 calls each, by the offset of the address, other results if x is written after the call:", others)
print("of the same 20, if it is written after block_until_ready:", early)

shared = {}
for name, make in {"device_put": jax.device_put, "from_dlpack": jnp.from_dlpack, "asarray": jnp.asarray, "array": jnp.array}.items():
    for offset in (0, 4):
        x = array(1000, offset)
        x[:] = 1
        y = make(x).block_until_ready()
        x[:] = 2
        shared[name, offset] = float(y[0]) == 2
    print(f"{name}: follows x if the address is a multiple of 64: {shared[name, 0]}, 4 bytes behind one: {shared[name, 4]}")
assert others[0] > 0 and early == 0, "the behaviour has changed"
assert shared["device_put", 0] and not shared["device_put", 4], "the behaviour has changed"
assert not any(shared[name, offset] for name in ("asarray", "array") for offset in (0, 4)), "the behaviour has changed"
EOF
env/bin/python check.py
