#!/bin/sh
# NVRTC gives `typedef struct { ... } __attribute__((aligned(32))) Grid;` the size that it has without the attribute, 24 bytes for two pointers
# and an int, and says nothing; GCC gives it 32, as its manual says of attributes after the brace. Without `typedef`, NVRTC warns; before the
# name, it applies the attribute. So host and device disagree about one definition, and elements of an array are read from the wrong places.
# Package: nvidia-cuda-nvrtc 13.0.88 through cuda-bindings 13.0.3, without a GPU; GCC of the system. Source: GCC's manual, "Attribute Syntax".
# A tuner compiles by NVRTC what was written for a compiler of the host, and fills arrays of structs as the host lays them out.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
import subprocess
from importlib.metadata import version

from cuda.bindings import nvrtc

BODY = "{ float *u; const float *now; int n; }"
FORMS = {
    "before the name": f"struct __attribute__((aligned(32))) Grid {BODY};",
    "after the body": f"struct Grid {BODY} __attribute__((aligned(32)));",
    "after the body of a typedef": f"typedef struct {BODY} __attribute__((aligned(32))) Grid;",
}


def by_nvrtc(code):
    """The size that NVRTC gives, and its log: only one of these assertions compiles."""
    for size in (24, 32):
        text = f'{code} static_assert(sizeof(Grid) == {size}, ""); extern "C" __global__ void f(Grid g) {{ g.u[0] = g.n; }}'
        program = nvrtc.nvrtcCreateProgram(text.encode(), b"grid.cu", 0, [], [])[1]
        if int(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90a"])[0]) == 0:
            log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
            nvrtc.nvrtcGetProgramLog(program, log)
            return size, log.decode().strip("\0\n ")
    return 0, ""


def by_gcc(code):
    main = '#include <stdio.h>\nint main() { printf("%zu", sizeof(Grid)); }\n'
    subprocess.run(["g++", "-x", "c++", "-o", "size", "-"], input=f"{code}\n{main}", text=True, check=True)
    return int(subprocess.run(["./size"], capture_output=True, text=True, check=True).stdout)


print("NVRTC", version("nvidia-cuda-nvrtc"))
found = {form: (*by_nvrtc(code), by_gcc(code)) for form, code in FORMS.items()}
for form, (size, log, host) in found.items():
    print(f"aligned(32) {form}: NVRTC {size} bytes, {'a warning' if log else 'no warning'}; g++ {host} bytes")
assert found["before the name"] == (32, "", 32), "the behaviour has changed"
assert found["after the body of a typedef"] == (24, "", 32), "the behaviour has changed"
assert (found["after the body"][0], found["after the body"][2]) == (24, 32), "the behaviour has changed"
EOF
env/bin/python check.py
