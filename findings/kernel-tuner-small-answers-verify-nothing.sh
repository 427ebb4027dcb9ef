#!/bin/sh
# A kernel that writes nothing passes the check against `answer` if no element of the answer is over 1e-6: the tolerance is absolute, and
# that is its default. Of two configurations, the empty one is the best. With atol=1e-22, the run ends with the error that it deserves.
# One would expect a tolerance relative to the answer, or a warning that nothing was compared.
# Package: kernel_tuner 1.5.0, core.py, _default_verify_function. Needs a C++ compiler, no GPU.
# Outputs in SI units (charges, masses, gradients, probabilities) are that small, and a kernel that skips its work is always the fastest.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np
from kernel_tuner import tune_kernel

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
SOURCE = """
extern "C" float scale(float *y, const float *x, int n)
{
    if (EMPTY) return 1;
    for (int i = 0; i < n; i++) y[i] = 1.6e-19f * x[i];
    return 2;
}
"""
x = np.linspace(1, 2, 1000, dtype=np.float32)


def tuned(atol):
    arguments = [np.zeros_like(x), x, np.int32(1000)]
    answer = [np.float32(1.6e-19) * x, None, None]
    options = {"lang": "C", "atol": atol, "answer": answer, "quiet": True}
    rows, environment = tune_kernel("scale", SOURCE, 1000, arguments, {"EMPTY": [0, 1]}, **options)
    return [(row["EMPTY"], float(row["time"])) for row in rows], environment["best_config"]["EMPTY"]


rows, best = tuned(1e-6)
print("atol=1e-06, the default: EMPTY and time are", *rows, "the best has EMPTY =", best)
assert rows == [(0, 2.0), (1, 1.0)] and best == 1, "the behaviour has changed"
try:
    tuned(1e-22)
except RuntimeError as error:
    print("atol=1e-22:", str(error).strip().splitlines()[-1])
else:
    raise SystemExit("the behaviour has changed")
EOF
env/bin/python check.py
