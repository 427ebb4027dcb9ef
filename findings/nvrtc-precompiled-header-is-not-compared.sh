#!/bin/sh
# With `-pch`, NVRTC's automatic precompiled headers, a program gets the header of an earlier one: after "tile.h" has changed from 16 to 32, be
# it text in memory, as CuPy and Kernel Tuner's users pass it, or a file that was edited, the kernel has 16 again, in all of the process. Only
# `-pch-messages` tells that a precompiled header was used. Another macro among the options makes a new one, also without a change of it.
# One would expect that what was included is compared, by its time or text, as GCC compares what it precompiles by a checksum.
# Packages: nvidia-cuda-nvrtc 13.0.88, cuda-bindings 13.0.3, without a GPU.
# A tuner turns it on because headers such as CUTLASS's take seconds for each configuration; parameters that it writes into a header are
# compiled once, and all configurations have the time of the first.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
import re
from importlib.metadata import version
from pathlib import Path

from cuda.bindings import nvrtc

KERNEL = b'#include "tile.h"\nextern "C" __global__ void f(int *y) { y[0] = TILE; }\n'


def compiled(text, *options):
    """The number that the kernel stores, if its header has this text: in memory, or in the file whose folder the options name."""
    headers = [] if "-I." in options else [text.encode()]
    if not headers:
        Path("tile.h").write_text(text)
    program = nvrtc.nvrtcCreateProgram(KERNEL, b"f.cu", len(headers), headers, [b"tile.h"][: len(headers)])[1]
    words = [b"-arch=compute_90", *(option.encode() for option in options)]
    assert int(nvrtc.nvrtcCompileProgram(program, len(words), words)[0]) == 0
    ptx = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    return int(re.search(r"mov\.[bu]32\s+%r\d+, (\d+);", ptx.decode())[1])


print("NVRTC", version("nvidia-cuda-nvrtc"))
texts = [f"#pragma once\n#define TILE {tile}\n" for tile in (16, 32, 128)]
found = {}
for name, options in {
    "memory": (),
    "a file": ("-I.",),
    "memory, -pch": ("-pch",),
    "a file, -pch": ("-I.", "-pch"),
}.items():
    found[name] = [compiled(text, *options) for text in texts]
    print(f"headers of 16, 32, 128 in {name}:", found[name])
other = compiled(texts[2], "-pch", "-DOTHER=1")
print("128 in memory, -pch and a macro that was not there before:", other)
assert found["memory"] == found["a file"] == [16, 32, 128], "without -pch, the header is read"
assert found["memory, -pch"] == found["a file, -pch"] == [16, 16, 16], "the behaviour has changed"
assert other == 128, "the behaviour has changed"
EOF
env/bin/python check.py
