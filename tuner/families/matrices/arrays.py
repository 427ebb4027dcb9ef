"""Views, allocations, copies and casts of a matrix product's arrays, for each array library."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tuner import devices
from tuner.devices.cuda.arrays import current_stream
from tuner.devices.cuda.driver.addresses import device_of
from tuner.errors import ArgumentError
from tuner.families.problem import dtype_name
from tuner.space.dtypes import DTYPES


class Arrays:
    """Arrays of NumPy, and of libraries with the same methods."""

    _hands = False  # whether `handed` converts arrays
    _type = "ndarray"  # the name of the array class in its module

    def __init__(self, module: Any) -> None:
        self.module = module

    def has(self, array: Any) -> bool:
        """Whether an array is of this library."""
        return isinstance(array, getattr(self.module, self._type))

    def check_plain(self, array: Any) -> None:
        """Raise ArgumentError for an array that is more than its memory, such as a masked or sparse one."""
        if isinstance(array, np.ndarray) and type(array) not in (np.ndarray, np.memmap):
            raise ArgumentError(
                f"an array of type {type(array).__name__}: pass a plain array, such as np.asarray returns"
            )

    def strides(self, array: Any) -> tuple[int, ...]:
        """The strides of an array, in elements."""
        return tuple(stride // array.itemsize for stride in array.strides)

    def transposed(self, array: Any) -> Any:
        """A view with the last two axes exchanged."""
        return array.swapaxes(-1, -2)

    def stacked(self, array: Any) -> Any:
        """A view with a leading batch axis."""
        return array if array.ndim == 3 else array[None]

    def repeated(self, array: Any, batch: int) -> Any:
        """A view that repeats one matrix `batch` times."""
        return self.module.broadcast_to(array, (batch, *array.shape[1:]))

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        """An uninitialised array on the device of `like`."""
        return self.module.empty(shape, DTYPES[dtype].numpy)

    def copied(self, array: Any, dtype: str) -> Any:
        """A contiguous copy of this type, on the same device."""
        return self.module.ascontiguousarray(array.astype(DTYPES[dtype].numpy))

    def written(self, target: Any, dtype: str, beta: float) -> Any:
        """A temporary output in place of `target`: a copy of it if `beta` is not 0."""
        return self.copied(target, dtype) if beta else self.empty(target.shape, dtype, target)

    def scale(self, target: Any, factor: float) -> None:
        """Multiply `target` by a factor; a factor of 0 gives 0 even for NaN and infinity."""
        self.assign(target, target * factor if factor else self.module.zeros_like(target))

    def assign(self, target: Any, values: Any) -> None:
        """Write `values` into `target`, which may have other strides and another type."""
        target[...] = values

    def check_target(self, target: Any) -> None:
        """Raise ArgumentError for an output that cannot be assigned to."""
        if not target.flags.writeable:
            raise ArgumentError("out: is read-only; pass a writable array")

    def handed(self, array: Any) -> Any:
        """The array as a launch accepts it."""
        return array

    def streams(self, array: Any) -> Callable[[Any], int] | None:
        """A function that returns the current stream for arrays like this one, if `data_ptr` is their address on a GPU
        and `layout` tells whether a launch takes them; else None."""
        return None

    def layout(self, array: Any) -> tuple[Any, ...]:
        """Shape, strides, dtype and device: everything that a plan depends on."""
        return array.shape, array.strides, array.dtype

    def preparation(
        self, axes: int, is_swapped: bool, batch: int | None, dtype: str | None, is_handed: bool = True
    ) -> Callable[[Any], Any]:
        """A function that converts an array of `axes` axes to a stack that a launch accepts.

        It performs only the steps that are needed: swap the last two axes, add a batch axis, repeat for a batch, copy
        to `dtype`, convert by `handed`.
        """
        steps: list[Callable[[Any], Any]] = []
        if is_swapped:
            steps.append(self.transposed)
        if axes == 2:
            steps.append(self.stacked)
        if batch is not None:
            steps.append(lambda array: self.repeated(array, batch))
        if dtype is not None:
            steps.append(lambda array: self.copied(array, dtype))
        if is_handed and self._hands:
            steps.append(self.handed)
        return steps[0] if len(steps) == 1 else lambda array: functools.reduce(lambda x, step: step(x), steps, array)


class CupyArrays(Arrays):
    """Arrays of CuPy, which allocates on its current device."""

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        with like.device:
            return super().empty(shape, dtype, like)

    def copied(self, array: Any, dtype: str) -> Any:
        with array.device:
            return super().copied(array, dtype)

    def scale(self, target: Any, factor: float) -> None:
        with target.device:
            super().scale(target, factor)

    def assign(self, target: Any, values: Any) -> None:
        with target.device:
            super().assign(target, values)

    def check_target(self, target: Any) -> None:
        pass  # all are writable

    def layout(self, array: Any) -> tuple[Any, ...]:
        return array.shape, array.strides, array.dtype, array.data.device_id


class TorchTensors(Arrays):
    """Tensors of torch. For those on the CPU, a launch takes a NumPy array of the same memory."""

    _hands, _type = True, "Tensor"

    def check_plain(self, array: Any) -> None:
        if array.layout is not self.module.strided:
            raise ArgumentError(f"a tensor of layout {array.layout}: pass a dense one")

    def strides(self, array: Any) -> tuple[int, ...]:
        return tuple(array.stride())

    def layout(self, array: Any) -> tuple[Any, ...]:
        return array.shape, array.stride(), array.dtype, array.get_device(), array.requires_grad

    def streams(self, array: Any) -> Callable[[Any], int] | None:
        return current_stream(type(array), array.get_device()) if array.is_cuda and not array.requires_grad else None

    def stacked(self, array: Any) -> Any:
        return array if array.ndim == 3 else array.unsqueeze(0)

    def repeated(self, array: Any, batch: int) -> Any:
        return array.expand(batch, -1, -1)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return self.module.empty(shape, dtype=getattr(self.module, dtype), device=like.device)

    def copied(self, array: Any, dtype: str) -> Any:
        return array.to(getattr(self.module, dtype), copy=True, memory_format=self.module.contiguous_format)

    def assign(self, target: Any, values: Any) -> None:
        target.copy_(values)

    def check_target(self, target: Any) -> None:
        if target.requires_grad:
            raise ArgumentError("out: requires grad, which a launch does not track; pass .detach()")

    def handed(self, array: Any) -> Any:
        if array.is_cuda:
            return array
        try:
            return array.numpy()
        except (RuntimeError, TypeError):  # NumPy lacks the type, or the tensor is not plain memory
            return self._reinterpreted(array)

    def _reinterpreted(self, array: Any) -> Any:
        """A NumPy array of a CPU tensor's memory, whose type NumPy lacks. Raises ArgumentError for other tensors."""
        if array.requires_grad:
            raise ArgumentError("a tensor requires grad, which a launch does not track; pass .detach()")
        if array.device.type != "cpu":
            raise ArgumentError(f"a tensor on {array.device}: pass one on a CUDA GPU or on the CPU")
        if array.is_neg() or array.is_conj():
            raise ArgumentError("a lazily negated or conjugated tensor; pass .resolve_neg() or .resolve_conj()")
        dtype = DTYPES.get(element(array))
        if dtype is None:
            raise ArgumentError(f"a tensor of {array.dtype}: no kernel takes this type")
        bits = self.module.uint8 if dtype.itemsize == 1 else self.module.int16  # types that NumPy has
        return array.view(bits).numpy().view(dtype.numpy)


