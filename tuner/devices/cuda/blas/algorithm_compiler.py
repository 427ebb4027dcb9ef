"""The compiler of kernels that are algorithms of cuBLASLt (`compiler: cublaslt`), which reads a source, no more.

cuBLASLt offers algorithms for a product in an order of its own, which is another for each product, device and version.
A configuration is a number in that order. What the number stands for is asked when the kernel is launched.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict

from tuner.classes import dataclass
from tuner.devices.builds.build import Build
from tuner.devices.cuda.blas import cublas_tiles, gemm
from tuner.devices.cuda.common import CudaCompiler
from tuner.errors import BuildError, DeviceError
from tuner.space import dtypes
from tuner.space.sources.source import Source

ARRAYS, FACTORS = ("C", "A", "B"), ("alpha", "beta")
PARAMETERS = (*ARRAYS, "workspace", "M", "N", "K", "batch", *FACTORS)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S+)", re.MULTILINE)
_KERNEL = re.compile(r"(?:\bKERNEL|__global__)\s+void\s+\w+\s*\(([^)]*)\)")
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict)\b")
_PARAMETER = re.compile(r"(\w+)[\s*]+(\w+)\s*$")


@dataclass(frozen=True)
class Algorithm:
    """The algorithm with this number among those that are offered for a product. `dtypes` are those of A, B and C;
    `transposed` has the names of the operands that are stored transposed."""

    number: int
    dtypes: tuple[str, str, str]
    transposed: tuple[str, ...]

    @staticmethod
    def read(binary: bytes) -> Algorithm:
        """What `written` returned."""
        data = json.loads(binary)
        return Algorithm(data["number"], tuple(data["dtypes"]), tuple(data["transposed"]))

    def written(self) -> bytes:
        """The algorithm as a binary."""
        return json.dumps(asdict(self)).encode()


class CublasLtCompiler(CudaCompiler):
    """Reads the macros and the parameters of a source."""

    portable = False
    tells: tuple[str, ...] = ()

    @property
    def toolchain(self) -> str:
        version = cublas_tiles.version()
        if not version:
            raise DeviceError("algorithms of cuBLASLt need it; pip install nvidia-cublas, as `.[cuda]` does")
        return version

    def name(self) -> str:
        return self.toolchain

    def compile(self, source: Source) -> Build:
        macros = dict(reversed(_MACRO.findall(source.text)))  # the first counts: it is the configuration's
        kernel = _KERNEL.search(source.text)
        declared = [] if kernel is None else _QUALIFIER.sub("", kernel[1]).split(",")
        found = map(_PARAMETER.findall, declared)
        types: dict[str, str] = {name: macros.get(type_, type_) for each in found for type_, name in each}
        if tuple(types) != PARAMETERS:
            raise BuildError(
                f"error: a kernel of `compiler: cublaslt` has the parameters {', '.join(PARAMETERS)}, in this order; "
                f"the source has {', '.join(types) or 'none'}"
            )
        c, a, b = (_dtype(types[name]) for name in ARRAYS)
        factor = "double" if c == "float64" else "float"
        if not gemm.has(a, b, c) or {types[name] for name in FACTORS} != {factor}:
            raise BuildError(
                f"error: cuBLASLt multiplies no {a} and {b} to {c} with factors of type {types['alpha']}; float32, "
                "float64, float16 and bfloat16 are possible, with factors of type float, of float64 double"
            )
        transposed = tuple(name for name in "AB" if macros.get(f"transposed_{name.lower()}", "0") != "0")
        try:
            number = int(macros["algorithm"])
        except (LookupError, ValueError):
            raise BuildError("error: the source defines no number as `algorithm`") from None
        return Build(Algorithm(number, (a, b, c), transposed).written())


def _dtype(spelling: str) -> str:
    """The dtype that CUDA spells like this; the spelling itself if there is none."""
    return next((name for name in gemm.TYPES if dtypes.spelling(name, "cuda") == spelling), spelling)
