#!/bin/sh
# `__launch_bounds__(512, 5)` asks NVRTC for 5 blocks of 512 threads per multiprocessor, which has room for 4 (2,048 threads). The compiler
# drops the request, and the kernel gets its registers as if one block had been asked for: with 1, 2, 3, 4 and 5 blocks, a kernel has
# 106, 64, 40, 32 and 106. A warning stands in the log, which tuners and PyCUDA drop when the build succeeds.
# One would expect an error, or the limit for 4 blocks.
# Package: nvidia-cuda-nvrtc 13.0.88 through cuda-bindings 13.0.3, for compute capability 9.0 without a GPU; registers as ptxas reports them.
# The blocks are a usual parameter beside the threads: the last configurations of each row are the first one again, under another name.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'nvidia-cuda-nvrtc==13.0.88' 'cuda-bindings==13.0.3'
cat >check.py <<'EOF'
import re
from importlib.metadata import version

from cuda.bindings import nvrtc

print(*(f"{name} {version(name)}" for name in ("nvidia-cuda-nvrtc", "cuda-bindings")))
KERNEL = """
extern "C" __global__ void __launch_bounds__(512, BLOCKS) k(float *y, const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float t[96], sum = 0;
    for (int j = 0; j < 96; j++) t[j] = x[i * 96 + j];
    for (int r = 0; r < n; r++)
        for (int j = 0; j < 96; j++) t[j] = t[j] * t[(j + 17) % 96] + x[r];
    for (int j = 0; j < 96; j++) sum += t[j];
    y[i] = sum;
}
"""


def built(blocks):
    """The registers of the kernel, and the warnings about it."""
    _, program = nvrtc.nvrtcCreateProgram(KERNEL.encode(), b"k.cu", 0, [], [])
    options = [b"--gpu-architecture=sm_90", b"-Xptxas=-v", f"-DBLOCKS={blocks}".encode()]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    text = log.decode()
    return int(re.search(r"Used (\d+) registers", text)[1]), re.findall(r"warning\W+(.*)", text)


found = {blocks: built(blocks) for blocks in range(1, 7)}
for blocks, (registers, warnings) in found.items():
    resident = min(2048 // 512, 65536 // (512 * -(-registers // 8) * 8))
    print(f"{blocks} blocks asked for: {registers} registers, so {resident} fit", *warnings)
assert found[4][0] == 32 and not found[4][1], "the behaviour has changed"
assert found[5] == found[6] and found[5][0] > found[1][0] - 8 and "ignored" in found[5][1][0], "the behaviour has changed"
EOF
env/bin/python check.py
