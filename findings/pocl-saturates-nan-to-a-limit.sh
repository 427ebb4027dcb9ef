#!/bin/sh
# convert_int_sat of a NaN is -2147483648 in PoCL, convert_uint_sat 4294967295 and convert_long_sat the least long; convert_char_sat
# and convert_short_sat give 0. One would expect 0 of all: OpenCL C, 6.4.3.3, says that NaN should be converted to 0.
# Package: pocl-binary-distribution 3.0 (PoCL 3.0-rc2, the newest on PyPI; Debian's 3.1 gives 0), driven by pyopencl 2026.1.4.
# Kernels that quantise (image filters, 8-bit networks) pad with NaN: what is right here on a processor is wrong on a GPU, or the
# other way round, and the type of the output decides which.
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

KINDS = {"char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16}
KINDS |= {"int": np.int32, "uint": np.uint32, "long": np.int64}
EXPECTED = dict.fromkeys(KINDS, 0) | {"int": -(2**31), "uint": 2**32 - 1, "long": -(2**63)}

platforms = [platform for platform in cl.get_platforms() if "PoCL 3.0-rc2" in platform.version]
assert platforms, "PoCL of the wheel is not loaded"
device = platforms[0].get_devices()[0]
print("pocl-binary-distribution", version("pocl-binary-distribution"), "pyopencl", version("pyopencl"), device.version)
context = cl.Context([device])
queue = cl.CommandQueue(context)
values = np.array([np.nan, 1e30, 41.5], np.float32)
source = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
found = {}
for name, kind in KINDS.items():
    text = f"""
    __kernel void convert(__global {name} *results, __global const float *values) {{
        size_t i = get_global_id(0);
        results[i] = convert_{name}_sat(values[i]);
    }}"""
    kernel = cl.Kernel(cl.Program(context, text).build(cache_dir=False), "convert")
    results = np.ones(len(values), kind)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=results)
    kernel(queue, results.shape, None, buffer, source)
    cl.enqueue_copy(queue, results, buffer)
    found[name] = int(results[0])
    print(f"convert_{name}_sat of {values.tolist()}: {results.tolist()}")
    assert results[1] == np.iinfo(kind).max and results[2] == 41, "the behaviour has changed"
assert found == EXPECTED, "the behaviour has changed"
EOF
mkdir cache
POCL_CACHE_DIR=$folder/cache env/bin/python check.py
