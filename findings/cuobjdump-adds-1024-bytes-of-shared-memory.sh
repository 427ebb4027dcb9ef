#!/bin/sh
# `cuobjdump -res-usage` says that a kernel with 256 floats in shared memory uses SHARED:2048 on sm_90, sm_100 and sm_120, and SHARED:1024 on sm_80:
# from sm_90 on it adds the 1,024 bytes that the system keeps in each block, but not to a kernel that has no shared memory, for which it says 0.
# ptxas says 1,024 bytes for all four. One would expect two tools of one toolkit to count alike.
# Packages: nvidia-cuda-nvrtc 13.0.88 (its ptxas, by --ptxas-options=-v), nvidia-cuda-cuobjdump 13.5.37, cuda-bindings 13.0.3, without a GPU.
# Whoever checks a limit of 48 KB, or computes how many blocks fit, which adds these bytes itself, excludes configurations that run.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'nvidia-cuda-cuobjdump==13.5.37' \
    'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import nvidia
from cuda.bindings import nvrtc

CUOBJDUMP = next(Path(nvidia.__path__[0]).rglob("bin/cuobjdump"))
WITH = """extern "C" __global__ void k(float *y) {
    __shared__ float s[256];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[255 - threadIdx.x];
}"""
WITHOUT = 'extern "C" __global__ void k(float *y) { y[threadIdx.x] *= 2; }'


def counts(source, architecture):
    program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])[1]
    words = [f"-arch={architecture}".encode(), b"--ptxas-options=-v"]
    assert int(nvrtc.nvrtcCompileProgram(program, len(words), words)[0]) == 0
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    cubin = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, cubin)
    Path("k.cubin").write_bytes(cubin)
    text = subprocess.run([CUOBJDUMP, "-res-usage", "k.cubin"], capture_output=True, text=True, check=True).stdout
    assembler = re.search(r"(\d+) bytes smem", log.decode())
    return int(assembler[1]) if assembler else 0, int(re.search(r"SHARED:(\d+)", text)[1])


print("NVRTC", version("nvidia-cuda-nvrtc"), "cuobjdump", version("nvidia-cuda-cuobjdump"))
for architecture in ("sm_80", "sm_90", "sm_100", "sm_120"):
    some, none = counts(WITH, architecture), counts(WITHOUT, architecture)
    print(f"{architecture}: 1,024 bytes are {some[0]} to ptxas and {some[1]} to cuobjdump; none are {none[0]} and {none[1]}")
    added = 0 if architecture == "sm_80" else 1024
    assert (some, none) == ((1024, 1024 + added), (0, 0)), "the behaviour has changed"
EOF
env/bin/python check.py
