"""tuner: find, verify, store and launch the fastest configuration of a kernel.

    import tuner
    kernel = tuner.load("sgemm/07_tiled_1xn", 4096)
    kernel(C, A, B)

Importing it is fast: Kernel Tuner, Optuna, pydantic and YAML are only imported for tuning.
"""

import importlib
from typing import TYPE_CHECKING

from tuner.errors import (
    ArgumentError,
    BuildError,
    DeviceError,
    EnvironmentTrouble,
    ExpressionError,
    GeometryError,
    LaunchError,
    MisalignedArray,
    NoConfiguration,
    OutOfMemory,
    RequestError,
    ResourceError,
    SpaceError,
    TrialError,
    TunerError,
    WorkerDied,
    WrongResult,
)
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner import torch as torch
    from tuner.families.dispatcher import dispatch
    from tuner.families.matrices.matmul import matmul
    from tuner.launch.kernel import Kernel
    from tuner.launch.launcher import load
    from tuner.search.pool_gp_strategy import strategy
    from tuner.space.python.space import Space
    from tuner.tuning.several.misses import warm_up

__version__ = VERSION
__all__ = [
    "ArgumentError", "BuildError", "DeviceError", "EnvironmentTrouble", "ExpressionError", "GeometryError", "Kernel",
    "LaunchError", "MisalignedArray", "NoConfiguration", "OutOfMemory", "RequestError", "ResourceError", "Space",
    "SpaceError", "TrialError", "TunerError", "WorkerDied", "WrongResult", "dispatch", "load", "matmul", "strategy",
    "warm_up",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name == "Kernel":
        from tuner.launch.kernel import Kernel

        return Kernel
    if name == "load":
        from tuner.launch.launcher import load

        return load
    if name == "Space":
        from tuner.space.python.space import Space

        return Space
    if name == "dispatch":
        from tuner.families.dispatcher import dispatch

        return dispatch
    if name == "matmul":
        from tuner.families.matrices.matmul import matmul

        return matmul
    if name == "strategy":
        from tuner.search.pool_gp_strategy import strategy

        return strategy
    if name == "torch":
        return importlib.import_module("tuner.torch")
    if name == "warm_up":
        from tuner.tuning.several.misses import warm_up

        return warm_up
    raise AttributeError(f"module 'tuner' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
