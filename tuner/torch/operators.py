"""`tuner.torch.operator`: register a family of kernels as a PyTorch operator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import increment_version

from tuner.errors import ArgumentError, RequestError
from tuner.families import problem
from tuner.families.dispatcher import Dispatcher
from tuner.families.family import Kernels
from tuner.families.loader import dispatch
from tuner.families.matrices.arrays import TorchTensors
from tuner.torch.signature import Signature, check_name, flattened

MOST_CACHED = 1024  # combinations of input shapes with their result shapes; and of sizes passed by name
TENSORS = TorchTensors(torch)
_LIBRARIES: list[torch.library.Library] = []  # torch unregisters a library's operators when it is collected


def operator(
    name: str, kernels: Kernels, *, library: bool = True, results: str | Path | None = None,
    binaries: str | Path | None = None,
) -> Any:  # fmt: skip
    """Register a family of kernels as an operator of torch, and return it (`torch.ops.mylib.scale`).

    The operator has two overloads. `default` takes the input tensors and returns new output tensors. `out` takes all
    tensors in the kernel's order and writes the caller's outputs. Both take options by name, and sizes that no shape
    determines. A call runs on the device of its tensors, in the best known configuration for their size.

    It has no gradient. A call raises ArgumentError if a tensor requires grad, unless it runs under `torch.no_grad()`
    or `torch.library.register_autograd` has registered a gradient for `default`. Other errors of a call are those of
    `tuner.dispatch`.

    Args:
        name: Namespace and name, such as "mylib::scale".
        kernels: A family, a folder of space files, a list of kernels, or one kernel, as for `tuner.dispatch`.
        library: Whether the vendor library may run if it was measured to be faster, or if no kernel is valid.
        results: A folder of records. Default: the user's own, over those that ship.
        binaries: A folder written by `tune export`, as for `tuner.dispatch`.

    Raises RequestError if torch is not installed, if the kernel does not exist, or if the operator exists already.

    Example::

        import torch

        import tuner

        vector_add = tuner.torch.operator("example::vector_add", "gallery/vector_add")
        x, y = torch.rand(2, 1 << 20, device="cuda")
        z = vector_add(x, y)  # also torch.ops.example.vector_add
        assert torch.equal(z, x + y)
        vector_add.out(z, y, y)  # writes into z
        assert torch.equal(z, y + y)
    """
    check_name(name)
    return registered(name, dispatch(kernels, library=library, results=results, binaries=binaries))


def registered(name: str, handle: Dispatcher, flat: Sequence[bool] = ()) -> Any:
    """Register an operator that calls a handle. Raises RequestError if the name is taken.

    `flat` says which tensors of the `out` overload may have any shape, since the kernel takes them as a vector.
    """
    signature = Signature.of(handle.family.operation)
    namespace, _, short = name.partition("::")
    if hasattr(getattr(torch.ops, namespace), short):
        raise RequestError(f"operator {name}: this name is registered already; choose another")
    calls = _Calls(name, handle, signature, flat)
    # torch.library.custom_op wraps an operator in code that costs more than a launch.
    fragment = torch.library.Library(namespace, "FRAGMENT")
    for overload, schema, call, fake in (
        (short, signature.functional, calls.functional, calls.fake),
        (f"{short}.out", signature.out, calls.into, calls.check_untracked),
    ):
        fragment.define(overload + schema, tags=[torch.Tag.pt2_compliant_tag])
        fragment.impl(overload, uncompiled(call), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{namespace}::{overload}", fake, lib=fragment)
    _LIBRARIES.append(fragment)  # last: after an exception, torch drops an incomplete registration as a whole
    return getattr(getattr(torch.ops, namespace), short)


def uncompiled(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same function or method, excluded from tracing by torch.compile, with everything that it calls.

    `torch.compiler.disable` would import the compiler, which takes seconds, and add 1 us to each call.
    """
    try:
        frames = torch._C._dynamo.eval_frame
        skipped = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(getattr(call, "__func__", call).__code__, skipped)
    except (AttributeError, TypeError):  # another version of torch
        disabled: Callable[..., Any] = torch._disable_dynamo(functools.partial(call))
        return disabled
    return call


