"""`tune --version --verbose`: what a bug report needs about this machine."""

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from tuner import devices, paths
from tuner.errors import DeviceError
from tuner.version import DISTRIBUTION, VERSION

# Distributions whose version changes what is measured, searched, compiled or carried to other machines.
_PACKAGES = (
    "kernel_tuner", "optuna", "numpy", "scipy", "click", "pydantic",
    "pyopencl", "pocl-binary-distribution", "pycuda", "cuda-bindings", "nvidia-cuda-nvrtc",
    "nvidia-cublas", "cupy-cuda13x", "torch", "triton", "distributed", "ray",
)  # fmt: skip


def report() -> str:
    """Versions, devices and folders, one a line. Of the environment only names are shown: a value may be a secret."""
    versions = {name: _version(name) for name in _PACKAGES}
    variables = sorted(name for name in os.environ if name.startswith(("TUNER_", "CUDA_", "POCL_")))
    lines = {
        "tuner": f"{VERSION}, in {_short(Path(__file__).parents[2])}",
        "python": f"{platform.python_version()}, {platform.platform()}, {os.cpu_count()} processors",
        "time tables": _tables(),
        "packages": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "not installed": ", ".join(name for name, version in versions.items() if not version),
        "store": _short(paths.user_results()),
        "state": _short(paths.state_folder()),
        "cache": _short(paths.cache_folder()),
        "variables set": ", ".join(variables) or "none of TUNER_*, CUDA_* and POCL_*",
    }
    return "\n".join([*(f"{key}: {value}" for key, value in lines.items()), *_devices()])


def _devices() -> Iterator[str]:
    for kind in devices.KINDS:
        try:
            if not (count := devices.count(kind)):
                yield f"{kind}: no device"
            for number in range(count):
                device = devices.open_device(f"{kind}:{number}")
                through = f", through {device.package}" if device.package else ""
                yield f"{device.id}: {device.name}, {device.architecture}{through}, {device.toolchain}"
                device.close()
        except DeviceError as error:
            yield f"{kind}: error: {error}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _tables() -> str:
    """Whether the second wheel, which has the time tables, is beside this one. A checkout has them itself."""
    number = sum(1 for _ in paths.shipped("results").rglob("*.times"))
    return f"{number} ship" if number else f"none; {DISTRIBUTION}-results {VERSION} has them"


def _short(path: Path) -> str:
    """The path with ~ for the user's home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
