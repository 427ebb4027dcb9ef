"""The door for scripts of Kernel Tuner: its `tune_kernel` and `run_kernel`, done by `tuner`.

    from tuner.door import tune_kernel, run_kernel

`python -m tuner.door script.py` runs a script whose `kernel_tuner` has these two in place of its own.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.door.single_run import run_kernel
    from tuner.door.tuning import tune_kernel

__all__ = ["run_kernel", "tune_kernel"]


def __getattr__(name: str) -> object:
    if name == "tune_kernel":
        from tuner.door.tuning import tune_kernel

        return tune_kernel
    if name == "run_kernel":
        from tuner.door.single_run import run_kernel

        return run_kernel
    raise AttributeError(f"module 'tuner.door' has no attribute {name!r}")
