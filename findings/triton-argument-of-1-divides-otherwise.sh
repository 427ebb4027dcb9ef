#!/bin/sh
# The argument n = 1 changes the arithmetic of a Triton kernel: `(n - 2) // 2` is -1, and `(n - 3) % 3` is 1; compiled for any n, the same
# lines give 0 and -2. `n.to(tl.float32)` compiles for each n but 1. Triton replaces an integer argument that is 1 by the number; what
# Python computes of numbers is rounded down, what the GPU computes is rounded towards zero.
# One would expect that a special case is faster, not different: Triton's page on semantics has C's rule for integers and Python's for
# constants, but nothing in the kernel says that n is a constant.
# Package: triton 3.6.0, compiling for compute capability 9.0 without a GPU. A kernel that is tuned and tested at n = 1000 is another
# one for a single row, batch or head; `do_not_specialize=["n"]` keeps it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'triton==3.6.0'
cat >check.py <<'EOF'
import math
import re
from importlib.metadata import version

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def divide(result, n):
    tl.store(result, (n - 2) // 2)


@triton.jit
def remainder(result, n):
    tl.store(result, (n - 3) % 3)


@triton.jit
def convert(result, n):
    tl.store(result, n.to(tl.float32).to(tl.int32))


def built(kernel, n):
    """The kernel for any n, or for the n that is a constant, as a launch with n = 1 asks for it."""
    constants = {} if n is None else {"n": n}
    signature = {"result": "*i32", "n": "i32" if n is None else "constexpr"}
    source = ASTSource(kernel, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"]


def constant(kernel):
    return int(re.search(r"tt\.store \S+ %c(-?\d+)_i32", built(kernel, 1))[1])


print("triton", version("triton"))
launched = triton.runtime.jit.native_specialize_impl
special = {n: launched(triton.backends.backends["nvidia"].compiler, n, False, True, True) for n in (1, 2, 1000)}
print("how a launch takes n:", special)
assert special[1][0] == "constexpr" and special[1000][0] == "i32", "the behaviour has changed"
general = [operation in built(kernel, None) for operation, kernel in (("divsi", divide), ("remsi", remainder))]
print("any n: divsi and remsi, which round towards zero; n = 1 would give", int((1 - 2) / 2), "and", int(math.fmod(1 - 3, 3)))
found = [constant(kernel) for kernel in (divide, remainder)]
print("compiled for n = 1: the constants", *found)
assert general == [True, True] and found == [-1, 1], "the behaviour has changed"
assert "sitofp" in built(convert, None)
try:
    built(convert, 1)
except Exception as error:
    print("n.to(tl.float32) of n = 1:", str(error).splitlines()[-1])
    assert "has no attribute 'to'" in str(error), "the behaviour has changed"
else:
    raise SystemExit("the behaviour has changed")
EOF
env/bin/python check.py
