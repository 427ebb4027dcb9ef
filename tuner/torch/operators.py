"""`tuner.torch.operator`: a family of kernels as an operator of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tuner.errors import ArgumentError, RequestError
from tuner.families.arrays import TorchTensors
from tuner.families.dispatcher import Dispatcher, dispatch
from tuner.families.family import Kernels
from tuner.torch.signature import Signature, check_name

MOST_KEPT = 1024  # combinations of inputs whose results' shapes are kept, and of sizes that no shape tells
TENSORS = TorchTensors(torch)


def operator(
    name: str, kernels: Kernels, *, library: bool = True, results: str | Path | None = None,
    binaries: str | Path | None = None,
) -> Any:  # fmt: skip
    """Register `kernels` as the operator `name`, such as "mylib::scale", and give it: `torch.ops.mylib.scale`.

    `kernels` is what `tuner.dispatch` takes: a space file, a family, a folder. The operator has two overloads.
    `default` takes the tensors that a kernel reads, and gives new ones for those that it writes. `out` takes all
    tensors in the kernel's order, and writes into the caller's. Both take options by name, and sizes that no shape of
    their tensors tells. They run on whichever device the tensors lie on, in the configuration for their size. Other
    keywords are those of `dispatch`.

    Raises RequestError where there is no such kernel, or where the operator exists.
    """
    check_name(name)
    handle = dispatch(kernels, library=library, results=results, binaries=binaries)
    signature = Signature.of(handle.family.operation)
    namespace, _, short = name.partition("::")
    if hasattr(getattr(torch.ops, namespace), short):
        raise RequestError(f"operator {name}: there is one of this name already; choose another")
    calls = _Calls(handle, signature)
    functional = torch.library.custom_op(name, calls.functional, mutates_args=(), schema=signature.functional)
    functional.register_fake(calls.fake)
    mutated = [a.name for a in signature.outputs]
    into = torch.library.custom_op(f"{name}.out", calls.out, mutates_args=mutated, schema=signature.out)
    into.register_fake(lambda *tensors, **named: None)
    return getattr(getattr(torch.ops, namespace), short)


class _Calls:
    """What the overloads of one operator do."""

    def __init__(self, handle: Dispatcher, signature: Signature) -> None:
        self._handle, self._signature = handle, signature
        self._call: Callable[..., None] = handle.__call__  # calling the handle itself takes longer
        self._by_sizes: dict[tuple[tuple[str, int], ...], Callable[..., None]] = {}
        self._sizes = {*signature.functional_sizes, *signature.out_sizes}
        self._defaults = dict(signature.op.options)
        in_shapes = {name for a in signature.outputs for extent in a.shape or () for name in extent.names}
        self._shaping = [*signature.functional_sizes, *(in_shapes & signature.op.options.keys())]
        arrays = signature.op.arrays
        positions = {a.name: position for position, a in enumerate(signature.inputs)}
        self._read = [positions.get(a.name, -1) for a in arrays]  # where arrays stand among the inputs, if there
        self._written = [a.role != "in" for a in arrays]
        self._results: dict[tuple[Any, ...], list[tuple[Any, torch.dtype]]] = {}

    def functional(self, *inputs: torch.Tensor, **named: Any) -> Any:
        """New tensors for what the kernel writes."""
        key: tuple[Any, ...] = (*[x.shape for x in inputs], *[x.dtype for x in inputs])
        if self._shaping:
            key += tuple([named.get(name) for name in self._shaping])
        results = self._results.get(key)
        if results is None:
            if len(self._results) >= MOST_KEPT:
                self._results.clear()
            results = self._results[key] = self._of_results(inputs, named)
        device = inputs[0].device
        made = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in results]
        rest = iter(made)
        arrays = []
        for position, is_written in zip(self._read, self._written, strict=True):
            array = next(rest) if is_written else inputs[position]
            if is_written and position >= 0:
                array.copy_(inputs[position])
            arrays.append(array)
        self.out(*arrays, **named)
        return made[0] if len(made) == 1 else tuple(made)

    def out(self, *arrays: torch.Tensor, **named: Any) -> None:
        """Run the kernel on tensors in its order."""
        call = self._call
        if any(array.requires_grad for array in arrays):  # torch tracks them above, where anything does
            arrays = tuple([array.detach() for array in arrays])
        if named:
            if self._sizes and (sizes := {name: named.pop(name) for name in named.keys() & self._sizes}):
                call = self._of_sizes(sizes)
            # What is as the operation says needs no packing.
            named = {name: value for name, value in named.items() if value != self._defaults[name]}
        if arrays[0].is_cuda:
            try:
                call(*arrays, **named)
                return
            except ArgumentError:
                if all(array.is_contiguous() for array in arrays):
                    raise
        taken = [array.contiguous() for array in arrays]
        call(*map(TENSORS.handed, taken), **named)
        for array, used, is_written in zip(arrays, taken, self._written, strict=True):
            if is_written and used is not array:
                array.copy_(used)

    def fake(self, *inputs: torch.Tensor, **named: Any) -> Any:
        """Tensors of the shapes and types of the results."""
        results = self._of_results(inputs, named)
        made = [torch.empty(shape, dtype=dtype, device=inputs[0].device) for shape, dtype in results]
        return made[0] if len(made) == 1 else tuple(made)

    def _of_results(self, inputs: Sequence[torch.Tensor], named: Mapping[str, Any]) -> list[tuple[Any, torch.dtype]]:
        """The shapes and types of the results. Raises ArgumentError where the inputs fit no size."""
        signature = self._signature
        shapes = signature.result_shapes([x.shape for x in inputs], named)
        types = signature.types([str(x.dtype).removeprefix("torch.") for x in inputs])
        return [(shape, getattr(torch, name)) for shape, name in zip(shapes, types, strict=True)]

    def _of_sizes(self, sizes: Mapping[str, int]) -> Callable[..., None]:
        """The call for sizes that no shape tells."""
        key = tuple(sorted(sizes.items()))
        if key not in self._by_sizes:
            if len(self._by_sizes) >= MOST_KEPT:
                self._by_sizes.clear()
            self._by_sizes[key] = self._handle.with_sizes(sizes).__call__
        return self._by_sizes[key]
