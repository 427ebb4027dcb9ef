#!/bin/sh
# NVRTC reports one missing include and nothing else: a second one, and the errors of the code below, appear only when the first one is
# found. One would expect all of them, as with other errors. Packages: nvidia-cuda-nvrtc 13.5.37, cuda-bindings 13.5.0; no GPU is needed.
# Whoever brings a .cu file with five host headers compiles it six times to see what is wrong with it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'cuda-bindings==13.5.0' 'nvidia-cuda-nvrtc==13.5.37'
cat >check.py <<'EOF'
from cuda.bindings import nvrtc

SOURCE = "#include <one.h>\n#include <two.h>\n__global__ void kernel(int *p) { *p = unknown; }\n"
_, major, minor = nvrtc.nvrtcVersion()
print(f"NVRTC {major}.{minor}")
_, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"kernel.cu", 0, [], [])
nvrtc.nvrtcCompileProgram(program, 0, [])
_, size = nvrtc.nvrtcGetProgramLogSize(program)
log = bytearray(size)
nvrtc.nvrtcGetProgramLog(program, log)
print(log.decode().rstrip("\0"))
assert b"one.h" in log and b"two.h" not in log and b"unknown" not in log, "the behaviour has changed"
EOF
env/bin/python check.py
