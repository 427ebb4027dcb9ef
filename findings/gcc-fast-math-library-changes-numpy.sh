#!/bin/sh
# Loading a shared library that was linked with -ffast-math makes NumPy flush denormals to zero in the whole thread that loads it:
# 1e-40 * 1 becomes 0. One would expect that an option of one library does not change the arithmetic of another.
# Seen with GCC 12.2 (x86-64; it links crtfastmath.o, newer versions can be told not to), numpy 2.4.6. Needs a C compiler.
# A kernel for the host that is tuned with -ffast-math thereby changes the reference that it is verified against.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'numpy==2.4.6'
cat >check.py <<'EOF'
import ctypes
import pathlib
import subprocess

import numpy as np

pathlib.Path("twice.c").write_text("float twice(float x) { return 2 * x; }")
print("numpy", np.__version__, "with", subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout.splitlines()[0])
tiny = np.full(4, 1e-40, np.float32)
found = [bool((tiny * np.float32(1)).all())]
for options in ([], ["-ffast-math"]):
    file = f"./lib{len(options)}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", *options, "twice.c", "-o", file], check=True)
    ctypes.CDLL(file)
    found.append(bool((tiny * np.float32(1)).all()))
print("denormals survive: at first, after a plain library, after one with -ffast-math:", found)
assert found == [True, True, False], "the behaviour has changed"
EOF
env/bin/python check.py
