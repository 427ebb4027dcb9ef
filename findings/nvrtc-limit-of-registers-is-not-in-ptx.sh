#!/bin/sh
# NVRTC's `--maxrregcount=32` limits registers only in the machine code that NVRTC itself makes. In its PTX is no limit, so that ptxas or the
# driver gives a kernel 56 registers. For `compute_90`, where PTX is all that NVRTC makes, the option only reorders instructions, and
# `--ptxas-options=...` does nothing, even with words that do not exist. No warning is given.
# One would expect a warning, or `.maxnreg` in the PTX, which is what `__maxnreg__(32)` in the source gives.
# Packages: nvidia-cuda-nvrtc 13.0.88, cuda-bindings 13.0.3, without a GPU: ptxas of nvidia-cuda-nvcc 13.0.88 takes the driver's place.
# Who keeps PTX, which runs on later GPUs, too, loses a limit that was tuned, and with it the occupancy for which it was chosen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'cuda-bindings==13.0.3' 'nvidia-cuda-nvcc==13.0.88'
cat >check.py <<'EOF'
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import nvidia
from cuda.bindings import nvrtc

PTXAS = next(Path(nvidia.__path__[0]).rglob("bin/ptxas"))
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


def compiled(*options, bounds=""):
    """PTX, and what NVRTC's log says."""
    program = nvrtc.nvrtcCreateProgram(KERNEL.replace("BOUNDS", bounds).encode(), b"mix.cu", 0, [], [])[1]
    words = [option.encode() for option in options]
    assert int(nvrtc.nvrtcCompileProgram(program, len(words), words)[0]) == 0, options
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    ptx = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    return bytes(ptx).rstrip(b"\0"), log.decode().strip("\0 \n")


def registers(text):
    return int(re.search(r"Used (\d+) registers", text)[1])


def assembled(ptx):
    Path("mix.ptx").write_bytes(ptx)
    done = subprocess.run([PTXAS, "-v", "-arch=sm_90", "mix.ptx", "-o", "mix.cubin"], capture_output=True, text=True, check=True)
    return registers(done.stderr)


print("NVRTC", version("nvidia-cuda-nvrtc"))
free, _ = compiled("-arch=compute_90")
limited, log = compiled("-arch=compute_90", "--maxrregcount=32")
print("PTX for compute_90 with the limit:", assembled(limited), "registers; without:", assembled(free), "the log:", repr(log))
assert log == "", "the behaviour has changed"
both, log = compiled("-arch=sm_90", "--maxrregcount=32", "--ptxas-options=-v")
print("for sm_90, machine code of NVRTC:", registers(log), "registers; its PTX, assembled:", assembled(both))
unknown, log = compiled("-arch=compute_90", "--ptxas-options=--no-such-option")
print("an unknown option of ptxas for compute_90: the log is", repr(log))
inside, _ = compiled("-arch=compute_90", bounds="__maxnreg__(32)")
print("__maxnreg__(32) in the source:", assembled(inside), "registers")
assert unknown == free and b".maxnreg" not in limited + both and log == "", "the behaviour has changed"
assert registers(compiled("-arch=sm_90", "--maxrregcount=32", "--ptxas-options=-v")[1]) <= 32, "the behaviour has changed"
assert assembled(both) == assembled(limited) == assembled(free) > 32 >= assembled(inside), "the behaviour has changed"
EOF
env/bin/python check.py
