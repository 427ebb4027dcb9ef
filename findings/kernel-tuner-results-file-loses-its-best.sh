#!/bin/sh
# A results file of Kernel Tuner is of no use exactly where it fits: for the device and the size that were tuned, get_best_config returns the
# record (device_name, problem_size, tunable_parameters) in place of the parameters. PythonKernel takes its three keys for parameters, so the
# kernel is compiled with blocks of 256, the default, and without its tuned values; at a size that was never tuned, it gets them.
# One would expect the parameters in both cases, as the documentation of get_best_config says; no message is given.
# And a device whose name has brackets or a dot, such as "AMD Radeon(TM) 780M", is never found, because only spaces and minus signs of the
# name are replaced when reading: it gets the configuration that is most frequent on other devices.
# Package: kernel_tuner 1.5.0, integration.py and kernelbuilder.py. Needs a C++ compiler, no GPU. What was tuned is not what runs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
from kernel_tuner.integration import TuneResults, store_results
from kernel_tuner.kernelbuilder import PythonKernel

print("kernel_tuner", version("kernel_tuner"))
SOURCE = 'extern "C" float width(float *y) { y[0] = block_size_x; return 1.0f; }'
PARAMETERS = {"block_size_x": [32, 64, 128]}
fast_64 = [{"block_size_x": 32, "time": 2.0}, {"block_size_x": 64, "time": 1.0}, {"block_size_x": 128, "time": 3.0}]
fast_32 = [{"block_size_x": 32, "time": 1.0}, {"block_size_x": 64, "time": 2.0}, {"block_size_x": 128, "time": 3.0}]
y = np.zeros(1, np.float32)

name = PythonKernel("width", SOURCE, 1000, [y], lang="C").dev.name
store_results("here.json", "width", SOURCE, PARAMETERS, 1000, fast_64, {"device_name": name})
widths = {}
for size in (1000, 2000):
    kernel = PythonKernel("width", SOURCE, size, [y], lang="C", results_file="here.json")
    widths[size] = int(kernel(y)[0][0])
    print(f"tuned at 1000, used at {size}: parameters {kernel.params}; the kernel runs with block_size_x = {widths[size]}")

for size in (1000, 2000):
    store_results("devices.json", "width", SOURCE, PARAMETERS, size, fast_32, {"device_name": "NVIDIA H200"})
store_results("devices.json", "width", SOURCE, PARAMETERS, 1000, fast_64, {"device_name": "AMD Radeon(TM) 780M"})
found = TuneResults("devices.json").get_best_config("AMD Radeon(TM) 780M")
print("best on AMD Radeon(TM) 780M: block_size_x = 64; get_best_config:", found)
assert widths == {1000: 256, 2000: 64}, "the behaviour has changed"
assert found == {"block_size_x": 32}, "the behaviour has changed"
EOF
env/bin/python check.py
