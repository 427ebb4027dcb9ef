#!/bin/sh
# A matmul that is compiled from the types of its arguments alone is the same for `num_stages` of 1 to 4, and has not one
# asynchronous copy. With addresses and sizes declared divisible by 16, as a launch finds them, the stages appear.
# One would expect that an option of the pipeline changes the pipeline, or that the compiler says why it does not.
# Package: triton 3.6.0, compiling for compute capability 9.0 without a GPU.
# A tuner that compiles ahead from a signature compares configurations that are one and the same kernel.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
from importlib.metadata import version

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TILE = 64


@triton.jit
def product(a, b, c, m, n, k, tile: tl.constexpr):
    rows = tl.program_id(0) * tile + tl.arange(0, tile)
    columns = tl.program_id(1) * tile + tl.arange(0, tile)
    depths = tl.arange(0, tile)
    total = tl.zeros((tile, tile), tl.float32)
    for depth in range(0, k, tile):
        left = tl.load(a + rows[:, None] * k + (depth + depths)[None, :])
        right = tl.load(b + (depth + depths)[:, None] * n + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


types = {**dict.fromkeys("abc", "*fp16"), **dict.fromkeys("mnk", "i32"), "tile": "constexpr"}
aligned = {(position,): [["tt.divisibility", 16]] for position in range(6)}
print("triton", version("triton"))
found = {}
for name, facts in (("types alone", {}), ("divisible by 16", aligned)):
    found[name] = []
    for stages in (1, 2, 3, 4):
        source = ASTSource(product, types, {"tile": TILE}, facts)
        built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_stages": stages, "num_warps": 4})
        found[name].append((built.metadata.shared, built.asm["ptx"].count("cp.async")))
    print(f"{name}: bytes of shared memory, asynchronous copies: {found[name]}")
assert len(set(found["types alone"])) == 1, "the behaviour has changed"
assert [shared for shared, _ in found["divisible by 16"]] == [16384, 32768, 49152, 65536], "the behaviour has changed"
EOF
TRITON_CACHE_DIR=$folder/cache env/bin/python check.py
