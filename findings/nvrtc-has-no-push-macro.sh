#!/bin/sh
# NVRTC ignores #pragma push_macro and pop_macro, which GCC, Clang, MSVC and nvcc's host compiler know: a header that saves a macro,
# redefines and restores it leaves it undefined, with a warning alone. One would expect the pragma of the C++ front end.
# Packages: nvidia-cuda-nvrtc 13.5.37, cuda-bindings 13.5.0; no GPU is needed.
# A tuner that passes parameters as macros cannot protect them from the names in a header by this pragma.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'cuda-bindings==13.5.0' 'nvidia-cuda-nvrtc==13.5.37'
cat >check.py <<'EOF'
from cuda.bindings import nvrtc

SOURCE = """
#define N 4
#pragma push_macro("N")
#undef N
#pragma pop_macro("N")
static_assert(N == 4, "restored");
__global__ void kernel() {}
"""
_, major, minor = nvrtc.nvrtcVersion()
print(f"NVRTC {major}.{minor}")
_, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernel.cu", 0, [], [])
(status,) = nvrtc.nvrtcCompileProgram(program, 0, [])
_, size = nvrtc.nvrtcGetProgramLogSize(program)
log = bytearray(size)
nvrtc.nvrtcGetProgramLog(program, log)
print(status.name, "\n" + log.decode().rstrip("\0"))
assert b"unrecognized #pragma" in log and b'identifier "N" is undefined' in log, "the behaviour has changed"
EOF
env/bin/python check.py
