#!/bin/sh
# `#pragma unroll 0` is no way to say "do not unroll" to NVRTC: it ignores the pragma, so a loop of 64 steps is unrolled completely, as it is
# without the pragma; a warning stands in the log, which tuners and PyCUDA drop when the build succeeds. GCC's `#pragma GCC unroll 0` keeps
# the loop, and the clang in PoCL 3.1 refuses 0. A semicolon after the number makes NVRTC ignore the pragma, too.
# Package: nvidia-cuda-nvrtc 13.0.88 through cuda-bindings 13.0.3, without a GPU; loads and branches are counted in the PTX.
# With a knob of [0, 1, 2, 4], the first configuration measures another kernel than its user thinks: 1 is what keeps the loop.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
from importlib.metadata import version

from cuda.bindings import nvrtc

KERNEL = """
extern "C" __global__ void dot(const float *x, float *y) {
    float sum = 0;
    PRAGMA
    for (int i = 0; i < 64; i++) sum += x[i] * x[i + 1];
    y[0] = sum;
}
"""


def compiled(pragma):
    program = nvrtc.nvrtcCreateProgram(KERNEL.replace("PRAGMA", pragma).encode(), b"dot.cu", 0, [], [])[1]
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])[0]) == 0
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    ptx = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.count(b"ld.global"), ptx.count(b"bra"), b"ignoring pragma" in log


print("NVRTC", version("nvidia-cuda-nvrtc"))
found = {}
for pragma in ("", "#pragma unroll 0", "#pragma unroll 4;", "#pragma unroll 1", "#pragma unroll 4"):
    loads, branches, warned = found[pragma] = compiled(pragma)
    print(f"{pragma or 'no pragma'}: {loads} loads, {branches} branches{', a warning' if warned else ''}")
assert found["#pragma unroll 0"] == found["#pragma unroll 4;"] == (65, 0, True), "the behaviour has changed"
assert found[""] == (65, 0, False), "the behaviour has changed"
assert found["#pragma unroll 1"] == (2, 1, False) and found["#pragma unroll 4"] == (5, 1, False), "the behaviour has changed"
EOF
env/bin/python check.py
