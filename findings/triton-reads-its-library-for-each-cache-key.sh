#!/bin/sh
# The first kernel of each process makes Triton read and hash its whole library, 400 MB, for the keys of its cache, also
# when TRITON_ALWAYS_COMPILE says that the cache is not used. It takes several times as long as compiling a small kernel.
# One would expect the version, or the library's size and date, to name it.
# Package: triton 3.6.0, compiling for compute capability 9.0 without a GPU.
# A tuner that compiles each configuration in a process or a fork of its own pays this once for each.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
import resource
from importlib.metadata import version
from pathlib import Path
from time import process_time

import triton
import triton.compiler.code_generator
import triton.experimental.gluon
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def seconds(block):
    """The CPU time of this process and of ptxas."""
    began = process_time() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    source = ASTSource(scale, {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": block})
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return process_time() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began


library = next(Path(triton.__file__).parent.glob("_C/libtriton*.so"))
print("triton", version("triton"), "with a library of", library.stat().st_size >> 20, "MB")
first, second, third = seconds(128), seconds(256), seconds(512)
print(f"CPU time of three kernels in one process: {first:.2f}, {second:.2f} and {third:.2f} s")
began = process_time()
triton.runtime.cache.triton_key.__wrapped__()
key = process_time() - began
print(f"CPU time of the key alone: {key:.2f} s")
assert first > second + key / 2, "the behaviour has changed"
assert key > second, "the behaviour has changed"
EOF
TRITON_ALWAYS_COMPILE=1 TRITON_CACHE_DIR=$folder/cache env/bin/python check.py
