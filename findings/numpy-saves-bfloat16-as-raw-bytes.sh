#!/bin/sh
# np.save writes arrays of bfloat16, float8_e4m3fn and int4 (ml_dtypes) as raw bytes: np.load returns the type V2 or V1, with which
# nothing can be computed, and the file does not say which type it was. float8_e5m2 is written as a type "<f1" that np.load does not
# know: "descr is not a valid dtype descriptor". Saving gives no warning, also not with `-W error`.
# One would expect the type, or an error when saving. Packages: numpy 2.4.6, ml_dtypes 0.6.0.
# Inputs and expected outputs of 16-bit and 8-bit kernels are kept as .npy; save the bits (`.view(np.uint16)`) and note the type.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6' 'ml_dtypes==0.6.0'
cat >check.py <<'EOF'
from importlib.metadata import version

import ml_dtypes
import numpy as np

print(*(f"{name} {version(name)}" for name in ("numpy", "ml_dtypes")))
found = {}
for kind in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.float8_e5m2):
    saved = np.array([1, 2, 3]).astype(kind)
    np.save("saved.npy", saved)
    try:
        loaded = np.load("saved.npy")
        assert loaded.tobytes() == saved.tobytes(), "the behaviour has changed"
        found[saved.dtype.name] = loaded.dtype.str
    except ValueError as error:
        found[saved.dtype.name] = f"ValueError: {error}"
    print(f"{saved.dtype.name}: loaded as {found[saved.dtype.name]}")
assert found.pop("float16") == "<f2" and found.pop("bfloat16") == "|V2", "the behaviour has changed"
assert "'<f1'" in found.pop("float8_e5m2") and set(found.values()) == {"|V1"}, "the behaviour has changed"
EOF
env/bin/python -W error check.py
