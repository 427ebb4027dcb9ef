#!/bin/sh
# PoCL's work-items do not see what one of them writes to a variable in local memory if all have set it to a constant
# before, although barriers are where OpenCL needs them. Without optimisation the result is right.
# One would expect that each of 64 work-items reads 7; 63 read 0.
# Package: pocl-binary-distribution 3.0 (PoCL 3.0-rc2; Debian's 3.1 does the same), driven by pyopencl 2026.1.4.
# Found in the scan of the SHOC benchmarks. A tuner that does not verify would store times of wrong results; one that does
# calls a correct kernel wrong.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pocl-binary-distribution==3.0' 'pyopencl==2026.1.4' \
    'numpy==2.4.6' 'siphash24==1.9'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
import pyopencl as cl

platforms = [platform for platform in cl.get_platforms() if "PoCL 3.0-rc2" in platform.version]
assert platforms, "PoCL of the wheel is not loaded"
device = platforms[0].get_devices()[0]
print("pocl-binary-distribution", version("pocl-binary-distribution"), "pyopencl", version("pyopencl"), device.version)
context = cl.Context([device])
queue = cl.CommandQueue(context)
text = """
__kernel void share(__global int *seen) {
    __local int last;
    last = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == get_local_size(0) - 1) last = 7;
    barrier(CLK_LOCAL_MEM_FENCE);
    seen[get_global_id(0)] = last;
}
"""
found = {}
for option in ("", "-cl-opt-disable"):
    kernel = cl.Kernel(cl.Program(context, text).build([option] if option else [], cache_dir=False), "share")
    seen = np.full(64, -1, dtype=np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=seen)
    kernel(queue, (64,), (64,), buffer)
    cl.enqueue_copy(queue, seen, buffer)
    found[option] = seen
    print(f"{option or 'default':16} the 64 work-items read {sorted({*seen.tolist()})}, {(seen == 7).sum()} of them 7")
assert (found["-cl-opt-disable"] == 7).all() and (found[""] != 7).sum() == 63, "the behaviour has changed"
EOF
mkdir cache
POCL_CACHE_DIR=$folder/cache env/bin/python check.py