class PycudaArrays(Arrays):
    """Arrays of PyCUDA, which copies only contiguous arrays."""

    _type = "GPUArray"

    def transposed(self, array: Any) -> Any:
        axes = (*range(len(array.shape) - 2), len(array.shape) - 1, len(array.shape) - 2)
        shape, strides = ([values[axis] for axis in axes] for values in (array.shape, array.strides))
        return self._view(array, tuple(shape), tuple(strides))

    def stacked(self, array: Any) -> Any:
        if len(array.shape) == 3:
            return array
        outer = array.shape[0] * array.strides[0]
        return self._view(array, (1, *array.shape), (outer, *array.strides))

    def repeated(self, array: Any, batch: int) -> Any:
        return self._view(array, (batch, *array.shape[1:]), (0, *array.strides[1:]))

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return self.module.empty(shape, DTYPES[dtype].numpy)

    def copied(self, array: Any, dtype: str) -> Any:
        if not array.flags.c_contiguous:
            raise ArgumentError(
                f"an array of PyCUDA with strides {array.strides} (bytes): neither a kernel nor cuBLAS accepts these "
                "strides, and PyCUDA cannot copy it; pass a contiguous one"
            )
        return array.astype(DTYPES[dtype].numpy)

    def assign(self, target: Any, values: Any) -> None:
        target.set(values.astype(target.dtype))

    def check_target(self, target: Any) -> None:
        if not target.flags.c_contiguous:
            raise ArgumentError(
                f"out: has strides {target.strides} (bytes), which PyCUDA cannot write; pass a contiguous one"
            )

    def layout(self, array: Any) -> tuple[Any, ...]:
        must_ask = devices.count("cuda") > 1 and array.gpudata is not None  # an empty array has no memory
        number = device_of(int(array.gpudata)) if must_ask else 0
        return array.shape, array.strides, array.dtype, number

    def _view(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return self.module.GPUArray(shape, array.dtype, base=array, gpudata=array.gpudata, strides=strides)


def of(array: Any) -> Arrays:
    """The methods for arrays of this one's library. Raises ArgumentError for any other library."""
    for name, kind in (
        ("numpy", Arrays),
        ("cupy", CupyArrays),
        ("torch", TorchTensors),
        ("pycuda.gpuarray", PycudaArrays),
    ):
        module = sys.modules.get(name)
        if module is not None and (treatment := kind(module)).has(array):
            treatment.check_plain(array)
            return treatment
    raise ArgumentError(f"an array of type {type(array).__name__}: pass arrays of NumPy, CuPy, torch or PyCUDA")


def element(array: Any) -> str:
    """The name of an array's dtype."""
    return dtype_name(array)
