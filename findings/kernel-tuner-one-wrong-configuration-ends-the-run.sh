#!/bin/sh
# One configuration with a wrong result ends the whole tuning run with a RuntimeError, and the results of all others are lost.
# One would expect that it is marked as failed and that the run goes on, as with a configuration that does not compile.
# Package: kernel_tuner 1.5.0, core.py, check_kernel_output. Needs a C++ compiler, no GPU.
# Wrong configurations are common while tuning (races, missing bounds checks): each costs a run of hours.
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
try:
    results, _ = kernel_tuner.tune_kernel(
        "scale", SOURCE, 1000, arguments, {"unroll": [1, 2, 4]}, answer=[2 * x, None, None], lang="C", quiet=True
    )
except RuntimeError as error:
    print("RuntimeError:", error)
    assert "verification failed" in str(error) and "unroll=2" in str(error)
else:
    raise SystemExit(f"the behaviour has changed: {results}")
EOF
env/bin/python check.py
