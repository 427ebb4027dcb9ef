#!/bin/sh
# Kernel Tuner's T4 file lists a user's observer before the time, without a unit, whatever the objective is: an energy of
# 35 mJ stands first in `measurements` with the unit "", and `time` second. One would expect the objective first, and a
# unit wherever a number has one: a reader that takes the first number, or a number without a unit for the file's
# `timeunit`, stores 35 ms for a kernel that takes 0.03 ms.
# Package: kernel_tuner 1.5.0, file_utils.py, get_t4_results; backends append their timer after the user's observers.
# Needs a C++ compiler, no GPU.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'kernel_tuner==1.5.0'
cat >check.py <<'EOF'
import json
import warnings
from importlib.metadata import version

import numpy as np
import kernel_tuner
from kernel_tuner.file_utils import store_output_file
from kernel_tuner.observers.observer import BenchmarkObserver

SOURCE = """
extern "C" float scale(float *y, float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
    return 0.03125f;
}"""


class Energy(BenchmarkObserver):
    def get_results(self):
        return {"energy": 35.0}


warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))
x = np.arange(1000, dtype=np.float32)
arguments, parameters = [np.zeros_like(x), x, np.int32(x.size)], {"unroll": [1, 2]}
results, _ = kernel_tuner.tune_kernel(
    "scale", SOURCE, 1000, arguments, parameters, lang="C", quiet=True, observers=[Energy()]
)
store_output_file("t4.json", results, parameters, objective="time")
with open("t4.json") as file:
    document = json.load(file)
first = document["results"][0]
print("objectives:", first["objectives"], "timeunit:", document["metadata"]["timeunit"])
for measurement in first["measurements"]:
    print(measurement)
expected = [("energy", ""), ("time", "ms")]
assert [(m["name"], m["unit"]) for m in first["measurements"]] == expected, "the behaviour has changed"
EOF
env/bin/python check.py
