#!/bin/sh
# CuPy runs the old code after a header is edited: `RawModule(code='#include "tile.h" ...', options=("-I.",))` returns the binary with the
# former TILE, in the same process and in each new one, until ~/.cupy/kernel_cache is deleted. The cache's key has the text of the code,
# the options, CuPy's own headers and the compiler, but not what the code includes.
# One would expect the key to cover the headers, as PyCUDA's and PyOpenCL's caches do, or that NVRTC compiles what is included.
# Package: cupy-cuda13x 14.2.0, cuda/compiler.py. Seen on an H200 with RawModule, in November 2026. Without a GPU, this script puts a
# stand-in in the place of the driver, and reads the name of the kernel in the binary that the driver would get.
# A tuner that writes its parameters to a header measures one configuration under all names, and an edited kernel keeps its old time.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'cupy-cuda13x==14.2.0' 'numpy==2.4.6' 'nvidia-cuda-nvrtc==13.0.88' \
    'nvidia-cuda-runtime==13.0.96'
cat >load.py <<'EOF'
import re
import types

import cupy
from cupy.cuda import compiler


class Module:
    """Takes binaries in the place of the driver."""

    def load(self, binary):
        print("the driver gets", re.search(rb"tile_\d+", binary)[0].decode())

    def _set_mapping(self, mapping):
        pass


compiler.function = types.SimpleNamespace(Module=Module)
compiler._get_arch_for_options_for_nvrtc = lambda arch=None: ("-arch=sm_90", "cubin")  # asks the driver
SOURCE = """
#include "tile.h"
#define NAME_OF(tile) tile_##tile
#define NAME(tile) NAME_OF(tile)
extern "C" __global__ void NAME(TILE)(int *y) { y[threadIdx.x] = TILE; }
"""
print("cupy", cupy.__version__, end=": ")
compiler._compile_with_cache_cuda(SOURCE, ("-I.",), "90")
EOF
export CUPY_CACHE_DIR="$folder/cache"
for tile in 16 32; do
    echo "#define TILE $tile" >tile.h
    echo "tile.h has TILE $tile; $(env/bin/python load.py)" | tee "seen_$tile"
done
rm -r cache
echo "the cache is deleted; $(env/bin/python load.py)" | tee seen_anew
grep -q 'tile_16$' seen_16 && grep -q 'tile_32$' seen_anew
grep -q 'tile_16$' seen_32 || { echo "the behaviour has changed" && exit 1; }
