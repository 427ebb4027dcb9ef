"""Kernels as PyTorch operators: `tuner.torch.operator`, which imports torch on first use."""

from typing import TYPE_CHECKING

from tuner.errors import RequestError

if TYPE_CHECKING:
    from tuner.torch.operators import operator

__all__ = ["operator"]


def __getattr__(name: str) -> object:
    if name == "operator":
        try:
            from tuner.torch.operators import operator
        except ModuleNotFoundError as missing:
            raise RequestError(f"tuner.torch needs {missing.name}, which is not installed; pip install torch") from None
        return operator
    raise AttributeError(f"module 'tuner.torch' has no attribute {name!r}")