class _Result(NamedTuple):
    """Shape and type of a new tensor, and the position of an input with the same ones; None if there is none."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    like: int | None


class _Calls:
    """The implementations of one operator's overloads."""

    def __init__(self, name: str, handle: Dispatcher, signature: Signature, flat: Sequence[bool] = ()) -> None:
        self._name, self._handle, self._signature, self._flat = name, handle, signature, flat
        self._call: Callable[..., None] = handle.__call__  # faster than calling the handle itself
        self._by_sizes: dict[tuple[tuple[str, int], ...], Callable[..., None]] = {}
        self._sizes = {*signature.functional_sizes, *signature.out_sizes}
        self._defaults = dict(signature.op.options)
        in_shapes = {name for a in signature.outputs for extent in a.shape or () for name in extent.names}
        self._shaping = [*signature.functional_sizes, *(in_shapes & signature.op.options.keys())]
        arrays, outputs = signature.op.arrays, signature.outputs
        self._written = [position for position, a in enumerate(arrays) if a.role != "in"]
        tensors = [*outputs, *signature.inputs]  # for an `inout` array, index() finds the output
        order = [tensors.index(a) for a in arrays]
        self._order = None if order == [*range(len(tensors))] else order
        self._updated = [(outputs.index(a), position) for position, a in enumerate(signature.inputs) if a in outputs]
        # The shapes of the first inputs determine those of the results, unless inputs are copied into results.
        inputs = replace(signature.op, arguments=signature.inputs)
        self._sized = len(signature.inputs) if self._updated else problem.sized_arrays(inputs)
        self._read = problem.reader(self._sized, range(len(signature.inputs)))
        self._results: dict[tuple[Any, ...], list[_Result]] = {}
        self._like = signature.like if self._order is None and not self._updated else None
        self._is_plain = True  # until a call had a tensor that requires grad or is not contiguous

    def functional(self, *inputs: torch.Tensor, **named: Any) -> Any:
        """The `default` overload: return new tensors with the kernel's outputs."""
        if self._like is not None and self._is_plain and inputs[0].is_cuda and (not named or named == self._defaults):
            made = torch.empty_like(inputs[self._like])
            try:
                self._call(made, *inputs)
            except ArgumentError:  # nothing was enqueued; the code below copies, or raises the error
                pass
            else:
                return made
        results = self._made(inputs, named)
        tensors: Sequence[torch.Tensor] = (*results, *inputs)
        if self._order is not None:
            tensors = [tensors[position] for position in self._order]
        self._run(tensors, named)
        return results[0] if len(results) == 1 else tuple(results)

    def into(self, *arrays: torch.Tensor, **named: Any) -> None:
        """The `out` overload: run the kernel on tensors in its order."""
        given = arrays
        if self._flat:  # here, because inductor fails at the views of dynamic shapes
            arrays = tuple(flattened(arrays, self._flat))
        if self._is_plain and arrays[0].is_cuda and (not named or named == self._defaults):
            try:  # the fast path of `_run`, inlined
                self._call(*arrays)
            except ArgumentError as refusal:
                self._run_copies(self._call, arrays, {}, refusal)
        else:
            self._run(arrays, named)
        for position in self._written:
            try:
                increment_version(given[position])
            except RuntimeError:  # in some versions of torch, tensors created in inference mode have no version
                continue

    def _run(self, arrays: Sequence[torch.Tensor], named: dict[str, Any]) -> None:
        call = self._call
        if named:
            if self._sizes and (sizes := {name: named.pop(name) for name in named.keys() & self._sizes}):
                call = self._of_sizes(sizes)
            # Options with their default values need no packing.
            named = {name: value for name, value in named.items() if value != self._defaults[name]}
        if not self._is_plain:
            arrays = self._untracked(arrays)
        if not arrays[0].is_cuda:
            self._run_copies(call, arrays, named)
            return
        try:
            call(*arrays, **named)
        except ArgumentError as refusal:
            self._run_copies(call, arrays, named, refusal)

    def _run_copies(
        self,
        call: Callable[..., None],
        arrays: Sequence[torch.Tensor],
        named: dict[str, Any],
        refusal: ArgumentError | None = None,
    ) -> None:
        """Run the kernel on contiguous copies, and copy written ones back.

        `refusal` is the error of a launch that was tried, which enqueued nothing. It is raised if copies would not
        help.
        """
        if refusal is not None:
            if all(array.is_contiguous() and not array.requires_grad for array in arrays):
                raise refusal
            self._is_plain = False
        arrays = self._untracked(arrays)
        taken = [array.contiguous() for array in arrays]
        try:
            call(*map(TENSORS.handed, taken), **named)
        except ArgumentError as error:
            raise error from None  # without the refusal, which says the same
        for position in self._written:
            if taken[position] is not arrays[position]:
                arrays[position].copy_(taken[position])

    def _untracked(self, arrays: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The same tensors without `requires_grad`, for a launch. Raises ArgumentError if torch tracks gradients."""
        if not any(array.requires_grad for array in arrays):
            return arrays
        self.check_untracked(*arrays)
        return [array.detach() for array in arrays]

    def _made(self, inputs: Sequence[torch.Tensor], named: Mapping[str, Any]) -> list[torch.Tensor]:
        """New tensors for the results; those of `inout` arrays are copies of the inputs."""
        key = self._read(inputs)
        if self._shaping:
            key += tuple([named.get(name) for name in self._shaping])
        results = self._results.get(key)
        if results is None:
            if len(self._results) >= MOST_CACHED:
                self._results.clear()
            results = self._results[key] = self._with_like(inputs, named)
        made = [
            torch.empty(shape, dtype=dtype, device=inputs[0].device)
            if like is None
            else torch.empty_like(inputs[like], memory_format=torch.contiguous_format)
            for shape, dtype, like in results
        ]
        for output, position in self._updated:
            made[output].copy_(inputs[position])
        return made

    def fake(self, *inputs: torch.Tensor, **named: Any) -> Any:
        """The fake implementation: tensors with the shapes and types of the results."""
        self.check_untracked(*inputs)
        results = self._of_results(inputs, named)
        made = [torch.empty(shape, dtype=dtype, device=inputs[0].device) for shape, dtype in results]
        return made[0] if len(made) == 1 else tuple(made)

    def check_untracked(self, *tensors: torch.Tensor, **named: Any) -> None:
        """Raise ArgumentError if torch would need a gradient; for a registered gradient, the forward pass does not."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise ArgumentError(
                f"{self._name}: a tensor requires grad, which a kernel does not track; call it under torch.no_grad(), "
                "pass .detach(), or register a gradient for the overload that returns new tensors, with "
                "torch.library.register_autograd, and call that"
            ) from None  # without the launch's refusal

    def _with_like(self, inputs: Sequence[torch.Tensor], named: Mapping[str, Any]) -> list[_Result]:
        """The results, with inputs of the same shape and type: `torch.empty_like` takes half the time of `empty`."""
        like = {(x.shape, x.dtype): position for position, x in enumerate(inputs[: self._sized])}
        return [_Result(*each, like.get(each)) for each in self._of_results(inputs, named)]

    def _of_results(self, inputs: Sequence[torch.Tensor], named: Mapping[str, Any]) -> list[tuple[Any, torch.dtype]]:
        """The shapes and types of the results. Raises ArgumentError if the input shapes are inconsistent."""
        signature = self._signature
        names = [str(x.dtype).removeprefix("torch.") for x in inputs]
        shapes = signature.result_shapes([x.shape for x in inputs], named, signature.chosen(names))
        return [(shape, getattr(torch, name)) for shape, name in zip(shapes, signature.types(names), strict=True)]

    def _of_sizes(self, sizes: Mapping[str, int]) -> Callable[..., None]:
        """The handle's call for sizes that are passed by name."""
        key = tuple(sorted(sizes.items()))
        if key not in self._by_sizes:
            if len(self._by_sizes) >= MOST_CACHED:
                self._by_sizes.clear()
            self._by_sizes[key] = self._handle.with_sizes(sizes).__call__
        return self._by_sizes[key]
