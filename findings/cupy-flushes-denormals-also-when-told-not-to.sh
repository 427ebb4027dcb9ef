#!/bin/sh
# CuPy compiles each RawKernel with -ftz=true, so float32 numbers below 1.2e-38 are zero in it; NVRTC, nvcc, PyCUDA and cuda.core keep them.
# `options=("-ftz=false",)` does not help: CuPy's own option comes later. NVRTC says so in a log that is shown only with `log_stream`.
# One would expect CUDA's default, or at least the user's own option. Open since January 2026 as issue 9576 of cupy/cupy.
# Package: cupy-cuda13x 14.2.0, cuda/compiler.py, with nvidia-cuda-nvrtc 13.0.88. Without a GPU, a stand-in takes the PTX that the driver
# would get.
# The same kernel is other machine code in CuPy: a tuner that measures with NVRTC times divisions and square roots that CuPy does not run,
# and kernels and references that need small numbers (probabilities, fade-outs) differ.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'cupy-cuda13x==14.2.0' 'numpy==2.4.6' 'nvidia-cuda-nvrtc==13.0.88' \
    'nvidia-cuda-runtime==13.0.96'
cat >check.py <<'EOF'
import os
import re
import tempfile
import types

import cupy
from cupy.cuda import compiler, nvrtc

os.environ["CUPY_CACHE_DIR"] = tempfile.mkdtemp()
SOURCE = 'extern "C" __global__ void k(float *y, float a, float b) { y[0] = a * b; y[1] = a / b; }'
ARCHITECTURE = "-arch=compute_90"


class Module:
    """Takes PTX in the place of the driver."""

    ptx = ""

    def load(self, ptx):
        Module.ptx = ptx.decode() if isinstance(ptx, bytes) else ptx

    def _set_mapping(self, mapping):
        pass


def instructions(ptx):
    return re.findall(r"\t((?:mul|div)\S*)", ptx)


def of_cupy(*options):
    compiler._compile_with_cache_cuda(SOURCE, options, "90")
    return instructions(Module.ptx)


def of_nvrtc():
    program = nvrtc.createProgram(SOURCE, "k.cu", [], [])
    nvrtc.compileProgram(program, [ARCHITECTURE])
    ptx = nvrtc.getPTX(program)
    return instructions(ptx.decode() if isinstance(ptx, bytes) else ptx)


compiler.function = types.SimpleNamespace(Module=Module)
compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (ARCHITECTURE, "ptx")  # asks the driver
print("cupy", cupy.__version__, "NVRTC", nvrtc.getVersion())
found = {"NVRTC": of_nvrtc(), "CuPy": of_cupy(), "CuPy, -ftz=false": of_cupy("-ftz=false")}
for name, names in found.items():
    print(f"{name}:", *names)
assert found["NVRTC"] == ["mul.f32", "div.rn.f32"], "the behaviour has changed"
assert found["CuPy"] == found["CuPy, -ftz=false"] == ["mul.ftz.f32", "div.rn.ftz.f32"], "the behaviour has changed"
EOF
env/bin/python check.py
