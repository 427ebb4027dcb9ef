"""How stacks of matrices are multiplied: by a kernel as they lie, by the vendor's library, or by copies of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tuner import devices
from tuner.devices import Device
from tuner.devices.arguments import ArraySpec
from tuner.devices.product import MatrixProduct
from tuner.errors import ArgumentError, MisalignedArray, NoConfiguration, RequestError, TrialError
from tuner.families import arrays, family, products
from tuner.families.dispatcher import Dispatcher, dispatch
from tuner.families.explanations import Explanation, explained
from tuner.families.stacks import CONTIGUOUS, OTHER, TRANSPOSED, Stack
from tuner.families.vendor import LibraryKernel
from tuner.space.dtypes import DTYPES
from tuner.space.scope import Scope
from tuner.store.lookup import Candidate

FAMILIES = ("sgemm", "hgemm", "gemm16", "gemm16_nt")  # of which those are asked that ship
Tell = Callable[..., Explanation]  # of the stacks C, A, B


@dataclass(frozen=True)
class Way:
    """How one combination of stacks is multiplied. `run` takes the stacks C, A, B. `types` are those that they are
    copied to first, None if they are taken as they lie; that of C is written back. `turned`: whether `run` takes A and
    B stored transposed, as contiguous arrays. `tell` says of the same stacks what runs, and why."""

    run: Callable[..., None]
    types: tuple[str | None, str | None, str | None]
    turned: tuple[bool, bool]
    tell: Tell


def way(treatment: arrays.Arrays, stacks: tuple[Any, Any, Any], device: str) -> Way:
    """How the stacks C, A, B are multiplied. Raises ArgumentError for an output whose elements share memory, and
    RequestError where no kernel multiplies such elements on the device."""
    C, A, B = (Stack(tuple(x.shape), tuple(treatment.strides(x)), arrays.element(x)) for x in stacks)
    if not C.is_apart:
        raise ArgumentError(f"out: has strides {C.strides}, by which elements share memory; pass another array")
    found = (
        _by_kernel(treatment, stacks, (C, A, B), device)
        or _by_library((C, A, B), device)
        or _by_copies(treatment, stacks, (C, A, B), device)
    )
    if found is None:
        raise RequestError(f"matmul: no kernel multiplies {A.dtype} on {device}; see `tune list`")
    return found


def _by_kernel(treatment: arrays.Arrays, stacks: Any, operands: tuple[Stack, Stack, Stack], device: str) -> Way | None:
    """The way without a copy, by a family that takes matrices as these lie; None if there is none."""
    C, A, B = operands
    types = tuple(operand.dtype for operand in operands)
    turned = A.lies == TRANSPOSED, B.lies == TRANSPOSED
    if C.lies != CONTIGUOUS or not {A.lies, B.lies} <= {CONTIGUOUS, TRANSPOSED}:
        if not all(each.is_row_major and each.runs_forward and each.is_apart for each in operands):
            return None
        handle = _handle(types, (False, False), device, strided=True)
        how = "rows apart"
        turned = False, False
    else:
        handle = _handle(types, turned, device)
        how = "as they lie"
    if handle is None:
        return None
    views = _views(treatment, stacks, turned)
    try:
        handle.kernel(*map(treatment.handed, views))
    except (NoConfiguration, TrialError):
        return None
    return Way(handle, (None, None, None), turned, functools.partial(_told, handle, how))


def _by_copies(treatment: arrays.Arrays, stacks: Any, operands: tuple[Stack, Stack, Stack], device: str) -> Way | None:
    """The way by copies that are contiguous; of halves perhaps as float32, where no kernel takes them."""
    C, A, _ = operands
    for c_type, type_ in ((C.dtype, A.dtype), ("float32", A.dtype), ("float32", "float32")):
        handle = _handle((c_type, type_, type_), (False, False), device)
        if handle is None:
            continue
        needed = [
            None if operand.lies == CONTIGUOUS and operand.dtype == wanted else wanted
            for operand, wanted in zip(operands, (c_type, type_, type_), strict=True)
        ]
        copied = [
            f"a copy of {name}" + (f" as {wanted}" if wanted != operand.dtype else "")
            for name, operand, wanted in zip(("out", "a", "b"), operands, needed, strict=True)
            if wanted
        ]
        samples = [
            treatment.empty(stack.shape, wanted, stack) if wanted else stack
            for stack, wanted in zip(stacks, needed, strict=True)
        ]
        try:
            handle.kernel(*map(treatment.handed, samples))
        except (NoConfiguration, TrialError):
            continue
        why = f"; no kernel and no library takes {_words(operands)} as they lie"
        tell = functools.partial(_told, handle, ", ".join(copied), why=why)
        return Way(handle, (needed[0], needed[1], needed[2]), (False, False), tell)
    return None


def _told(handle: Dispatcher, how: str, *stacks: Any, why: str = "") -> Explanation:
    """What a handle runs on stacks, and why."""
    kernel = handle.kernel(*stacks)
    try:
        kernel.check(*stacks)
    except MisalignedArray:
        how = "a copy of out, a copy of a, a copy of b"
        why = "; nothing takes them where they begin"
    except ArgumentError:  # a call says it
        pass
    told = explained(kernel, how)
    return replace(told, why=told.why + why)


def _views(treatment: arrays.Arrays, stacks: Any, turned: tuple[bool, bool]) -> list[Any]:
    C, A, B = stacks
    return [C, *(treatment.transposed(x) if is_turned else x for x, is_turned in zip((A, B), turned, strict=True))]


def _words(operands: tuple[Stack, Stack, Stack]) -> str:
    return ", ".join(f"{name} ({each.lies})" for name, each in zip(("out", "a", "b"), operands, strict=True))


@functools.cache
def _device(name: str) -> Device:
    return devices.shared(name)


@functools.cache
def _families() -> tuple[family.Family, ...]:
    """The families of products that ship."""
    from tuner.space import catalog

    shipped = {entry.name.partition("/")[0] for entry in catalog.shipped()}
    return tuple(family.find(name) for name in FAMILIES if name in shipped)


@functools.cache
def _handle(types: tuple[str, ...], turned: tuple[bool, bool], device: str, strided: bool = False) -> Dispatcher | None:
    """The handle of the family that multiplies these types (of C, A, B) on a device; None if there is none."""
    kind = devices.split(device)[0]
    for each in _families():
        op = each.operation
        is_right = all(wanted in op.types.get(a.dtype, (a.dtype,)) for a, wanted in zip(op.arrays, types, strict=True))
        if not is_right or (products.is_turned(each.spaces[0], "A"), products.is_turned(each.spaces[0], "B")) != turned:
            continue
        members = [s for s in each.spaces if kind in devices.kinds_of(s) and (s.operation.leading or not strided)]
        if members:
            return dispatch([space.name for space in members] if strided else each.name, device=device)
    return None


def _by_library(operands: tuple[Stack, Stack, Stack], device: str) -> Way | None:
    """The way by the vendor's library, which takes transposes and rows that lie apart; None if it does not."""
    C, A, B = operands
    if OTHER in (A.lies, B.lies) or not C.is_row_major or not all(each.runs_forward for each in operands):
        return None
    space = next((f.spaces[-1] for f in _families() if not products.is_turned(f.spaces[0], "B")), None)
    if space is None:
        return None
    specs = []
    for argument, operand in zip(space.operation.arrays, operands, strict=True):
        plain = ArraySpec.of(argument, operand.shape, DTYPES[operand.dtype], alignment=1)
        specs.append(plain.with_strides(operand.strides))
    given = [operand.matrices for operand in operands]
    batch, M, N = C.shape
    K, opened = A.shape[2], _device(device)
    launch = opened.product(MatrixProduct(M, N, K, batch, (specs[0], specs[1], specs[2]), given[0], given[1], given[2]))
    if launch is None:
        return None
    scope = Scope({"M": M, "N": N, "K": K, "batch": batch}, {"alpha": 1.0, "beta": 0.0}, opened.language, opened.limits)
    kernel = LibraryKernel(space, scope, opened, Candidate({}, "default"), launch)
    why = f"no kernel takes {_words(operands)} of {A.dtype} as they lie, and the library does"
    told = explained(kernel, because=why)
    return Way(kernel, (None, None, None), (False, False), lambda *stacks: told)
