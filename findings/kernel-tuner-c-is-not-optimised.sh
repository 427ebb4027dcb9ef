#!/bin/sh
# C kernels are compiled without optimisation unless the script passes -O3: a loop over bytes takes several times as long, and
# a loop with fewer, longer iterations is the "best configuration", though the plain one, which the compiler vectorises, is
# faster. One would expect that a tuner of speed builds as programs are built, or warns.
# Package: kernel_tuner 1.5.0, backends/compiler.py: the only default option is -fPIC. Needs g++, no GPU.
# A kernel tuner that runs such scripts must choose which of the two is meant.
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
#include <chrono>
#include <cstdint>
#include <cstring>
extern "C" float count(int64_t *y, const uint8_t *x, int n) {
    auto start = std::chrono::steady_clock::now();
    uint64_t sum = 0;
    for (int round = 0; round < 20; round++) {
        if (bytes == 1) {
            uint32_t part = 0;
            for (int i = 0; i < n; i++) part += x[i];
            sum += part;
        } else {
            for (int i = 0; i < n; i += 8) {
                uint64_t eight;
                std::memcpy(&eight, x + i, 8);
                eight = (eight & 0x00ff00ff00ff00ff) + (eight >> 8 & 0x00ff00ff00ff00ff);
                sum += eight * 0x0001000100010001 >> 48;
            }
        }
    }
    *y = sum;
    return std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
}"""

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
n = 1 << 20
x = np.random.default_rng(0).integers(0, 256, n, np.uint8)
answer = [np.array([20 * int(x.sum(dtype=np.int64))]), None, None]
times = {}
for options in ([], ["-O3"]):
    rows, about = kernel_tuner.tune_kernel(
        "count", SOURCE, n, [np.zeros(1, np.int64), x, np.int32(n)], {"bytes": [1, 8]}, lang="C", quiet=True,
        answer=answer, compiler_options=options,
    )
    best = min(rows, key=lambda row: row["time"])
    times[bool(options)] = {row["bytes"]: min(row["times"]) for row in rows}
    print("compiler_options", options, "best: bytes =", best["bytes"], {b: round(t, 2) for b, t in times[bool(options)].items()})
slow, fast = times[False], times[True]
is_other = min(slow, key=slow.get) != min(fast, key=fast.get)
assert slow[1] > 3 * fast[1], "the default is now optimised"
print("the plain loop takes", round(slow[1] / fast[1], 1), "times as long by default; another configuration is the best:", is_other)
EOP
env/bin/python check.py
