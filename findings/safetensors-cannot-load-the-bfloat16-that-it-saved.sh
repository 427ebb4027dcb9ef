#!/bin/sh
# safetensors.numpy saves an array of bfloat16 or float8 (ml_dtypes), and cannot load it again: load ends with KeyError: 'BF16'. The
# file is right; only the table of types for reading lacks the names that the one for writing has.
# One would expect that what was saved can be loaded by the same module. Packages: safetensors 0.8.0, numpy 2.4.6, ml_dtypes 0.6.0.
# Weights and expected outputs of 16-bit kernels come as safetensors; without PyTorch, a reference in NumPy has to parse the file itself.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'safetensors==0.8.0' 'numpy==2.4.6' 'ml_dtypes==0.6.0'
cat >check.py <<'EOF'
import json
from importlib.metadata import version

import ml_dtypes
import numpy as np
import safetensors.numpy

print(*(f"{name} {version(name)}" for name in ("safetensors", "numpy", "ml_dtypes")))
found = {}
for kind in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
    saved = np.array([1, 2, 3]).astype(kind)
    data = safetensors.numpy.save({"weights": saved})
    length = int.from_bytes(data[:8], "little")
    assert data[8 + length :] == saved.tobytes(), "the behaviour has changed"
    try:
        result = safetensors.numpy.load(data)["weights"].dtype.name
    except KeyError as error:
        result = f"KeyError: {error}"
    found[saved.dtype.name] = result
    print(f"{saved.dtype.name}: saved as {json.loads(data[8 : 8 + length])['weights']['dtype']}, loaded: {result}")
assert found.pop("float16") == "float16", "the behaviour has changed"
assert list(found.values()) == [f"KeyError: '{name}'" for name in ("BF16", "F8_E4M3", "F8_E5M2")], "the behaviour has changed"
EOF
env/bin/python check.py
