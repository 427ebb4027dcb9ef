#!/bin/sh
# A cache file returns the times of an earlier source: after the kernel was edited to work 2,000 times as long, the times are the
# old ones, to the last digit. One would expect that an edited kernel is measured again.
# Package: kernel_tuner 1.5.0, util.py, process_cache: it compares kernel name, device and parameters, not source or options.
# Whoever optimises a kernel between two runs tunes the old one. Needs a C++ compiler, no GPU.
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
#include <chrono>
extern "C" float scale(float *y, float *x, int n) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < n; i++) y[i] = (unroll == 2 ? 3 : 2) * x[i];
    return std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
}"""

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
x = np.arange(1000, dtype=np.float32)
arguments = [np.zeros_like(x), x, np.int32(x.size)]


def times(source):
    results, _ = kernel_tuner.tune_kernel(
        "scale", source, 1000, arguments, {"unroll": [1, 4]}, lang="C", quiet=True, cache="cache.json"
    )
    return [float(result["time"]) for result in results]


first = times(SOURCE)
slow = SOURCE.replace("for (int i", "for (int j = 0; j < 2000; j++) for (int i").replace("y[i]", "((volatile float *)y)[i]")
second = times(slow)
print("before the edit, ms:", first)
print("after the edit, ms: ", second)
assert first == second, "the behaviour has changed"
EOF
env/bin/python check.py
