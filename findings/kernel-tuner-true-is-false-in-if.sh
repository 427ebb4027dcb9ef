#!/bin/sh
# A tunable parameter of True and False is the macro `True` or `False`, which `#if` takes for 0: both configurations compile
# the branch of False, no warning is given, and both are reported with times of the same code. One would expect 1 and 0, as
# C, CUDA C++ and OpenCL C mean truths. Boolean knobs (use_shared, vectorize) are usual, and this one is dead.
# Package: kernel_tuner 1.5.0, core.py, prepare_kernel_string: the value is written as Python writes it.
# Needs a C++ compiler, no GPU.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np
import kernel_tuner

SOURCE = """
extern "C" float scale(float *y, float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
#if vectorize
    return 1.0f;  // ms, if the branch of True is compiled
#else
    return 2.0f;
#endif
}"""

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
x = np.arange(1000, dtype=np.float32)
arguments = [np.zeros_like(x), x, np.int32(x.size)]


def times(values):
    results, _ = kernel_tuner.tune_kernel(
        "scale", SOURCE, 1000, arguments, {"vectorize": values}, lang="C", quiet=True
    )
    return {result["vectorize"]: result["time"] for result in results}


print("times by value:", times([True, False]), "and with 1 and 0:", times([1, 0]))
assert times([True, False]) == {True: 2.0, False: 2.0} and times([1, 0]) == {1: 1.0, 0: 2.0}, "the behaviour has changed"
EOF
env/bin/python check.py
