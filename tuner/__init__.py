"""tuner: find, verify, store and launch the fastest configuration of a kernel.

    import tuner
    kernel = tuner.load("sgemm/07_tiled_1xn", 4096)
    kernel(C, A, B)

Importing it is fast: Kernel Tuner, Optuna, pydantic and YAML are only imported for tuning.
"""

import importlib
import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":  # before a module that Windows lacks, such as fcntl, says less
    raise ImportError("tuner needs Linux; on Windows, install it in WSL 2")

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
    OptionError,
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
    from tuner.families.loader import dispatch
    from tuner.families.matrices.matmul import matmul
    from tuner.judging.evaluation import evaluate
    from tuner.launch.frozen import freeze
    from tuner.launch.kernel import Kernel
    from tuner.launch.launcher import load
    from tuner.search.pool_gp_strategy import strategy
    from tuner.session.look_up import best
    from tuner.session.search import tune
    from tuner.session.tuned import Tuned
    from tuner.space.python.space import Space
    from tuner.torch.decorated import autotune
    from tuner.tuning.several.misses import warm_up

__version__ = VERSION
__all__ = [
    "ArgumentError", "BuildError", "DeviceError", "EnvironmentTrouble", "ExpressionError", "GeometryError", "Kernel",
    "LaunchError", "MisalignedArray", "NoConfiguration", "OptionError", "OutOfMemory", "RequestError", "ResourceError",
    "Space", "SpaceError", "TrialError", "Tuned", "TunerError", "WorkerDied", "WrongResult", "autotune",
    "best", "dispatch", "evaluate", "freeze", "load", "matmul", "strategy", "tune", "warm_up",
]  # fmt: skip


# Where the names are that are imported when they are first used.
_HOMES = {
    "Kernel": "tuner.launch.kernel",
    "Space": "tuner.space.python.space",
    "Tuned": "tuner.session.tuned",
    "autotune": "tuner.torch.decorated",
    "best": "tuner.session.look_up",
    "dispatch": "tuner.families.loader",
    "freeze": "tuner.launch.frozen",
    "evaluate": "tuner.judging.evaluation",
    "load": "tuner.launch.launcher",
    "matmul": "tuner.families.matrices.matmul",
    "strategy": "tuner.search.pool_gp_strategy",
    "tune": "tuner.session.search",
    "warm_up": "tuner.tuning.several.misses",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found = globals()[name] = getattr(
            importlib.import_module(_HOMES[name]), name
        )  # to look again takes microseconds
        return found
    if name == "torch":
        return importlib.import_module("tuner.torch")
    raise AttributeError(f"module 'tuner' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
