"""How arrays are prepared for a product of stacks of matrices, and what they must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.errors import ArgumentError
from tuner.families.explanations import Explanation
from tuner.families.matrices import arrays

TYPES = ("float32", "float16", "bfloat16")
Tell = Callable[..., Explanation]  # of the stacks C, A, B


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


def check_types(a: Any, b: Any, out: Any) -> None:
    """Raise ArgumentError for operands and an output of types that are not multiplied."""
    for name, array in (("a", a), ("b", b), ("out", out)):
        if array is None:
            continue
        allowed = (arrays.element(a),) if name == "b" else TYPES
        if (given := arrays.element(array)) not in allowed:
            raise ArgumentError(f"{name}: has dtype {given}; allowed: {', '.join(allowed)}")


def stack_shape(array: Any, is_transposed: bool) -> tuple[int, ...]:
    """The shape of a matrix or a stack of these as a stack."""
    *batch, rows, columns = array.shape
    return (*(batch or [1]), *((columns, rows) if is_transposed else (rows, columns)))


def result_shape(a: Any, b: Any, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
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


def of_nothing(treatment: arrays.Arrays, result: tuple[tuple[int, ...], str], depth: int, device: str) -> Plan:
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
