#!/bin/sh
# A C function that returns its time as a double, as std::chrono and omp_get_wtime give it, has random times: Kernel Tuner
# reads the lower half of the double as a float. Times are negative, or 10^30 ms, and the least of them is the "best
# configuration". One would expect the number that the function returns, or an error.
# Package: kernel_tuner 1.5.0, backends/compiler.py: restype is a float for every function. Needs g++, no GPU.
# A kernel tuner that runs such scripts must refuse a function that returns another type.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0'
cat >check.py <<'EOP'
import warnings
from importlib.metadata import version

import numpy as np
import kernel_tuner

SOURCE = """
extern "C" TYPE twice(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
    return level / 10.0;  // ms
}"""

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
x = np.ones(100, np.float32)
times = {}
for kind in ("float", "double"):
    rows, _ = kernel_tuner.tune_kernel(
        "twice", SOURCE.replace("TYPE", kind), 1, [0 * x, x, np.int32(100)], {"level": [1, 2, 3]}, lang="C", quiet=True,
        answer=[2 * x, None, None],
    )
    times[kind] = [row["time"] for row in rows]
    print("returned 0.1, 0.2, 0.3 as", kind, "-> times", times[kind])
assert np.allclose(times["float"], [0.1, 0.2, 0.3]), "a float is read as it is returned"
assert not np.allclose(times["double"], [0.1, 0.2, 0.3]), "a double is now read as it is returned"
EOP
env/bin/python check.py
