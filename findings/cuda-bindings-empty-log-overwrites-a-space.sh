#!/bin/sh
# An empty log of NVRTC, read in the form that Kernel Tuner has, too, `log = b" " * size; nvrtcGetProgramLog(program, log)`, replaces the space
# in all of Python: the size is 1, `b" " * 1` is the one b" " that CPython keeps, and the binding writes 0 into it. `print("a", "b")` writes
# a NUL between the words from then on, so logs and CSV files of a tuner become binary for grep. Of a log with a warning nothing happens.
# One would expect the binding to refuse bytes, which are immutable, as ctypes and readinto do; a bytearray works.
# Packages: cuda-bindings 13.5.0, nvidia-cuda-nvrtc 13.5.37. Seen with CPython 3.11; no GPU is needed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.5.37' 'cuda-bindings==13.5.0'
cat >check.py <<'EOF'
import io
from importlib.metadata import version

from cuda.bindings import nvrtc

print("cuda-bindings", version("cuda-bindings"), "nvidia-cuda-nvrtc", version("nvidia-cuda-nvrtc"))


def printed():
    """The bytes that print writes between two words."""
    stream = io.BytesIO()
    text = io.TextIOWrapper(stream, "utf-8", write_through=True)
    print("a", "b", file=text)
    return stream.getvalue().hex("-")


_, program = nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void nothing() {}', b"kernel.cu", 0, [], [])
nvrtc.nvrtcCompileProgram(program, 0, [])
_, size = nvrtc.nvrtcGetProgramLogSize(program)
before = printed()
log = b" " * size
nvrtc.nvrtcGetProgramLog(program, log)
after = printed()
print(f"size:{size},before:{before},after:{after}")
assert (size, before, after) == (1, "61-20-62-0a", "61-00-62-0a"), "the behaviour has changed"
EOF
env/bin/python check.py
