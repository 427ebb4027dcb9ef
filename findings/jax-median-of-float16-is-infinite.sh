#!/bin/sh
# `jnp.median` of numbers of 60000 in float16 is infinite, and `jnp.nanmedian`, too: the two in the middle are added in float16, and of an odd number
# of elements, the one in the middle is added to itself. So no median is above 32752. `jnp.percentile` at 50, `jnp.mean` and `np.median` give 60000.
# One would expect one of the elements, or a number between two of them.
# Package: jax 0.10.2. No warning is given.
# A median filter whose reference is written in JAX has infinities that no kernel gives.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'jax==0.10.2' 'jaxlib==0.10.2' 'numpy==2.4.6'
cat >check.py <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_platforms", "cpu")
print("jax", jax.__version__)
values = np.full(2, 60000, np.float16)
x = jnp.asarray(values)
found = {
    "jnp.median": jnp.median(x),
    "jnp.nanmedian": jnp.nanmedian(x),
    "jnp.median of three": jnp.median(jnp.append(x, x[0])),
    "jnp.percentile at 50": jnp.percentile(x, 50),
    "jnp.mean": jnp.mean(x),
    "np.median": np.median(values),
}
for name, value in found.items():
    print(name, float(value))
assert [float(value) for value in found.values()] == [np.inf] * 3 + [60000] * 3, "the behaviour has changed"
EOF
env/bin/python check.py
