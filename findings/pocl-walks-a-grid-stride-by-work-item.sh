#!/bin/sh
# PoCL on a processor runs a loop by the size of the grid, the usual form for GPUs, up to 100 times as slowly as the
# same work with a row of neighbours for each work-item: it runs the loop of one work-item to its end, in steps of the
# grid, before the next begins, so neighbours are read far apart in time.
# One would expect neighbouring work-items to take each pass together, as in kernels without a loop.
# Package: pocl-binary-distribution 3.0 (PoCL 3.0-rc2), driven by pyopencl 2026.1.4. Debian's 3.1 does it, too.
# A tuner that times such kernels on PoCL ranks grids and elements per work-item by this, which no GPU shows.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pocl-binary-distribution==3.0' 'pyopencl==2026.1.4' \
    'numpy==2.4.6' 'siphash24==1.9'
cat >check.py <<'EOF'
import time
from importlib.metadata import version

import numpy as np
import pyopencl as cl

platforms = [platform for platform in cl.get_platforms() if "PoCL 3.0-rc2" in platform.version]
assert platforms, "PoCL of the wheel is not loaded"
device = platforms[0].get_devices()[0]
print("pocl-binary-distribution", version("pocl-binary-distribution"), "pyopencl", version("pyopencl"), device.version)
context = cl.Context([device])
queue = cl.CommandQueue(context)
COUNT, ITEMS = 1 << 20, 1 << 14
TEXT = """
__kernel void hashed(__global uint *out, __global const uint *in, int n) {
    %s {
        uint bits = in[i];
        bits = (bits ^ bits >> 16) * 0x85ebca6bu;
        bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
        out[i] = bits ^ bits >> 16;
    }
}"""
LOOPS = {
    "by the size of the grid": "for (int i = get_global_id(0); i < n; i += get_global_size(0))",
    "in a row": "const int each = n / get_global_size(0), from = get_global_id(0) * each;\n"
    "    for (int i = from; i < from + each; i++)",
}
values = np.random.default_rng(1).integers(0, 2**32, COUNT, dtype=np.uint32)
flags = cl.mem_flags
given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=values)
found, results = {}, []
for name, loop in LOOPS.items():
    out = cl.Buffer(context, flags.WRITE_ONLY, values.nbytes)
    kernel = cl.Kernel(cl.Program(context, TEXT % loop).build(cache_dir=False), "hashed")
    kernel.set_args(out, given, np.int32(COUNT))
    times = []
    for _ in range(100):
        began = time.perf_counter()
        cl.enqueue_nd_range_kernel(queue, kernel, (ITEMS,), (64,)).wait()
        times.append(1e3 * (time.perf_counter() - began))
    found[name] = min(times)
    result = np.empty_like(values)
    cl.enqueue_copy(queue, result, out)
    results.append(result)
    print(f"{name}: {found[name]:.2f} ms")
assert (results[0] == results[1]).all()
ratio = found["by the size of the grid"] / found["in a row"]
print(f"ratio {ratio:.1f}")
assert ratio > 3, "the behaviour has changed"
EOF
POCL_CACHE_DIR=$folder/cache env/bin/python check.py
