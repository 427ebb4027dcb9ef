#!/bin/sh
# Kernel Tuner compares integers as it compares floats, with a relative tolerance of 1e-5: where the answer is 200,000 or more, 200,001 passes,
# and at 10 million a result that is off by 50 does. `atol` cannot make it exact; only a `verify` function does. Nothing is said.
# One would expect that integers are compared exactly, as torch.testing.assert_close does.
# Package: kernel_tuner 1.5.0, core.py, _default_verify_function: numpy.allclose with its default rtol. Needs a C++ compiler, no GPU.
# Kernels that write places in large arrays (argmax, sort by key, stream compaction, CSR offsets), counts or hashes are such kernels: one that
# is off by one passes, and may be the best.
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

warnings.simplefilter("ignore")
print("kernel_tuner", version("kernel_tuner"))

SOURCE = """
extern "C" float shift(int *y, const int *x, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] + OFF;
    return 100.0f - OFF;
}
"""


def passes(first, off):
    """Whether places from `first` on, each of them `off` too large, pass for the answer."""
    x = np.arange(first, first + 1000, dtype=np.int32)
    arguments = [np.zeros_like(x), x, np.int32(len(x))]
    try:
        kernel_tuner.tune_kernel("shift", SOURCE, 1, arguments, {"OFF": [off]}, answer=[x, None, None], lang="C", quiet=True)
    except RuntimeError as error:
        assert "verification failed" in str(error)
        return False
    return True


seen = {(first, off): passes(first, off) for first in (1000, 200_000, 10_000_000) for off in (0, 1, 50)}
for (first, off), passed in seen.items():
    print(f"places from {first:,} on, {off} too large: {'pass' if passed else 'refused'}")
wrong = {case for case, passed in seen.items() if passed and case[1]}
assert all(passed for (_, off), passed in seen.items() if not off)
assert wrong == {(200_000, 1), (10_000_000, 1), (10_000_000, 50)}, "the behaviour has changed"
EOF
env/bin/python check.py
