#!/bin/sh
# What `@triton.autotune(cache_results=True)` keeps on disk serves every GPU of the same compute capability: an H20, which has
# half of an H100's multiprocessors, takes the H100's winner and measures nothing.
# One would expect that the key names the GPU, because times are of a GPU, not of an instruction set.
# Package: triton 3.6.0, runtime/autotuner.py, whose key has the architecture. A stand-in of the driver replaces the GPU.
# Nodes with different GPUs share caches, in home folders and in images.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
import sys
from importlib.metadata import version

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver


class Driver:
    """Stands for a GPU of compute capability 9.0, and writes down what Triton asks of it."""

    def __init__(self, name):
        self.name, self.asked = name, set()

    def __getattribute__(self, question):
        answers = {"get_current_target": GPUTarget("cuda", 90, 32), "get_current_device": 0, "get_current_stream": 0,
                   "get_device_properties": {"name": object.__getattribute__(self, "name")}}
        if question not in answers:
            return object.__getattribute__(self, question)
        self.asked.add(question)
        return lambda *device: answers[question]


class Array:
    dtype = "fp32"

    def data_ptr(self):
        return 1 << 20


measured = []


def measure(call, quantiles):
    measured.append(call)
    return [1 / len(measured)] * len(quantiles)


@triton.autotune([triton.Config({"block": 64}), triton.Config({"block": 128})], ["n"], do_bench=measure, cache_results=True)
@triton.jit
def copy(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


gpu = Driver(sys.argv[1])
driver.set_active(gpu)
copy.run(Array(), Array(), 4096, grid=(64,), warmup=True)
print(f"triton {version('triton')}, {gpu.name}: {len(measured)} of 2 configurations measured; asked {sorted(gpu.asked)}")
assert len(measured) == int(sys.argv[2]), "the behaviour has changed"
EOF
export TRITON_CACHE_DIR="$folder/cache"
env/bin/python check.py "NVIDIA H100 80GB HBM3" 2
env/bin/python check.py "NVIDIA H20" 0
