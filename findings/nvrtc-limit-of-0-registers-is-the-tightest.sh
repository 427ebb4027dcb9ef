#!/bin/sh
# `--maxrregcount=0` is not "no limit" to NVRTC: for sm_90a it raises 0 to 24 registers, the tightest limit that there is, and a kernel that
# needs 56 spills over 800 bytes. 256 and more are ignored, so 255 is what limits nothing. Each says so in a warning, in a log that tuners and
# PyCUDA drop when the build succeeds. Of a kernel with `__launch_bounds__`, the option is ignored without a word.
# Package: nvidia-cuda-nvrtc 13.0.88 through cuda-bindings 13.0.3, without a GPU; registers as ptxas reports them.
# Triton's `maxnreg` has None for no limit, and 0 is the usual "off" of a knob; here such a configuration is the slowest, not the default.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
import re
from importlib.metadata import version

from cuda.bindings import nvrtc

KERNEL = """
extern "C" __global__ void BOUNDS mix(const float *x, float *y) {
    float a[48], s = x[threadIdx.x];
    #pragma unroll
    for (int i = 0; i < 48; i++) a[i] = x[i * 32 + threadIdx.x];
    for (int k = 0; k < 100; k++) {
        #pragma unroll
        for (int i = 0; i < 48; i++) a[i] = fmaf(a[i], s, a[(i * 7 + 3) % 48]);
    }
    #pragma unroll
    for (int i = 0; i < 48; i++) y[i * 32 + threadIdx.x] = a[i];
}
"""


def compiled(option, bounds=""):
    program = nvrtc.nvrtcCreateProgram(KERNEL.replace("BOUNDS", bounds).encode(), b"mix.cu", 0, [], [])[1]
    options = [b"--gpu-architecture=sm_90a", b"--ptxas-options=-v", *([option.encode()] if option else [])]
    assert int(nvrtc.nvrtcCompileProgram(program, len(options), options)[0]) == 0
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    text = log.decode()
    registers, spills = (int(re.search(p, text)[1]) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores"))
    return registers, spills, "warning" in text


print("NVRTC", version("nvidia-cuda-nvrtc"))
free = compiled("")
print(f"no option: {free[0]} registers, {free[1]} bytes spilled")
found = {}
for limit in (0, 8, 24, 255, 256):
    registers, spills, warned = found[limit] = compiled(f"--maxrregcount={limit}")
    print(f"--maxrregcount={limit}: {registers} registers, {spills} bytes spilled{', a warning' if warned else ''}")
bounded = compiled("--maxrregcount=24", "__launch_bounds__(128)")
print(f"--maxrregcount=24 with __launch_bounds__(128): {bounded[0]} registers, {bounded[1]} bytes spilled")
assert found[0] == found[8] and found[0][:2] == found[24][:2] and found[0][0] == 24 < free[0], "the behaviour has changed"
assert found[0][1] > 0 == free[1] and found[0][2], "the behaviour has changed"
assert found[255][:2] == found[256][:2] == free[:2] and found[256][2], "the behaviour has changed"
assert bounded == free, "the behaviour has changed"
EOF
env/bin/python check.py
