"""Programs that tests run in a process of their own."""

from __future__ import annotations

HEAVY = ["kernel_tuner", "optuna", "pandas", "scipy", "sklearn", "matplotlib", "pydantic", "yaml", "rich", "click"]

LAUNCH = """
import sys
import numpy as np
import tuner
if {sealed}:
    def refuse(*args, **kwargs): raise AssertionError("it compiles")
    if {device!r} == "host":
        from tuner.devices.host.compiler import HostCompiler as Compiler
    else:
        from tuner.devices.opencl.compiler import OpenCLCompiler as Compiler
    Compiler.compile = refuse
kernel = tuner.load({kernel!r}, 64, device={device!r})
if {device!r} == "host":
    C, A, B = (np.ones((1, 64, 64), np.float32) for _ in "CAB")
    kernel(C, A, B)
else:
    from pyopencl import array
    C, A, B = (array.to_device(kernel.device.queue, np.ones((1, 64, 64), np.float32)) for _ in "CAB")
    kernel(C, A, B)
    C = C.get()
assert (C == 64).all()
print(sorted(set({heavy!r}) & set(sys.modules)))
"""
