#!/bin/sh
# `pow(x, 2)` of a float is computed in float by NVRTC and in double by nvcc, and so is `pow(x, n)` of an int n: NVRTC declares a
# pow(float, int), and nvcc takes the one of the host's <cmath>, which converts both to double, as C++11 says. With `2.0f`, both are float.
# One would expect one meaning of one line, or an error, as NVRTC has it for `sqrt(n)`.
# Packages: nvidia-cuda-nvrtc and nvidia-cuda-nvcc 13.0.88, without a GPU; the instructions are read from the PTX. Needs g++.
# A kernel that is tuned by a tool on NVRTC and built into a program by nvcc is another one there: its squares, such as pow(dx, 2),
# run on the units for double, of which most GPUs have few, and its results differ. Write dx * dx.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'nvidia-cuda-nvcc==13.0.88' \
    'nvidia-nvvm==13.0.88' 'nvidia-cuda-crt==13.0.88' 'nvidia-cuda-runtime==13.0.96' 'nvidia-cuda-cccl==13.0.85' 'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
import re
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cuda.bindings import nvrtc

print(*(f"{name} {version(name)}" for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvcc")))
POWERS = {"whole": "pow(x, 2)", "variable": "pow(x, n)", "real": "pow(x, 2.0f)", "product": "x * x"}
SOURCE = "\n".join(
    f'extern "C" __global__ void {name}(float *y, float x, int n) {{ y[0] = {power}; }}' for name, power in POWERS.items()
)


def checked(status, *values):
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return values[0] if values else None


def by_nvrtc():
    program = checked(*nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernels.cu", 0, [], []))
    checked(*nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
    ptx = bytearray(checked(*nvrtc.nvrtcGetPTXSize(program)))
    checked(*nvrtc.nvrtcGetPTX(program, ptx))
    return ptx.decode()


def by_nvcc():
    Path("kernels.cu").write_text(SOURCE)
    root = Path(next(iter(find_spec("nvidia").submodule_search_locations)), "cu13")
    subprocess.run([root / "bin/nvcc", "-arch=sm_90", "-ptx", "-I", root / "include", "kernels.cu", "-o", "kernels.ptx"], check=True)
    return Path("kernels.ptx").read_text()


def doubles(ptx):
    """The number of instructions on doubles, of each kernel."""
    kernels = re.findall(r"\.entry (\w+)\((.*?)\n\}", ptx, re.DOTALL)
    return {name: len(re.findall(r"^\s+[a-z][\w.]*\.f64", text, re.MULTILINE)) for name, text in kernels}


nvrtc_has, nvcc_has = doubles(by_nvrtc()), doubles(by_nvcc())
for name, power in POWERS.items():
    print(f"{power}: {nvrtc_has[name]} instructions on doubles by NVRTC, {nvcc_has[name]} by nvcc")
assert not any(nvrtc_has.values()), "the behaviour has changed"
assert nvcc_has["whole"] > 5 and nvcc_has["variable"] > 5 and not nvcc_has["real"], "the behaviour has changed"
EOF
env/bin/python check.py
