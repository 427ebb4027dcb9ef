"""Time from the start of `python` to a first result with a warm cache, beside the start of the device library alone.

    python benchmarks/first_launch.py --device cuda

Each time is that of a new interpreter, from start to exit. The programs alternate.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from statistics import quantiles

from tuner.devices.cuda import chosen_gpu

CONTEXT = {
    "cuda-bindings": """
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(NUMBER)[1])[1])
driver.cuMemGetInfo()
""",
    "pycuda": """
import pycuda.driver as driver
driver.init()
context = driver.Device(NUMBER).retain_primary_context()
context.push()
driver.mem_get_info()
context.pop()
""",
    "opencl": """
import pyopencl as cl
queue = cl.CommandQueue(cl.Context([[d for p in cl.get_platforms() for d in p.get_devices()][NUMBER]]))
""",
    "host": "import numpy",
}
ARRAYS = {
    "cuda-bindings": """
import numpy as np
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(NUMBER)[1])[1])
values = np.ones((1, 64, 64), np.float32)
C, A, B = (driver.cuMemAlloc(values.nbytes)[1] for _ in "CAB")
for array in (C, A, B):
    driver.cuMemcpyHtoD(array, values.ctypes.data, values.nbytes)
driver.cuMemcpyDtoH(values.ctypes.data, C, values.nbytes)
for array in (C, A, B):
    driver.cuMemFree(array)
""",
    "pycuda": """
import numpy as np
import pycuda.driver as driver
from pycuda import gpuarray
driver.init()
context = driver.Device(NUMBER).retain_primary_context()
context.push()
C, A, B = (gpuarray.to_gpu(np.ones((1, 64, 64), np.float32)) for _ in "CAB")
C.get()
del C, A, B
context.pop()
""",
    "opencl": """
import numpy as np
import pyopencl as cl
from pyopencl import array
queue = cl.CommandQueue(cl.Context([[d for p in cl.get_platforms() for d in p.get_devices()][NUMBER]]))
C, A, B = (array.to_device(queue, np.ones((1, 64, 64), np.float32)) for _ in "CAB")
C.get()
""",
    "host": """
import numpy as np
C, A, B = (np.ones((1, 64, 64), np.float32) for _ in "CAB")
""",
}
LAUNCH = {
    "cuda-bindings": """
import tuner
kernel = tuner.load("sgemm/07_tiled_1xn", 64, device="cuda:NUMBER")
import numpy as np
class Array:
    def __init__(self):
        self.memory = kernel.device.upload(np.ones((1, 64, 64), np.float32))
        place = (self.memory.handle, False)
        self.__cuda_array_interface__ = {"shape": (1, 64, 64), "typestr": "<f4", "data": place, "version": 3}
C, A, B = (Array() for _ in "CAB")
kernel(C, A, B)
values = np.empty((1, 64, 64), np.float32)
kernel.device.read(C.memory.handle, values)
assert (values == 64).all()
""",
    "pycuda": """
import tuner
kernel = tuner.load("sgemm/07_tiled_1xn", 64, device="cuda:NUMBER")
import numpy as np
from pycuda import gpuarray
C, A, B = (gpuarray.to_gpu(np.ones((1, 64, 64), np.float32)) for _ in "CAB")
kernel(C, A, B)
assert (C.get() == 64).all()
""",
    "opencl": """
import tuner
kernel = tuner.load("sgemm/03_naive", 64, device="opencl:NUMBER")
import numpy as np
from pyopencl import array
C, A, B = (array.to_device(kernel.device.queue, np.ones((1, 64, 64), np.float32)) for _ in "CAB")
kernel(C, A, B)
assert (C.get() == 64).all()
""",
    "host": """
import tuner
kernel = tuner.load("sgemm/01_host_blocked", 64, device="host")
import numpy as np
C, A, B = (np.ones((1, 64, 64), np.float32) for _ in "CAB")
kernel(C, A, B)
assert (C == 64).all()
""",
}


def milliseconds(program: str) -> float:
    """Time of an interpreter that runs `program`. It may cache the byte code of its imports."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, env=environment)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    kind, _, number = options.device.partition(":")
    library = chosen_gpu.chosen().package if kind == "cuda" else kind
    programs = {
        "the device library, and a context": CONTEXT[library],
        "the same, with arrays there and back": ARRAYS[library],
        "from `python` to a first result of ours": LAUNCH[library],
    }
    programs = {name: text.replace("NUMBER", number or "0") for name, text in programs.items()}
    for program in programs.values():
        milliseconds(program)  # fills the caches
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, program in programs.items():
            times[name].append(milliseconds(program))
    quartiles = {name: quantiles(values, n=4) for name, values in times.items()}
    first = next(iter(quartiles.values()))[1]
    print(f"{options.device}, {library}, {options.rounds} rounds\n")
    print("| an interpreter that does | ms, median | quartiles | over the first |\n|---|---|---|---|")
    for name, (low, median, high) in quartiles.items():
        print(f"| {name} | {median:.0f} | {low:.0f} to {high:.0f} | {median - first:.0f} |")


if __name__ == "__main__":
    main()
