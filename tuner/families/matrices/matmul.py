"""`tuner.matmul`: products of matrices with any strides.

How to multiply is decided once for each combination of shapes, strides and types.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tuner import devices
from tuner.devices.forking import ForkLock
from tuner.errors import ArgumentError, MisalignedArray, RequestError
from tuner.families import products
from tuner.families.dispatcher import Dispatcher
from tuner.families.explanations import Explanation
from tuner.families.loader import dispatch
from tuner.families.matrices import arrays, precisions
from tuner.families.matrices.plans import (
    Plan,
    Product,
    check_types,
    direct,
    direct_library,
    empty_plan,
    result_shape,
    stack_shape,
)
from tuner.families.matrices.ways import Names, Ways, families
from tuner.families.places import Places, device_name
from tuner.families.vendor import LibraryKernel, Substitute
from tuner.quoting import quoted

MOST_PLANS = 1024  # in the cache
_LAYOUTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}  # by array type: returns shape, strides, dtype, device


class Matmul:
    """The product of two matrices or of two stacks of matrices: alpha * a @ b + beta * out.

    The fastest known kernel or vendor library that accepts the operands' strides runs; if none does, operands are
    copied. This is decided once for each combination of shapes, strides and types; `tuner.matmul.explain` tells how.
    Products are summed in float32. If the depth is 0, the product is 0.

    Args:
        a: An array of NumPy, CuPy, torch or PyCUDA, float32, float16 or bfloat16, of shape [M, K] or [batch, M, K].
        b: An array of the same library, of shape [K, N] or [batch, K, N]. A batch of 1 is broadcast.
        out: The array for the result, of shape [M, N] or [batch, M, N]. For 16-bit operands it may be float32, and
            receives the sums unrounded. Default: a new array of the operands' type.
        alpha: A factor of the product. Default: 1.
        beta: A factor of the previous content of `out`. Default: 0.
        transpose_a: Whether `a` is given transposed, as [K, M] or [batch, K, M]. Default: False.
        transpose_b: Whether `b` is given transposed, as [N, K] or [batch, N, K]. Default: False.
        precision: "fp32x3" for a product of float32 matrices by tensor cores, within the bounds of docs/fp32x3.md. It
            is slower where numbers of a row of a, or of a column of b, reach far. At sizes where it would not be
            faster, or if no kernel does it on the device, float32 is multiplied; `explain` says why. Default: the
            operands' own numbers are multiplied.
        wait: Whether to wait until the kernel for these shapes is built. Default: until then, the library multiplies.

    Returns `out`, or the new array. Raises ArgumentError if the arrays do not fit together, and RequestError for a
    `beta` without `out`, or if no kernel multiplies such elements on the device.

    Example::

        import torch

        import tuner

        a, b = torch.rand(2, 512, 512, device="cuda")
        c = tuner.matmul(a, b)
        assert torch.allclose(c, a @ b, rtol=1e-3)
        tuner.matmul(a, b, out=c, beta=1.0, transpose_b=True)  # c += a @ b.T
        print(tuner.matmul.explain(a, b, transpose_b=True))
    """

    def __init__(self) -> None:
        self.__name__ = "matmul"
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._places = Places()
        self._lock = ForkLock()

    def __call__(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        transpose_a: bool = False,
        transpose_b: bool = False,
        precision: str | None = None,
        wait: bool = False,
    ) -> Any:
        """alpha * a @ b + beta * out, in `out` if given, else in a new array. See the class."""
        kind = a.__class__
        try:  # the beginning of `_planned`, because a call of it takes as long as to look a plan up
            layout = _LAYOUTS[kind]
            kinds = kind, b.__class__, out.__class__
            plan = self._plans[
                (kinds, layout(a), layout(b), None if out is None else layout(out), transpose_a, transpose_b, precision)
            ]
        except (KeyError, AttributeError, TypeError, RuntimeError, ValueError):  # ValueError: a factor that is an array
            plan = self._planned(a, b, out, bool(transpose_a), bool(transpose_b), precision)
        if out is None:
            if beta:
                raise RequestError(f"matmul(beta={quoted(beta)}): there is no out to add to; pass one")
            out = plan.treatment.empty(*plan.result, a)
        if wait:
            plan.build(a, b, out)
        try:
            plan.multiply(a, b, out, alpha, beta)
        except MisalignedArray:  # nothing was enqueued; no kernel or library accepts this alignment, so copy
            treatment = plan.treatment
            treatment.check_target(out)
            written = treatment.written(out, arrays.element(out), beta)
            a, b = (treatment.copied(x, arrays.element(x)) for x in (a, b))
            again = self._planned(a, b, written, bool(transpose_a), bool(transpose_b), precision)
            again.multiply(a, b, written, alpha, beta)
            treatment.assign(out, written)
        return out

    def explain(
        self, a: Any, b: Any, out: Any = None, *, alpha: float = 1.0, beta: float = 0.0, transpose_a: bool = False,
        transpose_b: bool = False, precision: str | None = None,
    ) -> Explanation:  # fmt: skip
        """What the same call runs, and why: kernel, configuration, match, expected regret and copies.

        `alpha` and `beta` do not affect it.
        """
        return self._planned(a, b, out, bool(transpose_a), bool(transpose_b), precision).explain(a, b, out)

    def _planned(self, a: Any, b: Any, out: Any, transpose_a: bool, transpose_b: bool, precision: str | None) -> Plan:
        kinds = a.__class__, b.__class__, out.__class__
        try:
            layout = _LAYOUTS[kinds[0]]
            place = None if out is None else layout(out)
            return self._plans[(kinds, layout(a), layout(b), place, transpose_a, transpose_b, precision)]
        except (KeyError, AttributeError, TypeError, RuntimeError):  # RuntimeError: a tensor of torch without strides
            pass
        treatment = arrays.of(a)
        for name, other in (("b", b), ("out", out)):
            if other is not None:
                if not treatment.has(other):
                    raise ArgumentError(
                        f"{name}: of type {type(other).__name__}; pass one of {kinds[0].__name__}, as a is"
                    )
                treatment.check_plain(other)
        check_types(a, b, out)
        precisions.check(precision, arrays.element(a))
        layout = _LAYOUTS[kinds[0]] = treatment.layout
        place = None if out is None else layout(out)
        key = (kinds, layout(a), layout(b), place, transpose_a, transpose_b, precision)
        with self._lock:
            plan = self._of_arrays(treatment, a, b, out, transpose_a, transpose_b, precision)
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _of_arrays(
        self,
        treatment: arrays.Arrays,
        a: Any,
        b: Any,
        out: Any,
        transpose_a: bool,
        transpose_b: bool,
        precision: str | None,
    ) -> Plan:
        """The plan for these arrays. Raises ArgumentError if they do not fit together."""
        for name, array in (("a", a), ("b", b)):
            if len(array.shape) not in (2, 3):
                raise ArgumentError(f"{name}: has shape {tuple(array.shape)}; pass a matrix, or a stack of matrices")
        stacks = stack_shape(a, transpose_a), stack_shape(b, transpose_b)
        batch, shape = result_shape(a, b, *stacks)
        if out is not None and tuple(out.shape) != shape:
            raise ArgumentError(f"out: has shape {tuple(out.shape)}; required: {shape}")
        device = device_name(self._places[type(a)](a))
        if not min(*stacks[0], *stacks[1]):
            return empty_plan(treatment, (shape, arrays.element(a)), stacks[0][2], device)
        left, right = (
            treatment.stacked(treatment.transposed(x) if is_transposed else x)
            for x, is_transposed in ((a, transpose_a), (b, transpose_b))
        )
        target = treatment.empty(shape, arrays.element(a), a) if out is None else out
        repeats = [None if x.shape[0] == batch else batch for x in (left, right)]
        left, right = (
            x if repeat is None else treatment.repeated(x, repeat)
            for x, repeat in zip((left, right), repeats, strict=True)
        )
        way = Ways(treatment, (treatment.stacked(target), left, right), device, _handle).best(precision)
        prepare = [
            treatment.preparation(len(x.shape), is_transposed != takes_transposed, repeat, copied)
            for x, is_transposed, takes_transposed, repeat, copied in zip(
                (a, b), (transpose_a, transpose_b), way.transposed, repeats, way.types[1:], strict=True
            )
        ]
        on_out = treatment.preparation(len(shape), False, None, None, is_handed=way.types[0] is None)
        result, prepare_all = (shape, arrays.element(a)), (on_out, prepare[0], prepare[1])
        shortcut = None
        streams = treatment.streams(a)
        if way.types == (None, None, None) and streams is not None and not (b.requires_grad or target.requires_grad):
            shortcut = functools.partial(_shortcut, way.run, streams, prepare_all)
        return Plan(way.run, prepare_all, result, way.types[0], treatment, way.explain, shortcut)


def _shortcut(
    run: Callable[..., None],
    current: Callable[[Any], int],
    prepare: tuple[Callable[[Any], Any], ...],
    a: Any,
    b: Any,
    out: Any,
) -> Product | None:
    """A function that runs what `run` does on arrays like these, given their addresses alone; None if the library only
    serves in place of a kernel, or the kernel reads the strides of each call."""
    if isinstance(run, Dispatcher):
        kernel = run.kernel(*(on(array) for on, array in zip(prepare, (out, a, b), strict=True)))
        if isinstance(kernel, Substitute) or kernel.space.operation.leading:
            return None
        return direct_library(kernel, current) if isinstance(kernel, LibraryKernel) else direct(kernel, current)
    return direct_library(run, current) if isinstance(run, LibraryKernel) else None


@functools.cache
def _handle(
    types: tuple[str, ...], transposed: tuple[bool, bool], device: str, names: Names, strided: bool = False
) -> Dispatcher | None:
    """The handle of the family of these names that multiplies these types (of C, A, B) on a device; None if there is
    none.

    `transposed`: whether its A and B are stored transposed. `strided`: only kernels with leading dimensions.
    """
    kind = devices.split(device)[0]
    for each in families(names):
        op = each.operation
        has_types = all(wanted in op.types.get(a.dtype, (a.dtype,)) for a, wanted in zip(op.arrays, types, strict=True))
        stored = products.is_transposed(each.spaces[0], "A"), products.is_transposed(each.spaces[0], "B")
        if not has_types or stored != transposed:
            continue
        members = [s for s in each.spaces if kind in devices.kinds_of(s) and (s.operation.leading or not strided)]
        if members:
            return dispatch([space.name for space in members] if strided else each.name, device=device)
    return None


matmul = Matmul()
