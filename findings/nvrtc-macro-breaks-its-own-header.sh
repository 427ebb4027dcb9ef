#!/bin/sh
# `-DT=256` breaks every NVRTC build, also of a kernel that uses T alone: options define macros before NVRTC's own header is read, so its
# `template<typename T>` becomes an error, in a file that the user has never seen. So do x, y and z; M, N and K do not. `#define T 256` in
# the source works. One would expect that a header of the compiler has reserved names alone, as the C++ standard asks of its library.
# Packages: nvidia-cuda-nvrtc 13.5.37, cuda-bindings 13.5.0; no GPU is needed. T, for a tile or for threads, is a usual tuning parameter.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.5.37' 'cuda-bindings==13.5.0'
cat >check.py <<'EOF'
from importlib.metadata import version

from cuda.bindings import nvrtc

print("nvidia-cuda-nvrtc", version("nvidia-cuda-nvrtc"), "cuda-bindings", version("cuda-bindings"))


def build(source, *options):
    """Whether the source compiles, and the first line of the log."""
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    return result == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode().strip("\0").partition("\n")[0]


def kernel(name):
    return f'extern "C" __global__ void fill(int *array) {{ array[0] = {name}; }}'


for name, works in {"T": False, "x": False, "y": False, "z": False, "M": True, "N": True, "K": True}.items():
    by_option, log = build(kernel(name), f"-D{name}=256")
    print(f"-D{name}=256:", "compiles" if by_option else log)
    assert by_option == works and (works or "nvrtc_builtin_header" in log), "the behaviour has changed"
assert build("#define T 256\n" + kernel("T"))[0], "the behaviour has changed"
print("#define T 256 in the source: compiles")
EOF
env/bin/python check.py
