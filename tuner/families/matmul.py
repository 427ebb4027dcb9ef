"""`tuner.matmul`: the product of matrices as they lie, by whatever takes them so.

A kernel takes contiguous matrices, some take them transposed or with rows apart; the vendor's library takes both. What
neither takes is copied. Which it is, is decided once for each combination of shapes, strides and types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.devices.fork_lock import ForkLock
from tuner.errors import ArgumentError, MisalignedArray, RequestError
from tuner.families import arrays, ways
from tuner.families.explanations import Explanation
from tuner.families.places import Places, device_name
from tuner.families.ways import Tell
from tuner.paths import quoted

TYPES = ("float32", "float16", "bfloat16")
MOST_PLANS = 1024
_LAYOUTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}  # by type of array: what tells two of them apart


@dataclass(frozen=True)
class Plan:
    """How arrays as they are passed are multiplied: what makes stacks of them, and what `run`s on these. `result` is
    the shape and the type of a new output, and `temporary` the type of what is written in its place."""

    run: Callable[..., None]
    prepare: tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]  # C, A, B
    result: tuple[tuple[int, ...], str]
    temporary: str | None
    treatment: arrays.Arrays
    tell: Tell

    def explain(self, a: Any, b: Any, out: Any) -> Explanation:
        """What multiplies these arrays, and why."""
        on_c, on_a, on_b = self.prepare
        target = on_c(out if out is not None else self.treatment.empty(*self.result, a))
        if self.temporary is not None:
            target = self.treatment.handed(self.treatment.empty(target.shape, self.temporary, target))
        return self.tell(target, on_a(a), on_b(b))

    def multiply(self, a: Any, b: Any, out: Any, alpha: float, beta: float) -> None:
        """Write alpha * a b + beta * out into `out`. Raises what a launch raises."""
        on_c, on_a, on_b = self.prepare
        options = {} if alpha == 1 and beta == 0 else {"alpha": alpha, "beta": beta}
        if self.temporary is None:
            self.run(on_c(out), on_a(a), on_b(b), **options)
            return
        treatment, target = self.treatment, on_c(out)
        treatment.check_target(out)
        written = treatment.written(target, self.temporary, beta)
        self.run(treatment.handed(written), on_a(a), on_b(b), **options)
        treatment.assign(target, written)


class Matmul:
    """The product of two matrices, or of two stacks of them."""

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
    ) -> Any:
        """alpha * a b + beta * out, in `out` if that is given, else in a new array of the operands' type.

        `a` and `b` are arrays of NumPy, CuPy, torch or PyCUDA, float32, float16 or bfloat16, of two axes or, as stacks,
        of three; a stack of one serves all matrices of the other. Sums are in float32. An `out` of float32 takes the
        sums of halves as they are. Raises ArgumentError for arrays that do not fit.
        """
        transpose_a, transpose_b = bool(transpose_a), bool(transpose_b)
        plan = self._planned(a, b, out, transpose_a, transpose_b)
        if out is None:
            if beta:
                raise RequestError(f"matmul(beta={quoted(beta)}): there is no out to add to; pass one")
            out = plan.treatment.empty(*plan.result, a)
        try:
            plan.multiply(a, b, out, alpha, beta)
        except MisalignedArray:  # nothing was enqueued, and nothing takes them where they begin
            treatment = plan.treatment
            treatment.check_target(out)
            written = treatment.written(out, arrays.element(out), beta)
            a, b = (treatment.copied(x, arrays.element(x)) for x in (a, b))
            self._planned(a, b, written, transpose_a, transpose_b).multiply(a, b, written, alpha, beta)
            treatment.assign(out, written)
        return out

    def explain(
        self, a: Any, b: Any, out: Any = None, *, transpose_a: bool = False, transpose_b: bool = False
    ) -> Explanation:
        """What the same call runs, and why: kernel, configuration, match, expected regret, and what became of arrays
        that lie in another way."""
        return self._planned(a, b, out, bool(transpose_a), bool(transpose_b)).explain(a, b, out)

    def _planned(self, a: Any, b: Any, out: Any, transpose_a: bool, transpose_b: bool) -> Plan:
        kinds = a.__class__, b.__class__, out.__class__
        try:
            layout = _LAYOUTS[kinds[0]]
            key = (kinds, layout(a), layout(b), None if out is None else layout(out), transpose_a, transpose_b)
            return self._plans[key]
        except (KeyError, AttributeError, TypeError, RuntimeError):  # RuntimeError: torch's, of what has no strides
            pass
        treatment = arrays.of(a)
        for name, other in (("b", b), ("out", out)):
            if other is not None:
                if not treatment.has(other):
                    raise ArgumentError(
                        f"{name}: of type {type(other).__name__}; pass one of {kinds[0].__name__}, as a is"
                    )
                treatment.check_plain(other)
        _check_types(a, b, out)
        layout = _LAYOUTS[kinds[0]] = treatment.layout
        key = (kinds, layout(a), layout(b), None if out is None else layout(out), transpose_a, transpose_b)
        with self._lock:
            plan = self._of_arrays(treatment, a, b, out, transpose_a, transpose_b)
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _of_arrays(
        self, treatment: arrays.Arrays, a: Any, b: Any, out: Any, transpose_a: bool, transpose_b: bool
    ) -> Plan:
        """The plan for these arrays. Raises ArgumentError where they do not fit."""
        for name, array in (("a", a), ("b", b)):
            if len(array.shape) not in (2, 3):
                raise ArgumentError(f"{name}: has shape {tuple(array.shape)}; pass a matrix, or a stack of matrices")
        stacks = _stack_shape(a, transpose_a), _stack_shape(b, transpose_b)
        batch, shape = _result_shape(a, b, *stacks)
        if out is not None and tuple(out.shape) != shape:
            raise ArgumentError(f"out: has shape {tuple(out.shape)}; needed is {shape}")
        device = device_name(self._places[type(a)](a))
        if not min(*stacks[0], *stacks[1]):
            return _of_nothing(treatment, (shape, arrays.element(a)), stacks[0][2], device)
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
        way = ways.way(treatment, (treatment.stacked(target), left, right), device)
        prepare = [
            treatment.preparation(len(x.shape), is_transposed != turned, repeat, copied)
            for x, is_transposed, turned, repeat, copied in zip(
                (a, b), (transpose_a, transpose_b), way.turned, repeats, way.types[1:], strict=True
            )
        ]
        on_out = treatment.preparation(len(shape), False, None, None, is_handed=way.types[0] is None)
        result = shape, arrays.element(a)
        return Plan(way.run, (on_out, prepare[0], prepare[1]), result, way.types[0], treatment, way.tell)


def _check_types(a: Any, b: Any, out: Any) -> None:
    """Raise ArgumentError for operands and an output of types that are not multiplied."""
    for name, array in (("a", a), ("b", b), ("out", out)):
        if array is None:
            continue
        allowed = (arrays.element(a),) if name == "b" else TYPES
        if (given := arrays.element(array)) not in allowed:
            raise ArgumentError(f"{name}: has dtype {given}; allowed: {', '.join(allowed)}")


def _stack_shape(array: Any, is_transposed: bool) -> tuple[int, ...]:
    """The shape of a matrix or a stack of these as a stack."""
    *batch, rows, columns = array.shape
    return (*(batch or [1]), *((columns, rows) if is_transposed else (rows, columns)))


def _result_shape(a: Any, b: Any, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The number of products, and the shape of the result, of stacks of these shapes. Raises ArgumentError where they
    do not fit."""
    (one, rows, inner), (other, depth, columns) = left, right
    if inner != depth or (one != other and 1 not in (one, other)):
        raise ArgumentError(
            f"a, b: have shapes {tuple(a.shape)} and {tuple(b.shape)}, which makes {rows} x {inner} times {depth} x "
            f"{columns}{f', {one} and {other} of them' if one != other else ''}; they cannot be multiplied"
        )
    batch = max(one, other) if min(one, other) else 0
    return batch, ((batch,) if 3 in (len(a.shape), len(b.shape)) else ()) + (rows, columns)


def _of_nothing(treatment: arrays.Arrays, result: tuple[tuple[int, ...], str], depth: int, device: str) -> Plan:
    """The plan for operands without elements: sums of nothing are 0."""

    def run(out: Any, a: Any, b: Any, alpha: float = 1.0, beta: float = 0.0) -> None:
        treatment.check_target(out)
        if min(out.shape):
            treatment.scale(out, beta)

    def as_it_is(array: Any) -> Any:
        return array

    *batch, rows, columns = result[0]
    sizes = {"M": rows, "N": columns, "K": depth, "batch": batch[0] if batch else 1}
    told = Explanation("none", {}, "exact", None, device, sizes, why="one of the sizes is 0")
    return Plan(run, (as_it_is, as_it_is, as_it_is), result, None, treatment, lambda *arrays: told)


matmul = Matmul()
