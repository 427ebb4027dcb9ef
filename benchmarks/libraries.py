"""Calls of other libraries that compute the same as a kernel of the gallery.

Each entry of PEERS makes a call from the library and the arrays, sizes and options of a problem, by name. A call
writes the output, or returns values that are copied to it after the clock has stopped. Without a GPU, `numpy` replaces
the other libraries.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from tuner.devices import Device
from tuner.measure.workbench import Workbench
from tuner.space import operation
from tuner.space.chosen_types import dtype

Call = Callable[[], Any]
Maker = Callable[[Any, SimpleNamespace], Call]


def _plain(call: Callable[[Any, SimpleNamespace], Any]) -> Maker:
    """What needs nothing to be made before."""
    return lambda library, a: lambda: call(library, a)


def _torch_convolution(torch: Any, a: SimpleNamespace) -> Call:
    image, weights = a.image[None, None], a.filter[None, None]
    return lambda: torch.nn.functional.conv2d(image, weights)


def _torch_separable(torch: Any, a: SimpleNamespace) -> Call:
    image, rows, columns = a.image[None, None], a.filter[None, None, None, :], a.filter[None, None, :, None]
    convolve = torch.nn.functional.conv2d
    return lambda: convolve(convolve(image, rows), columns)


def _torch_stencil(torch: Any, a: SimpleNamespace) -> Call:
    weights = torch.zeros((1, 1, 3, 3, 3), device=a.x.device)
    for place in ((0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)):
        weights[0, 0][place] = a.side
    weights[0, 0, 1, 1, 1] = a.center
    grid = a.x[None, None]
    return lambda: torch.nn.functional.conv3d(grid, weights, padding=1)


def _cupy_stencil(cupy: Any, a: SimpleNamespace) -> Call:
    ndimage = importlib.import_module("cupyx.scipy.ndimage")
    weights = cupy.zeros((3, 3, 3), cupy.float32)
    weights[[0, 2, 1, 1, 1, 1], [1, 1, 0, 2, 1, 1], [1, 1, 1, 1, 0, 2]] = a.side
    weights[1, 1, 1] = a.center
    return lambda: ndimage.correlate(a.x, weights, output=a.y, mode="constant")


def _torch_csr(torch: Any, a: SimpleNamespace) -> Call:
    matrix = torch.sparse_csr_tensor(a.starts, a.columns, a.values, size=(a.rows, a.width))
    return lambda: torch.mv(matrix, a.x)


def _cupy_csr(cupy: Any, a: SimpleNamespace) -> Call:
    sparse = importlib.import_module("cupyx.scipy.sparse")
    matrix = sparse.csr_matrix((a.values, a.columns, a.starts), shape=(a.rows, a.width))
    return lambda: matrix.dot(a.x)


def _cupy_histogram(cupy: Any, a: SimpleNamespace) -> Call:
    edges = cupy.arange(257, dtype=cupy.int32)
    return lambda: cupy.histogram(a.x, bins=edges)[0]


def _added_to_counts(maker: Maker) -> Maker:
    """The counts that a library finds, added to those that the output holds before."""

    def make(library: Any, a: SimpleNamespace) -> Call:
        count = maker(library, a)
        return lambda: a.counts + count()

    return make


def _torch_gelu_fused(torch: Any, a: SimpleNamespace) -> Call:
    return lambda: torch._addmm_activation(a.bias, a.X, a.W, use_gelu=True)


def _norm(name: str, *factors: str) -> Maker:
    def make(torch: Any, a: SimpleNamespace) -> Call:
        function, columns = getattr(torch.nn.functional, name), (a.columns,)
        return lambda: function(a.x, columns, *(getattr(a, factor) for factor in factors), a.eps)

    return make


_PRODUCT = {
    "torch.mm": _plain(lambda torch, a: torch.mm(a.A, a.B, out=a.C)),
    "numpy.matmul": _plain(lambda numpy, a: numpy.matmul(a.A, a.B, out=a.C)),
}
_CONVOLUTION = {"torch conv2d (cuDNN)": _torch_convolution}
_HISTOGRAM = {
    "torch.bincount": _plain(lambda torch, a: torch.bincount(a.x, minlength=256)),
    "cupy.bincount": _plain(lambda cupy, a: cupy.bincount(a.x, minlength=256)),
    "cupy.histogram (CUB)": _cupy_histogram,
    "numpy.bincount": _plain(lambda numpy, a: numpy.bincount(a.x, minlength=256)),
}
_SCAN = {
    "torch.cumsum": _plain(lambda torch, a: torch.cumsum(a.x, 0, out=a.y)),
    "cupy.cumsum (CUB)": _plain(lambda cupy, a: cupy.cumsum(a.x, out=a.y)),
    "numpy.cumsum": _plain(lambda numpy, a: numpy.cumsum(a.x, dtype=numpy.float64)),
}
_TRANSPOSE = {
    "torch copy_ of the transpose": _plain(lambda torch, a: a.y.copy_(a.x.T)),
    "numpy.copyto": _plain(lambda numpy, a: numpy.copyto(a.y, a.x.T)),
}
_AXPY = {
    "torch.add": _plain(lambda torch, a: torch.add(a.y, a.x, alpha=a.a, out=a.y)),
    "numpy": _plain(lambda numpy, a: a.y + a.y.dtype.type(a.a) * a.x),
}

PEERS: Mapping[str, Mapping[str, Maker]] = {
    "vector_add": {
        "torch.add": _plain(lambda torch, a: torch.add(a.x, a.y, out=a.z)),
        "cupy.add": _plain(lambda cupy, a: cupy.add(a.x, a.y, a.z)),
        "numpy.add": _plain(lambda numpy, a: numpy.add(a.x, a.y, out=a.z)),
    },
    "daxpy": _AXPY,
    "axpy": _AXPY,
    "sum": {
        "torch.sum": _plain(lambda torch, a: torch.sum(a.x, 0, keepdim=True, out=a.total)),
        "cupy.sum (CUB)": _plain(lambda cupy, a: cupy.sum(a.x, keepdims=True, out=a.total)),
        "numpy.sum": _plain(lambda numpy, a: numpy.sum(a.x, keepdims=True, out=a.total)),
    },
    "softmax": {
        "torch.softmax": _plain(lambda torch, a: torch.softmax(a.x, 1, out=a.y)),
        "numpy": _plain(
            lambda numpy, a: (e := numpy.exp(a.x - a.x.max(axis=1, keepdims=True))) / e.sum(axis=1, keepdims=True)
        ),
    },
    "rms_norm": {"torch rms_norm": _norm("rms_norm", "gamma")},
    "layer_norm": {"torch layer_norm": _norm("layer_norm", "gamma", "beta")},
    "zero_mean": {"torch sub and mean": _plain(lambda torch, a: torch.sub(a.x, a.x.mean(1, keepdim=True), out=a.y))},
    "transpose": _TRANSPOSE,
    "transpose_part": _TRANSPOSE,
    "tma_copy": {"torch copy_": _plain(lambda torch, a: a.y.copy_(a.x))},
    "scan": _SCAN,
    "scan_lookback": _SCAN,
    "scan_bulk": _SCAN,
    "histogram": {name: _added_to_counts(maker) for name, maker in _HISTOGRAM.items()},
    "histogram_parts": _HISTOGRAM,
    "stencil3d": {"torch conv3d (cuDNN)": _torch_stencil, "cupyx correlate": _cupy_stencil},
    "convolution": _CONVOLUTION,
    "convolution_constant": _CONVOLUTION,
    "separable_convolution": {"torch conv2d twice (cuDNN)": _torch_separable},
    "spmv": {"torch CSR (cuSPARSE)": _torch_csr, "cupyx CSR (cuSPARSE)": _cupy_csr},
    "batched_products": {
        "torch.bmm": _plain(lambda torch, a: torch.bmm(a.A, a.B, out=a.C)),
        "numpy.matmul": _plain(lambda numpy, a: numpy.matmul(a.A, a.B, out=a.C)),
    },
    "matmul_tiled": _PRODUCT,
    "split_k": _PRODUCT,
    "linear_gelu": {
        "torch addmm and gelu": _plain(
            lambda torch, a: torch.nn.functional.gelu(torch.addmm(a.bias, a.X, a.W), approximate="tanh")
        ),
        "torch _addmm_activation": _torch_gelu_fused,
    },
    "tma_wgmma": {"torch.mm": _plain(lambda torch, a: torch.mm(a.A, a.B.T, out_dtype=torch.float32))},
}


class Peer:
    """A library's routine on the arrays of a workbench: `fetch` comes before the clock, `deliver` after it."""

    def __init__(self, name: str, maker: Maker, workbench: Workbench) -> None:
        """Raises ImportError where the library is not installed, and whatever the library raises."""
        self.name, self._bench = name, workbench
        self._result: Any = None
        self._library = _library(name)
        self.on_host = self._library.__name__ == "numpy"
        if self.on_host == (workbench.device.kind == "cuda"):
            raise ImportError
        op, scope = workbench.op, workbench.scope
        self._arrays = {
            a.name: self._array(a.name, operation.shape(a, workbench.nominal), dtype(a, scope).numpy) for a in op.arrays
        }
        self._output = next(a.name for a in op.arrays if a.role != "in")
        scalars = {**scope.sizes, **scope.options, **self._arrays}
        self._call = maker(self._library, SimpleNamespace(**scalars))

    def run(self) -> None:
        """All that makes its result that of a kernel."""
        self.fetch()
        self()
        self.deliver()

    def fetch(self) -> None:
        """What a library on the host needs from the device."""
        if self.on_host:
            self._bench.device.synchronize()
            for name, array in self._arrays.items():
                self._bench.device.read(self._bench.buffers[name].handle, array)

    def __call__(self) -> None:
        self._result = self._call()

    def deliver(self) -> None:
        """Put the result where a kernel would have put it."""
        output, result = self._arrays[self._output], self._result
        self._result = None
        if result is not None and result is not output:
            if self.on_host or not hasattr(output, "copy_"):
                output[...] = result.reshape(output.shape)
            else:
                output.copy_(result.reshape(output.shape))
        if self.on_host:
            self._bench.device.write(self._bench.buffers[self._output].handle, output)

    def _array(self, name: str, shape: tuple[int, ...], element: np.dtype[Any]) -> Any:
        if self.on_host:
            return np.empty(shape, element)
        memory = _Memory(int(self._bench.buffers[name].handle), shape, element)
        if self._library.__name__ == "torch":
            return self._library.as_tensor(memory, device=self._bench.device.id)
        return self._library.asarray(memory)


