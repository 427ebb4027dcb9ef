"""`tuner.torch.operator`: a family of kernels as an operator of torch."""

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
from tuner.families.dispatcher import Dispatcher, dispatch
from tuner.families.family import Kernels
from tuner.families.matrices.arrays import TorchTensors
from tuner.torch.signature import Signature, check_name

MOST_KEPT = 1024  # combinations of inputs whose results' shapes are kept, and of sizes that no shape tells
TENSORS = TorchTensors(torch)
_LIBRARIES: list[torch.library.Library] = []  # torch forgets what one has registered when nobody keeps it


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
    handle = dispatch(kernels, library=library, results=results, binaries=binaries)
    signature = Signature.of(handle.family.operation)
    namespace, _, short = name.partition("::")
    if hasattr(getattr(torch.ops, namespace), short):
        raise RequestError(f"operator {name}: there is one of this name already; choose another")
    calls = _Calls(name, handle, signature)
    # What torch.library.custom_op puts around an operator costs more than a launch.
    fragment = torch.library.Library(namespace, "FRAGMENT")
    for overload, schema, call, fake in (
        (short, signature.functional, calls.functional, calls.fake),
        (f"{short}.out", signature.out, calls.into, calls.check_untracked),
    ):
        fragment.define(overload + schema, tags=[torch.Tag.pt2_compliant_tag])
        fragment.impl(overload, uncompiled(call), "CompositeExplicitAutograd")
        torch.library.register_fake(f"{namespace}::{overload}", fake, lib=fragment)
    _LIBRARIES.append(fragment)  # what an exception cuts off, torch forgets as a whole
    return getattr(getattr(torch.ops, namespace), short)


def uncompiled(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same function or method, which torch.compile never looks into, as into those of custom operators, nor into
    what it calls. `torch.compiler.disable` would import the compiler, which takes seconds, and cost each call 1 us."""
    try:
        frames = torch._C._dynamo.eval_frame
        skipped = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(getattr(call, "__func__", call).__code__, skipped)
    except (AttributeError, TypeError):  # another version of torch
        disabled: Callable[..., Any] = torch._disable_dynamo(functools.partial(call))
        return disabled
    return call


class _Result(NamedTuple):
    """A new tensor, and the position of an input with its shape and type, if there is one."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    like: int | None


class _Calls:
    """What the overloads of one operator do."""

    def __init__(self, name: str, handle: Dispatcher, signature: Signature) -> None:
        self._name, self._handle, self._signature = name, handle, signature
        self._call: Callable[..., None] = handle.__call__  # calling the handle itself takes longer
        self._by_sizes: dict[tuple[tuple[str, int], ...], Callable[..., None]] = {}
        self._sizes = {*signature.functional_sizes, *signature.out_sizes}
        self._defaults = dict(signature.op.options)
        in_shapes = {name for a in signature.outputs for extent in a.shape or () for name in extent.names}
        self._shaping = [*signature.functional_sizes, *(in_shapes & signature.op.options.keys())]
        arrays, outputs = signature.op.arrays, signature.outputs
        self._written = [position for position, a in enumerate(arrays) if a.role != "in"]
        tensors = [*outputs, *signature.inputs]  # of an array that is both, the output is passed
        order = [tensors.index(a) for a in arrays]
        self._order = None if order == [*range(len(tensors))] else order
        self._updated = [(outputs.index(a), position) for position, a in enumerate(signature.inputs) if a in outputs]
        # Shapes of the first inputs tell those of the results, unless others are copied there; types of all are told.
        inputs = replace(signature.op, arguments=signature.inputs)
        self._sized = len(signature.inputs) if self._updated else problem.sized_arrays(inputs)
        self._read = problem.reader(self._sized, range(len(signature.inputs)))
        self._results: dict[tuple[Any, ...], list[_Result]] = {}
        self._like = signature.like if self._order is None and not self._updated else None
        self._is_plain = True  # until a tensor was among them that requires grad, or whose rows lie apart

    def functional(self, *inputs: torch.Tensor, **named: Any) -> Any:
        """New tensors for what the kernel writes."""
        if self._like is not None and self._is_plain and inputs[0].is_cuda and (not named or named == self._defaults):
            made = torch.empty_like(inputs[self._like])
            try:
                self._call(made, *inputs)
            except ArgumentError:  # nothing was enqueued: what follows says why, or copies
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
        """Run the kernel on tensors in its order."""
        if self._is_plain and arrays[0].is_cuda and (not named or named == self._defaults):
            try:  # as `_run` does, which would be another call
                self._call(*arrays)
            except ArgumentError as refusal:
                self._run_copies(self._call, arrays, {}, refusal)
        else:
            self._run(arrays, named)
        for position in self._written:
            try:
                increment_version(arrays[position])
            except RuntimeError:  # in some versions of torch: a tensor of inference mode has no version
                continue

    def _run(self, arrays: Sequence[torch.Tensor], named: dict[str, Any]) -> None:
        call = self._call
        if named:
            if self._sizes and (sizes := {name: named.pop(name) for name in named.keys() & self._sizes}):
                call = self._of_sizes(sizes)
            # What is as the operation says needs no packing.
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
        """Run the kernel on what it takes: plain tensors, copied where rows do not lie together. A launch that was
        tried has enqueued nothing; its `refusal` is raised where that changes nothing."""
        if refusal is not None:
            if all(array.is_contiguous() and not array.requires_grad for array in arrays):
                raise refusal
            self._is_plain = False
        arrays = self._untracked(arrays)
        taken = [array.contiguous() for array in arrays]
        try:
            call(*map(TENSORS.handed, taken), **named)
        except ArgumentError as error:
            raise error from None  # one message, not two
        for position in self._written:
            if taken[position] is not arrays[position]:
                arrays[position].copy_(taken[position])

    def _untracked(self, arrays: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The same memory, for launches, which take no tensors that require grad. Raises ArgumentError where torch
        would need a gradient."""
        if not any(array.requires_grad for array in arrays):
            return arrays
        self.check_untracked(*arrays)
        return [array.detach() for array in arrays]

    def _made(self, inputs: Sequence[torch.Tensor], named: Mapping[str, Any]) -> list[torch.Tensor]:
        """New tensors for the results, with what the kernel updates."""
        key = self._read(inputs)
        if self._shaping:
            key += tuple([named.get(name) for name in self._shaping])
        results = self._results.get(key)
        if results is None:
            if len(self._results) >= MOST_KEPT:
                self._results.clear()
            results = self._results[key] = self._kept(inputs, named)
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
        """Tensors of the shapes and types of the results."""
        self.check_untracked(*inputs)
        results = self._of_results(inputs, named)
        made = [torch.empty(shape, dtype=dtype, device=inputs[0].device) for shape, dtype in results]
        return made[0] if len(made) == 1 else tuple(made)

    def check_untracked(self, *tensors: torch.Tensor, **named: Any) -> None:
        """Raise ArgumentError where torch would need a gradient. The forward pass of a registered one does not."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            raise ArgumentError(
                f"{self._name}: a tensor requires grad, which a kernel does not track; call it under torch.no_grad(), "
                "pass .detach(), or register a gradient for the overload that gives new tensors, by "
                "torch.library.register_autograd, and call that"
            ) from None  # not of the launch's refusal

    def _kept(self, inputs: Sequence[torch.Tensor], named: Mapping[str, Any]) -> list[_Result]:
        """The results with the inputs that they are like: of these torch makes others in half the time."""
        like = {(x.shape, x.dtype): position for position, x in enumerate(inputs[: self._sized])}
        return [_Result(*each, like.get(each)) for each in self._of_results(inputs, named)]

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
