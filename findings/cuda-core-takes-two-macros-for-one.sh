#!/bin/sh
# `ProgramOptions(define_macro=("FAST", "TILE=32"))` of cuda.core defines one macro, FAST with the value TILE=32: a tuple of two texts is
# a name and a value. A list of the same texts is two macros, as are tuples of two for include_path, pre_include and undefine_macro.
# The kernel compiles, its `#ifdef FAST` is true, and TILE keeps its default; nothing is said. A tuple of three texts is an error.
# One would expect two macros, as in the neighbouring options, or an error, as for a number: `("TILE", 32)` is refused.
# Packages: cuda-core 1.2.2, cuda-bindings 13.5.0, nvidia-cuda-nvrtc 13.5.37, compiling for compute capability 9.0 without a GPU.
# A script that tunes TILE measures one kernel under all of its values.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'cuda-core==1.2.2' 'cuda-bindings==13.5.0' 'nvidia-cuda-nvrtc==13.5.37' \
    'numpy==2.4.6'
cat >check.py <<'EOF'
import re
from importlib.metadata import version

from cuda.core import Program, ProgramOptions

print(*(f"{name} {version(name)}" for name in ("cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc")))
SOURCE = r"""
#ifndef TILE
#define TILE 8
#endif
#define NAME_OF(tile) tile_##tile
#define NAME(tile) NAME_OF(tile)
#ifdef FAST
extern "C" __global__ void NAME(TILE)(int *y) { y[threadIdx.x] = TILE; }
#endif
"""


def tile(macros):
    built = Program(SOURCE, "c++", ProgramOptions(arch="sm_90", define_macro=macros)).compile("cubin")
    return int(re.search(rb"tile_(\d+)", built.code)[1])


found = {str(macros): tile(macros) for macros in (["FAST", "TILE=32"], ("FAST", "TILE=32"), ("FAST", "TILE=64"))}
for macros, value in found.items():
    print(f"define_macro={macros}: the kernel has a tile of {value}")
assert list(found.values()) == [32, 8, 8], "the behaviour has changed"
for macros in (("FAST", "TILE=32", "N=4"), ("TILE", 32)):
    try:
        tile(macros)
    except Exception as error:
        print(f"define_macro={macros}: {type(error).__name__}: {error}")
    else:
        raise SystemExit("the behaviour has changed")
EOF
env/bin/python check.py
