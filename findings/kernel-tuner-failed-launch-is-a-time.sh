#!/bin/sh
# A launch that fails is a result, and the best one: with 1,024 threads that need more than 64 registers each nothing runs, and
# the "time" is that between two events with nothing between them. One would expect an error configuration, as with PyCUDA.
# Package: kernel_tuner 1.5.0 with cuda-bindings, which is its default for CUDA where it is installed. backends/nvcuda.py, run_kernel,
# passes what cuLaunchKernel returns, a tuple, to cuda_error_check of utils/nvcuda.py, which looks at no tuples.
# Whoever tunes without an answer gets a configuration that cannot run. Without a GPU, only the check is shown.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'cuda-bindings==13.0.3' 'nvidia-cuda-nvrtc==13.0.88' 'nvidia-cuda-runtime==13.0.96'
cat >check.py <<'EOF'
import warnings
from importlib.metadata import version

import numpy as np
from cuda.bindings import driver

import kernel_tuner
from kernel_tuner.utils.nvcuda import cuda_error_check

SOURCE = """
extern "C" __global__ void sums(float *y, const float *x, int n) {
    float part[work];
    for (int j = 0; j < work; j++) part[j] = x[j] + threadIdx.x;
    for (int i = 0; i < n; i++) {
        #pragma unroll
        for (int j = 0; j < work; j++) part[j] = x[i] * (part[j] + part[(j + 1) % work]);
    }
    float total = 0;
    for (int j = 0; j < work; j++) total += part[j];
    y[blockIdx.x * block_size_x + threadIdx.x] = total;
}"""

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"), "cuda-bindings", version("cuda-bindings"))
cuda_error_check((driver.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,))  # the form of what driver.cuLaunchKernel returns
print("an error in a tuple: no exception")
x, y = np.full(1024, 0.5, np.float32), np.zeros(4096, np.float32)
arguments = [y, x, np.int32(x.size)]
values = {"block_size_x": [1024], "work": [1, 128]}
try:
    driver.cuInit(0)
except RuntimeError:
    print("no driver of a GPU is installed: the launch is not shown")
else:
    rows, _ = kernel_tuner.tune_kernel("sums", SOURCE, y.size, arguments, values, lang="CUDA", quiet=True)
    times = {row["work"]: row.get("time") for row in rows}
    written, *_ = kernel_tuner.run_kernel("sums", SOURCE, y.size, arguments, {"block_size_x": 1024, "work": 128}, lang="CUDA")
    print("ms by work:", times, "written with work = 128:", int(np.count_nonzero(written)), "of", y.size)
    assert times[128] < times[1] and not written.any(), "the behaviour has changed"
EOF
env/bin/python check.py
