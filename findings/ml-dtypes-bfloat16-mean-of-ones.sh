#!/bin/sh
# The mean of 4,096 ones in bfloat16 is 0.0625, and their sum 256: ml_dtypes adds in bfloat16, one by one, so the sum stops growing
# at 256. One would expect 1.0, as with NumPy's float16, whose mean is computed in float32. No warning is given.
# Packages: ml_dtypes 0.6.0 with numpy 2.4.6.
# A reference that is computed with NumPy on bfloat16 arrays rejects every correct kernel; convert to float32 first.
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

print("numpy", version("numpy"), "ml_dtypes", version("ml_dtypes"))
ones = np.ones(4096)
found = {
    "bfloat16 mean": float(ones.astype(ml_dtypes.bfloat16).mean()),
    "bfloat16 sum": float(ones.astype(ml_dtypes.bfloat16).sum()),
    "float16 mean": float(ones.astype(np.float16).mean()),
    "bfloat16 product": float(ones.astype(ml_dtypes.bfloat16) @ ones.astype(ml_dtypes.bfloat16)),
}
print(found)
assert found == {"bfloat16 mean": 0.0625, "bfloat16 sum": 256.0, "float16 mean": 1.0, "bfloat16 product": 4096.0}
EOF
env/bin/python check.py
