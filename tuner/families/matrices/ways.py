"""The ways to multiply stacks of matrices with any strides: a kernel, the vendor library, or either on copies.

Every kernel accepts contiguous matrices; some accept transposed or strided ones. The vendor library accepts both.
Operands that neither accepts are copied.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from tuner import devices
from tuner.classes import dataclass
from tuner.devices import Device
from tuner.devices.arguments import ArraySpec
from tuner.devices.product import MatrixProduct
from tuner.errors import ArgumentError, MisalignedArray, NoConfiguration, RequestError, TrialError
from tuner.families import family, products
from tuner.families.explanations import WITHOUT_COPIES, Explanation, explained
from tuner.families.matrices import arrays, precisions
from tuner.families.matrices.plans import StackExplainer
from tuner.families.matrices.stacks import CONTIGUOUS, OTHER, TRANSPOSED, Stack
from tuner.families.vendor import LibraryKernel, Substitute
from tuner.quoting import quoted
from tuner.space.dtypes import DTYPES
from tuner.space.scope import Scope
from tuner.store.lookup import Candidate

if TYPE_CHECKING:
    from tuner.families.dispatcher import Dispatcher

STRIDED = "strided rows"  # how arrays are passed, in an explanation
Names = tuple[str, ...]  # of families


@dataclass(frozen=True)
class Way:
    """How one combination of stacks is multiplied.

    `run` takes the stacks C, A, B. `types` are the types to which C, A and B are copied first; None for no copy. A
    copied C is written back. `transposed` says for A and for B whether `run` takes the transpose, which is contiguous.
    `explain` takes the same stacks as `run`.
    """

    run: Callable[..., None]
    types: tuple[str | None, str | None, str | None]
    transposed: tuple[bool, bool]
    explain: StackExplainer


class Handles(Protocol):
    """Finds the handle that multiplies types (of C, A, B) on a device, among families of these names."""

    def __call__(
        self, types: tuple[str, ...], transposed: tuple[bool, bool], device: str, names: Names, strided: bool = False
    ) -> Dispatcher | None:
        """The handle; None if there is none. `transposed`: whether its A and B are stored transposed. `strided`: only
        kernels with leading dimensions."""


class Ways:
    """The ways to multiply the stacks C, A, B on a device."""

    def __init__(self, treatment: arrays.Arrays, stacks: tuple[Any, Any, Any], device: str, handles: Handles) -> None:
        """Raises ArgumentError for an output whose elements overlap."""
        self._treatment, self._stacks, self._device, self._handles = treatment, stacks, device, handles
        C, A, B = (Stack(tuple(x.shape), tuple(treatment.strides(x)), arrays.element(x)) for x in stacks)
        if not C.is_disjoint:
            raise ArgumentError(f"out: has strides {C.strides}, so its elements overlap in memory; pass another array")
        self._operands = C, A, B

    def best(self, precision: str | None) -> Way:
        """The way with this precision, or the plain way if there is a reason to set the precision aside.

        Raises RequestError if no kernel multiplies this type on the device.
        """
        if precision is None:
            return self._plain()
        try:
            return self._precise(precision)
        except precisions.SetAside as reason:
            way = self._plain()
            why = f"; precision {quoted(precision)} is set aside: {reason}"
            return replace(way, explain=lambda *stacks: _adding(why, way.explain(*stacks)))

    def _precise(self, precision: str) -> Way:
        """The way of a precision. Raises SetAside if the plain families are to multiply."""
        C, A, _ = self._operands
        precisions.check_size(C.shape, A.shape[2])
        names = precisions.FAMILIES[precision]
        way = self._by_kernel(names) or self._by_copies(names)
        if way is None:
            raise precisions.SetAside(f"none of its kernels runs on {self._device}")
        return way

    def _plain(self) -> Way:
        """The way without a precision."""
        way = self._by_kernel(precisions.PLAIN) or self._by_library() or self._by_copies(precisions.PLAIN)
        if way is None:
            dtype = self._operands[1].dtype
            raise RequestError(f"matmul: no kernel multiplies {dtype} on {self._device}; see `tune list`")
        return way

    def _by_kernel(self, names: Names) -> Way | None:
        """By a family whose kernels accept these strides, without a copy; None if there is none."""
        C, A, B = operands = self._operands
        types = tuple(operand.dtype for operand in operands)
        transposed = A.order == TRANSPOSED, B.order == TRANSPOSED
        if C.order != CONTIGUOUS or not {A.order, B.order} <= {CONTIGUOUS, TRANSPOSED}:
            if not all(each.is_row_major and each.runs_forward and each.is_disjoint for each in operands):
                return None
            handle = self._handles(types, (False, False), self._device, names, strided=True)
            how = STRIDED
            transposed = False, False
        else:
            handle = self._handles(types, transposed, self._device, names)
            how = WITHOUT_COPIES
        if handle is None:
            return None
        views = self._views(transposed)
        try:
            kernel = handle.kernel(*map(self._treatment.handed, views))
        except (NoConfiguration, TrialError):
            return None
        if names != precisions.PLAIN:
            self._check_gain(kernel, handle, views)
        return Way(handle, (None, None, None), transposed, functools.partial(_explained, handle, how))

    def _by_copies(self, names: Names) -> Way | None:
        """By contiguous copies; None if impossible. 16-bit operands are copied to float32 if no kernel takes their
        type."""
        C, A, _ = operands = self._operands
        for c_type, type_ in ((C.dtype, A.dtype), ("float32", A.dtype), ("float32", "float32")):
            handle = self._handles((c_type, type_, type_), (False, False), self._device, names)
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
                self._treatment.empty(stack.shape, wanted, stack) if wanted else stack
                for stack, wanted in zip(self._stacks, copy_types, strict=True)
            ]
            try:
                kernel = handle.kernel(*map(self._treatment.handed, samples))
            except (NoConfiguration, TrialError):
                continue
            if names != precisions.PLAIN:
                copied_operands = [x for x, wanted in zip(samples, copy_types, strict=True) if wanted]
                self._check_gain(kernel, handle, samples, copied_operands)
            who = "no kernel and no library" if names == precisions.PLAIN else "no kernel of that precision"
            why = f"; {who} accepts {_words(operands)}"
            explain = functools.partial(_explained, handle, ", ".join(copied), why=why)
            return Way(handle, (copy_types[0], copy_types[1], copy_types[2]), (False, False), explain)
        return None

    def _check_gain(
        self, kernel: object, handle: Dispatcher, stacks: Sequence[Any], copied: Sequence[Any] = ()
    ) -> None:
        """Raise SetAside if a plain family is probably as fast as this one for these stacks.

        That is so if the handle chose the library, or if a kernel of a plain family is as fast. A library that only
        serves until a kernel is built does not count. `copied` are the stacks that are copies."""
        if isinstance(kernel, LibraryKernel) and not isinstance(kernel, Substitute):
            raise precisions.SetAside("the library is expected to be faster than its kernels")
        if copied or math.prod((*stacks[0].shape, stacks[1].shape[2])) < precisions.MOST_PRODUCTS_COMPARED:
            plain = self._handles((arrays.element(stacks[0]),) * 3, (False, False), self._device, precisions.PLAIN)
            plain_ms = None if plain is None else plain.shortest_ms(*stacks)
            copies_ms = precisions.copies_ms(4 * math.prod(each.shape) for each in copied)
            precisions.check_gain(handle.shortest_ms(*stacks), plain_ms, copies_ms)

    def _by_library(self) -> Way | None:
        """By the vendor library, which accepts transposed and strided rows; None if it does not accept these
        operands."""
        C, A, B = operands = self._operands
        if OTHER in (A.order, B.order) or not C.is_row_major or not all(each.runs_forward for each in operands):
            return None
        space = next(
            (f.spaces[-1] for f in families(precisions.PLAIN) if not products.is_transposed(f.spaces[0], "B")), None
        )
        if space is None:
            return None
        specs = []
        for argument, operand in zip(space.operation.arrays, operands, strict=True):
            plain = ArraySpec.of(argument, operand.shape, DTYPES[operand.dtype], alignment=1)
            specs.append(plain.with_strides(operand.strides))
        batch, M, N = C.shape
        K, opened = A.shape[2], _device(self._device)
        types = A.dtype, B.dtype, C.dtype
        launch = opened.product(MatrixProduct(M, N, K, batch, types, C.matrices, A.matrices, B.matrices), specs)
        if launch is None:
            return None
        scope = Scope(
            {"M": M, "N": N, "K": K, "batch": batch}, {"alpha": 1.0, "beta": 0.0}, opened.language, opened.limits
        )
        kernel = LibraryKernel(space, scope, opened, Candidate({}, "default"), launch)
        why = f"no kernel accepts {_words(operands)}, and the library does"
        explanation = explained(kernel, because=why)
        return Way(kernel, (None, None, None), (False, False), lambda *stacks: explanation)

    def _views(self, transposed: tuple[bool, bool]) -> list[Any]:
        """C, A and B; A and B are transposed if `transposed` says so."""
        C, A, B = self._stacks
        turned = self._treatment.transposed
        return [C, *(turned(x) if swap else x for x, swap in zip((A, B), transposed, strict=True))]


def _adding(why: str, explanation: Explanation) -> Explanation:
    return replace(explanation, why=explanation.why + why)


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


def _words(operands: tuple[Stack, Stack, Stack]) -> str:
    return ", ".join(
        f"{name} ({each.dtype}, {each.order})" for name, each in zip(("out", "a", "b"), operands, strict=True)
    )


@functools.cache
def _device(name: str) -> Device:
    return devices.shared(name)


@functools.cache
def families(names: Names) -> tuple[family.Family, ...]:
    """The families of these names that ship with tuner."""
    from tuner.catalog import kernel_lists

    shipped = {entry.name.partition("/")[0] for entry in kernel_lists.shipped()}
    return tuple(family.find(name) for name in names if name in shipped)
