#!/bin/sh
# With an AccuracyObserver and the error as the objective, a kernel that writes NaN is the "best configuration" if it is measured first: its
# error is NaN, and nothing is less than NaN. Measured later, it is not, so the order of the values decides. With any AccuracyObserver the
# answer is no longer compared, so that the NaN is no error; of outputs that are infinite or wrong, only the number tells.
# One would expect that NaN is the largest error, or a failure.
# Package: kernel_tuner 1.5.0, util.py, get_best_config (min of Python), and core.py, check_kernel_output. Needs a C++ compiler, no GPU.
# To tune the precision is what the observer is for, and float16 that overflows gives NaN: the kernel is told to be exact.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import kernel_tuner
import numpy as np
from kernel_tuner.accuracy import AccuracyObserver

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))

SOURCE = """
extern "C" float scale(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = SCALE == 0 ? (x[i] - x[i]) / (x[i] - x[i]) : x[i] * (1.0f + SCALE * 1e-3f);
    return 1.0f;
}
"""


def best(values):
    """The best value of SCALE by the error, where 1 is nearest to the answer and 0 makes NaN."""
    x = np.arange(1, 1001, dtype=np.float32)
    rows, env = kernel_tuner.tune_kernel(
        "scale", SOURCE, 1, [np.zeros_like(x), x, np.int32(len(x))], {"SCALE": values}, answer=[x, None, None], lang="C",
        observers=[AccuracyObserver("rmse")], objective="error", objective_higher_is_better=False, quiet=True,
    )
    print("errors", {row["SCALE"]: float(row["error"]) for row in rows}, "best", env["best_config"]["SCALE"])
    return env["best_config"]["SCALE"]


first, last = best([0, 1, 2]), best([1, 2, 0])
print("SCALE=0 makes NaN; the best is", first, "if it is first, and", last, "if it is last")
assert (first, last) == (0, 1), "the behaviour has changed"
EOF
env/bin/python check.py
