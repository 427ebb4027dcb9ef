#!/bin/sh
# cuda.core's program cache returns the old binary after a header in the current folder is edited. NVRTC finds `#include "tile.h"` there
# without an option, and the cache's key has the code and the options alone. Where an option names the folder, `include_path`, the cache
# refuses: "it requires an extra_digest". FileStreamProgramCache keeps the old binary for all later processes.
# One would expect the refusal in both cases, or a key of what was included.
# Packages: cuda-core 1.2.2, cuda-bindings 13.5.0, nvidia-cuda-nvrtc 13.5.37, compiling for compute capability 9.0 without a GPU.
# A tuner that writes its parameters to a header beside the kernel measures one configuration under all names; -D options are in the key.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'cuda-core==1.2.2' 'cuda-bindings==13.5.0' 'nvidia-cuda-nvrtc==13.5.37' \
    'numpy==2.4.6'
cat >check.py <<'EOF'
import re
import sys
from importlib.metadata import version

from cuda.core import Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache

SOURCE = """
#include "tile.h"
#define NAME_OF(tile) tile_##tile
#define NAME(tile) NAME_OF(tile)
extern "C" __global__ void NAME(TILE)(int *y) { y[threadIdx.x] = TILE; }
"""
cached, *folders = sys.argv[1:]
options = ProgramOptions(arch="sm_90", include_path=folders or None)
cache = FileStreamProgramCache("cache") if cached == "cached" else None
try:
    built = Program(SOURCE, "c++", options).compile("cubin", cache=cache)
    print("cuda-core", version("cuda-core"), cached, "built", re.search(rb"tile_\d+", bytes(built.code))[0].decode())
except ValueError as error:
    print("ValueError:", error)
EOF
for tile in 16 32; do
    echo "#define TILE $tile" >tile.h
    for cached in fresh cached; do
        echo "tile.h has TILE $tile: $(env/bin/python check.py $cached)" | tee "seen_${cached}_$tile"
    done
done
echo "with include_path: $(env/bin/python check.py cached .)" | tee seen_path
grep -q 'tile_16$' seen_cached_16 && grep -q 'tile_32$' seen_fresh_32
grep -q 'tile_16$' seen_cached_32 && grep -q extra_digest seen_path || { echo "the behaviour has changed" && exit 1; }
