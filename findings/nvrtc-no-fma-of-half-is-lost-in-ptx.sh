#!/bin/sh
# `-fmad=false` holds for half only if NVRTC makes the machine code itself: its PTX has `mul.f16` and `add.f16` without a rounding, which whoever
# assembles the PTX fuses into one HFMA2, as it does by default. Of float, the PTX has `mul.rn.f32` and `add.rn.f32`, which stay apart.
# One would expect that an option of the compiler is in what it compiles, or the forms with a rounding, as __hmul_rn and __hadd_rn have them.
# Packages: nvidia-cuda-nvrtc 13.0.88, nvidia-cuda-runtime 13.0.96 (cuda_fp16.h), without a GPU: ptxas of nvidia-cuda-nvcc 13.0.88 takes the
# driver's place, and nvdisasm 13.5.37 shows what it made. Seen on an H200, in November 2026: PTX and cubin differ in 245,007 of 1,048,576 sums.
# Two tools with the same source and options, one loading PTX (Kernel Tuner with cuda-python does) and one cubins, so have results that
# differ in the last digit, and a comparison of bits or with separately rounded sums fails for one of them.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'nvidia-cuda-nvcc==13.0.88' \
    'nvidia-cuda-nvdisasm==13.5.37' 'nvidia-cuda-crt==13.0.88' 'nvidia-cuda-runtime==13.0.96' 'nvidia-cuda-cccl==13.0.85' \
    'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
import re
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cuda.bindings import nvrtc

print(*(f"{name} {version(name)}" for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm")))
ROOT = Path(next(iter(find_spec("nvidia").submodule_search_locations)), "cu13")
SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void in_half(__half *y, __half a, __half b, __half c) { y[0] = a * b + c; }
extern "C" __global__ void in_float(float *y, float a, float b, float c) { y[0] = a * b + c; }
"""


def checked(status, *values):
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return values[0] if values else None


def operations(cubin):
    """The additions and products in a cubin."""
    Path("kernels.cubin").write_bytes(cubin)
    text = subprocess.run([ROOT / "bin/nvdisasm", "kernels.cubin"], check=True, capture_output=True, text=True).stdout
    return sorted(re.findall(r"\b(HFMA2|HMUL2|HADD2|FFMA|FMUL|FADD)\b", text))


program = checked(*nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernels.cu", 0, [], []))
options = [b"--gpu-architecture=sm_90", b"-fmad=false", b"-I" + str(ROOT / "include").encode()]
checked(*nvrtc.nvrtcCompileProgram(program, len(options), options))
ptx = bytearray(checked(*nvrtc.nvrtcGetPTXSize(program)))
checked(*nvrtc.nvrtcGetPTX(program, ptx))
cubin = bytearray(checked(*nvrtc.nvrtcGetCUBINSize(program)))
checked(*nvrtc.nvrtcGetCUBIN(program, cubin))
Path("kernels.ptx").write_text(ptx.rstrip(b"\0").decode())
subprocess.run([ROOT / "bin/ptxas", "-arch=sm_90", "kernels.ptx", "-o", "assembled.cubin"], check=True)

print("-fmad=false; the PTX has", sorted(set(re.findall(r"\b(?:mul|add|fma)(?:\.rn)?\.f(?:16|32)", ptx.decode()))))
direct, assembled = operations(cubin), operations(Path("assembled.cubin").read_bytes())
print("NVRTC's cubin has", direct)
print("the cubin that ptxas makes of the PTX has", assembled)
assert direct == ["FADD", "FMUL", "HADD2", "HMUL2"]
assert assembled == ["FADD", "FMUL", "HFMA2"], "the behaviour has changed"
EOF
env/bin/python check.py
