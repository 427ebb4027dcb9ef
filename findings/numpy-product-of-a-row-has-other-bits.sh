#!/bin/sh
# The first row of `a @ b` is not `a[0] @ b` in NumPy: of random matrices of 256 x 256, over half of its elements differ in the last bits, in float32
# and float64, and those of a column, too, because a vector goes to another routine of OpenBLAS, which adds in another order. Half of the
# rows give the bits of all. With another number of threads, `a @ b` of 1000 x 1000 differs, too. One would expect a row to be a row.
# Package: numpy 2.4.6 with its own OpenBLAS, on x86-64; which elements differ depends on the processor.
# References that are computed row by row, on several machines, or for a subset of the outputs, cannot be compared exactly.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import os
import subprocess
import sys

import numpy as np

if len(sys.argv) > 1:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1000, 1000), dtype=np.float32)
    sys.stdout.buffer.write((a @ b).tobytes())
    sys.exit()

print("numpy", np.__version__)
rng = np.random.default_rng(0)
for kind in (np.float32, np.float64):
    a, b = rng.random((2, 256, 256)).astype(kind)
    product = a @ b
    row, column = int((product[0] != a[0] @ b).sum()), int((product[:, 0] != a @ b[:, 0]).sum())
    half = int((product[:128] != a[:128] @ b).sum())
    print(f"{kind.__name__}: of 256 elements of a row {row} differ, of a column {column}; of 128 rows {half} elements")
    assert min(row, column) > 64 and half == 0, "the behaviour has changed"
    assert np.allclose(product[0], a[0] @ b, rtol=1e-5, atol=0), "the behaviour has changed"
results = [
    subprocess.run(
        [sys.executable, __file__, "product"], env=os.environ | {"OPENBLAS_NUM_THREADS": threads}, capture_output=True, check=True
    ).stdout
    for threads in ("1", "2")
]
one, two = (np.frombuffer(result, np.float32) for result in results)
print("1 and 2 threads:", int((one != two).sum()), "of", one.size, "elements differ;", os.cpu_count(), "cores")
assert (one != two).any() or os.cpu_count() == 1, "the behaviour has changed"
EOF
env/bin/python check.py
