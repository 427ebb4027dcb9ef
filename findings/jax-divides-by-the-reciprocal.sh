#!/bin/sh
# On a processor, JAX divides an array by a number by multiplying it with the rounded reciprocal: `jnp.floor(x / 41)` of 41 is 0 in float32,
# and one floor in 120 of whole numbers is too small. A third of the quotients by 3 are not the nearest number, in float32 and in float64.
# With `jax.jit` and without it is the same; the quotient of two arrays is right. One would expect IEEE 754 unless a fast mode is asked for.
# Packages: jax and jaxlib 0.10.2. No flag was set.
# JAX is a usual reference for kernels that quantise or compute indices from floats: an exact comparison refuses the kernel that divides.
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

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
print("jax", jax.__version__)


def divided(x, by):
    return x / by


for kind in (np.float32, np.float64):
    x = np.arange(100_000, dtype=kind)
    by = kind(41)
    floors = {name: np.asarray(jnp.floor(f(jnp.asarray(x), by))) for name, f in (("eager", divided), ("jit", jax.jit(divided)))}
    for name, found in floors.items():
        print(kind.__name__, name, "floor(41 / 41):", found[41], "wrong floors:", int((found != np.floor(x / by)).sum()))
    thirds = np.asarray(jax.jit(lambda x: x / 3)(x))
    arrays = np.asarray(jax.jit(divided)(x, np.full_like(x, 41)))
    wrong = int((thirds != x / kind(3)).sum())
    print(kind.__name__, "x / 3, not the nearest:", wrong, "; of two arrays:", int((arrays != x / by).sum()))
    assert wrong > 30_000 and (arrays == x / by).all(), "the behaviour has changed"
    if kind is np.float32:
        assert floors["eager"][41] == floors["jit"][41] == 0, "the behaviour has changed"
        assert all((found != np.floor(x / by)).sum() == 825 for found in floors.values()), "the behaviour has changed"
EOF
env/bin/python check.py
