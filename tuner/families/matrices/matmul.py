"""`tuner.matmul`: products of matrices with any strides, by a kernel, the vendor library, or copies.

Every kernel accepts contiguous matrices; some accept transposed or strided ones. The vendor library accepts both.
Operands that neither accepts are copied. This is decided once for each combination of shapes, strides and types.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner import devices
from tuner.devices import Device
from tuner.devices.arguments import ArraySpec
from tuner.devices.forking import ForkLock
from tuner.devices.product import MatrixProduct
from tuner.errors import ArgumentError, MisalignedArray, NoConfiguration, RequestError, TrialError
from tuner.families import family, products
from tuner.families.dispatcher import Dispatcher, dispatch
from tuner.families.explanations import WITHOUT_COPIES, Explanation, explained
from tuner.families.matrices import arrays, precisions
from tuner.families.matrices.plans import (
    Plan,
    Product,
    StackExplainer,
    check_types,
    direct,
    direct_library,
    empty_plan,
    result_shape,
    stack_shape,
)
from tuner.families.matrices.stacks import CONTIGUOUS, OTHER, TRANSPOSED, Stack
from tuner.families.places import Places, device_name
from tuner.families.vendor import LibraryKernel, Substitute
from tuner.quoting import quoted
from tuner.space.dtypes import DTYPES
from tuner.space.scope import Scope
from tuner.store.lookup import Candidate

STRIDED = "strided rows"  # how arrays are passed, in an explanation
MOST_PLANS = 1024  # in the cache
Names = tuple[str, ...]  # of families
_LAYOUTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}  # by array type: returns shape, strides, dtype, device


@dataclass(frozen=True)
class Way:
    """How one combination of stacks is multiplied.

    `run` takes the stacks C, A, B. `types` are the types that C, A and B are copied to before; None for no copy. A
    copied C is written back. `transposed` says whether `run` takes A and B as contiguous arrays of their transposes.
    `explain` takes the same stacks as `run`.
    """

    run: Callable[..., None]
    types: tuple[str | None, str | None, str | None]
    transposed: tuple[bool, bool]
    explain: StackExplainer


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
        way = _way(treatment, (treatment.stacked(target), left, right), device, precision)
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


def _way(treatment: arrays.Arrays, stacks: tuple[Any, Any, Any], device: str, precision: str | None) -> Way:
    """How the stacks C, A, B are multiplied, with this precision unless there is a reason to set it aside.

    Raises ArgumentError for an output whose elements overlap, and RequestError if no kernel multiplies this type on the
    device.
    """
    C, A, B = (Stack(tuple(x.shape), tuple(treatment.strides(x)), arrays.element(x)) for x in stacks)
    if not C.is_disjoint:
        raise ArgumentError(f"out: has strides {C.strides}, so its elements overlap in memory; pass another array")
    if precision is None:
        return _plain_way(treatment, stacks, (C, A, B), device)
    try:
        return _way_of(precision, treatment, stacks, (C, A, B), device)
    except precisions.SetAside as reason:
        way = _plain_way(treatment, stacks, (C, A, B), device)
        why = f"; precision {quoted(precision)} is set aside: {reason}"
        return replace(way, explain=lambda *stacks: _adding(why, way.explain(*stacks)))


def _adding(why: str, explanation: Explanation) -> Explanation:
    return replace(explanation, why=explanation.why + why)


def _way_of(
    precision: str, treatment: arrays.Arrays, stacks: Any, operands: tuple[Stack, Stack, Stack], device: str
) -> Way:
    """The way of a precision. Raises SetAside if the plain families are to multiply."""
    C, A, _ = operands
    precisions.check_size(C.shape, A.shape[2])
    names = precisions.FAMILIES[precision]
    way = _by_kernel(treatment, stacks, operands, device, names) or _by_copies(
        treatment, stacks, operands, device, names
    )
    if way is None:
        raise precisions.SetAside(f"none of its kernels runs on {device}")
    return way


def _plain_way(treatment: arrays.Arrays, stacks: Any, operands: tuple[Stack, Stack, Stack], device: str) -> Way:
    """The way without a precision."""
    way = (
        _by_kernel(treatment, stacks, operands, device, precisions.PLAIN)
        or _by_library(operands, device)
        or _by_copies(treatment, stacks, operands, device, precisions.PLAIN)
    )
    if way is None:
        raise RequestError(f"matmul: no kernel multiplies {operands[1].dtype} on {device}; see `tune list`")
    return way


def _by_kernel(
    treatment: arrays.Arrays, stacks: Any, operands: tuple[Stack, Stack, Stack], device: str, names: Names
) -> Way | None:
    """By a family whose kernels accept these strides, without a copy; None if there is none."""
    C, A, B = operands
    types = tuple(operand.dtype for operand in operands)
    transposed = A.order == TRANSPOSED, B.order == TRANSPOSED
    if C.order != CONTIGUOUS or not {A.order, B.order} <= {CONTIGUOUS, TRANSPOSED}:
        if not all(each.is_row_major and each.runs_forward and each.is_disjoint for each in operands):
            return None
        handle = _handle(types, (False, False), device, names, strided=True)
        how = STRIDED
        transposed = False, False
    else:
        handle = _handle(types, transposed, device, names)
        how = WITHOUT_COPIES
    if handle is None:
        return None
    views = _views(treatment, stacks, transposed)
    try:
        kernel = handle.kernel(*map(treatment.handed, views))
    except (NoConfiguration, TrialError):
        return None
    if names != precisions.PLAIN:
        _check_gain(kernel, handle, device, views)
    return Way(handle, (None, None, None), transposed, functools.partial(_explained, handle, how))


def _by_copies(
    treatment: arrays.Arrays, stacks: Any, operands: tuple[Stack, Stack, Stack], device: str, names: Names
) -> Way | None:
    """By contiguous copies; 16-bit operands are copied to float32 if no kernel takes their type. None if impossible."""
    C, A, _ = operands
    for c_type, type_ in ((C.dtype, A.dtype), ("float32", A.dtype), ("float32", "float32")):
        handle = _handle((c_type, type_, type_), (False, False), device, names)
        if handle is None:
            continue
        copy_types = [
            None if operand.order == CONTIGUOUS and operand.dtype == wanted else wanted
            for operand, wanted in zip(operands, (c_type, type_, type_), strict=True)
        ]
        copied = [
            f"a copy of {name}" + (f" as {wanted}" if wanted != operand.dtype else "")
            for name, operand, wanted in zip(("out", "a", "b"), operands, copy_types, strict=True)
            if wanted
        ]
        samples = [
            treatment.empty(stack.shape, wanted, stack) if wanted else stack
            for stack, wanted in zip(stacks, copy_types, strict=True)
        ]
        try:
            kernel = handle.kernel(*map(treatment.handed, samples))
        except (NoConfiguration, TrialError):
            continue
        if names != precisions.PLAIN:
            operands_copied = [x for x, wanted in zip(samples, copy_types, strict=True) if wanted]
            _check_gain(kernel, handle, device, samples, operands_copied)
        who = "no kernel and no library" if names == precisions.PLAIN else "no kernel of that precision"
        why = f"; {who} accepts {_words(operands)}"
        explain = functools.partial(_explained, handle, ", ".join(copied), why=why)
        return Way(handle, (copy_types[0], copy_types[1], copy_types[2]), (False, False), explain)
    return None


def _check_gain(
    kernel: object, handle: Dispatcher, device: str, stacks: Sequence[Any], copied: Sequence[Any] = ()
) -> None:
    """Raise SetAside if families that multiply the operands themselves are probably as fast as this one for these
    stacks, some of which are copied: the library is faster than it, unless it only serves until a kernel is built; or
    one of their kernels is as fast."""
    if isinstance(kernel, LibraryKernel) and not isinstance(kernel, Substitute):
        raise precisions.SetAside("the library is expected to be faster than its kernels")
    if copied or math.prod((*stacks[0].shape, stacks[1].shape[2])) < precisions.MOST_PRODUCTS_COMPARED:
        plain = _handle((arrays.element(stacks[0]),) * 3, (False, False), device, precisions.PLAIN)
        plain_ms = None if plain is None else plain.shortest_ms(*stacks)
        copies_ms = precisions.copies_ms(4 * math.prod(each.shape) for each in copied)
        precisions.check_gain(handle.shortest_ms(*stacks), plain_ms, copies_ms)


def _explained(handle: Dispatcher, how: str, *stacks: Any, why: str = "") -> Explanation:
    """What a handle runs on stacks, and why."""
    kernel = handle.kernel(*stacks)
    try:
        kernel.check(*stacks)
    except MisalignedArray:
        how = "a copy of out, a copy of a, a copy of b"
        why = "; no kernel and no library accepts their alignment"
    except ArgumentError:  # a call raises it
        pass
    explanation = explained(kernel, how)
    return replace(explanation, why=explanation.why + why)


def _views(treatment: arrays.Arrays, stacks: Any, transposed: tuple[bool, bool]) -> list[Any]:
    """C, and A and B as `transposed` says."""
    C, A, B = stacks
    return [C, *(treatment.transposed(x) if swap else x for x, swap in zip((A, B), transposed, strict=True))]


def _words(operands: tuple[Stack, Stack, Stack]) -> str:
    return ", ".join(
        f"{name} ({each.dtype}, {each.order})" for name, each in zip(("out", "a", "b"), operands, strict=True)
    )


@functools.cache
def _device(name: str) -> Device:
    return devices.shared(name)


@functools.cache
def _families(names: Names) -> tuple[family.Family, ...]:
    """Those of these families that ship."""
    from tuner.catalog import catalog

    shipped = {entry.name.partition("/")[0] for entry in catalog.shipped()}
    return tuple(family.find(name) for name in names if name in shipped)


@functools.cache
def _handle(
    types: tuple[str, ...], transposed: tuple[bool, bool], device: str, names: Names, strided: bool = False
) -> Dispatcher | None:
    """The handle of the family of these names that multiplies these types (of C, A, B) on a device; None if there is
    none.

    `transposed`: whether its A and B are stored transposed. `strided`: only kernels with leading dimensions.
    """
    kind = devices.split(device)[0]
    for each in _families(names):
        op = each.operation
        has_types = all(wanted in op.types.get(a.dtype, (a.dtype,)) for a, wanted in zip(op.arrays, types, strict=True))
        stored = products.is_transposed(each.spaces[0], "A"), products.is_transposed(each.spaces[0], "B")
        if not has_types or stored != transposed:
            continue
        members = [s for s in each.spaces if kind in devices.kinds_of(s) and (s.operation.leading or not strided)]
        if members:
            return dispatch([space.name for space in members] if strided else each.name, device=device)
    return None


def _by_library(operands: tuple[Stack, Stack, Stack], device: str) -> Way | None:
    """By the vendor library, which accepts transposed and strided rows; None if it does not accept these operands."""
    C, A, B = operands
    if OTHER in (A.order, B.order) or not C.is_row_major or not all(each.runs_forward for each in operands):
        return None
    space = next(
        (f.spaces[-1] for f in _families(precisions.PLAIN) if not products.is_transposed(f.spaces[0], "B")), None
    )
    if space is None:
        return None
    specs = []
    for argument, operand in zip(space.operation.arrays, operands, strict=True):
        plain = ArraySpec.of(argument, operand.shape, DTYPES[operand.dtype], alignment=1)
        specs.append(plain.with_strides(operand.strides))
    batch, M, N = C.shape
    K, opened = A.shape[2], _device(device)
    types = A.dtype, B.dtype, C.dtype
    launch = opened.product(MatrixProduct(M, N, K, batch, types, C.matrices, A.matrices, B.matrices), specs)
    if launch is None:
        return None
    scope = Scope({"M": M, "N": N, "K": K, "batch": batch}, {"alpha": 1.0, "beta": 0.0}, opened.language, opened.limits)
    kernel = LibraryKernel(space, scope, opened, Candidate({}, "default"), launch)
    why = f"no kernel accepts {_words(operands)}, and the library does"
    explanation = explained(kernel, because=why)
    return Way(kernel, (None, None, None), (False, False), lambda *stacks: explanation)


matmul = Matmul()