class _Memory:
    """An array that lies on a GPU, for any library."""

    def __init__(self, address: int, shape: tuple[int, ...], element: np.dtype[Any]) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": np.dtype(element).str, "data": (address, False), "version": 3
        }  # fmt: skip


def import_for(kernel: str) -> None:
    """Import what the peers of a kernel need, which takes some seconds."""
    for name in PEERS.get(kernel, {}):
        with contextlib.suppress(ImportError):
            _library(name)


def _library(peer: str) -> Any:
    """The module of a peer's library, set up for single precision and for what is fastest. Raises ImportError."""
    name = peer.partition(" ")[0].partition(".")[0]
    if name in ("cupy", "cupyx"):
        os.environ.setdefault("CUPY_ACCELERATORS", "cub")
        return importlib.import_module("cupy")
    library = importlib.import_module(name)
    if name == "torch":
        library.backends.cudnn.benchmark = True
        library.backends.cudnn.allow_tf32 = library.backends.cuda.matmul.allow_tf32 = False
    return library


def library_versions(device: Device) -> dict[str, str]:
    """The versions of the libraries that are installed."""
    found = {}
    for name in ("torch", "cupy") if device.kind == "cuda" else ("numpy",):
        try:
            found[name] = str(importlib.import_module(name).__version__)
        except ImportError:
            found[name] = "not installed"
    return found
