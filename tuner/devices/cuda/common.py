"""What NVRTC and nvcc have in common."""

from abc import abstractmethod

from tuner.devices.builds.compiler import Compiler
from tuner.devices.cuda import BACKEND

STANDARD = "--std=c++17"
VERBOSE = "--ptxas-options=-v"


class CudaCompiler(Compiler):
    """Compiles CUDA C++ to a cubin for one architecture, such as sm_90a."""

    kind = BACKEND.kind
    portable = True
    tells: tuple[str, ...] = ("registers", "shared_memory")

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    @property
    @abstractmethod
    def toolchain(self) -> str:
        """Its name and version. Raises DeviceError if it is missing."""

    def chosen(self, compiler: str) -> "CudaCompiler":
        return self
