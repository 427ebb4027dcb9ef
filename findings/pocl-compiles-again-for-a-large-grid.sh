#!/bin/sh
# PoCL compiles a kernel a second time when a grid has 65,535 work-items on an axis: smaller grids run other code.
# One would expect that a kernel is compiled once for each shape of the work-group.
# Package: pocl-binary-distribution 3.0 (PoCL 3.0-rc2; Debian's 3.1 does the same), driven by pyopencl 2026.1.4.
# A tuner that warms a kernel with a small grid compiles again in the first timed launch, and times other machine code.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pocl-binary-distribution==3.0' 'pyopencl==2026.1.4' \
    'numpy==2.4.6' 'siphash24==1.9'
cat >check.py <<'EOF'
from pathlib import Path
from importlib.metadata import version

import pyopencl as cl

platforms = [platform for platform in cl.get_platforms() if "PoCL 3.0-rc2" in platform.version]
assert platforms, "PoCL of the wheel is not loaded"
device = platforms[0].get_devices()[0]
print("pocl-binary-distribution", version("pocl-binary-distribution"), "pyopencl", version("pyopencl"), device.version)
context = cl.Context([device])
queue = cl.CommandQueue(context)
text = "__kernel void mark(__global int *marks) { marks[get_global_id(0)] = 1; }"
kernel = cl.Kernel(cl.Program(context, text).build(cache_dir=False), "mark")
marks = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 << 20)
kernel.set_args(marks)
found = {}
for size in (64, 65_472, 65_536, 1_048_576):
    cl.enqueue_nd_range_kernel(queue, kernel, (size,), (64,)).wait()
    found[size] = sorted(code.parent.name for code in Path("cache").glob("**/mark.so"))
    print(f"after a grid of {size} work-items: {len(found[size])} compiled, {', '.join(found[size])}")
counts = [len(names) for names in found.values()]
assert counts == [1, 1, 2, 2], "the behaviour has changed"
EOF
mkdir cache
POCL_CACHE_DIR=$folder/cache env/bin/python check.py
