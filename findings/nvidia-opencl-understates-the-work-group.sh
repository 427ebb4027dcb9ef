#!/bin/sh
# NVIDIA's OpenCL says of each kernel that a work-group may have 256 work-items (CL_KERNEL_WORK_GROUP_SIZE), also of one that
# requires 512 by an attribute, and runs groups of 512 and 1,024. By OpenCL's specification, a launch above that number fails.
# Package: pyopencl 2026.1.4. Seen with driver 580.159.04 (OpenCL 3.0 CUDA 13.0) on an H200, in November 2026.
# A tuner that believes the number loses all configurations with larger blocks, and with them the best. Needs an NVIDIA GPU.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pyopencl==2026.1.4' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

import numpy as np
import pyopencl as cl

platforms = [platform for platform in cl.get_platforms() if platform.vendor.startswith("NVIDIA")]
assert platforms, "this machine has no OpenCL driver of NVIDIA, so nothing can be shown"
device = platforms[0].get_devices()[0]
print("pyopencl", version("pyopencl"), device.name, device.platform.version, "driver", device.driver_version)
context = cl.Context([device])
queue = cl.CommandQueue(context)
data = np.arange(1024, dtype=np.float32)
for size, attribute in ((512, "__attribute__((reqd_work_group_size(512, 1, 1)))"), (1024, "")):
    text = f"__kernel {attribute} void twice(__global float *x) {{ x[get_global_id(0)] *= 2; }}"
    kernel = cl.Kernel(cl.Program(context, text).build(cache_dir=False), "twice")
    most = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory, result = cl.Buffer(context, flags, hostbuf=data), np.empty_like(data)
    kernel.set_args(memory)
    cl.enqueue_nd_range_kernel(queue, kernel, (1024,), (size,))
    cl.enqueue_copy(queue, result, memory)
    print(f"{attribute or 'no attribute'}: says {most}; a group of {size} is right: {np.array_equal(result, 2 * data)}")
    assert most == 256
    assert np.array_equal(result, 2 * data)
EOF
env/bin/python check.py
