"""The plan of a matrix product: how its arrays are checked, prepared and multiplied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.errors import ArgumentError
from tuner.families.explanations import Explanation
from tuner.families.matrices import arrays

TYPES = ("float32", "float16", "bfloat16")
StackExplainer = Callable[..., Explanation]  # takes the stacks C, A, B


@dataclass(frozen=True)
class Plan:
    """How the arrays of a call are multiplied.

    `prepare` converts C, A and B into stacks, which `run` multiplies. `result` is the shape and type of a new output.
    `temporary` is the type of a temporary output that is copied to C afterwards; None if C is written directly.
    """

    run: Callable[..., None]
    prepare: tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]  # C, A, B
    result: tuple[tuple[int, ...], str]
    temporary: str | None
    treatment: arrays.Arrays
    explain_stacks: StackExplainer

    def explain(self, a: Any, b: Any, out: Any) -> Explanation:
        """What multiplies these arrays, and why."""
        on_c, on_a, on_b = self.prepare
        target = on_c(out if out is not None else self.treatment.empty(*self.result, a))
        if self.temporary is not None:
            target = self.treatment.handed(self.treatment.empty(target.shape, self.temporary, target))
        return self.explain_stacks(target, on_a(a), on_b(b))

    def build(self, a: Any, b: Any, out: Any) -> None:
        """Build the kernel that multiplies these arrays now, if the library does in its place meanwhile."""
        on_c, on_a, on_b = self.prepare
        build = getattr(self.run, "build", None)  # that of a Dispatcher
        if build is not None and self.temporary is None:
            build(on_c(out), on_a(a), on_b(b))

    def multiply(self, a: Any, b: Any, out: Any, alpha: float, beta: float) -> None:
        """Write alpha * a @ b + beta * out into `out`. Raises the errors of a launch."""
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
    """Raise ArgumentError for operands or an output of a type that `tuner.matmul` does not support."""
    for name, array in (("a", a), ("b", b), ("out", out)):
        if array is None:
            continue
        allowed = (arrays.element(a),) if name == "b" else TYPES
        if (given := arrays.element(array)) not in allowed:
            raise ArgumentError(f"{name}: has dtype {given}; allowed: {', '.join(allowed)}")


def stack_shape(array: Any, is_transposed: bool) -> tuple[int, ...]:
    """The shape [batch, rows, columns] of a matrix or a stack, after transposition."""
    *batch, rows, columns = array.shape
    return (*(batch or [1]), *((columns, rows) if is_transposed else (rows, columns)))


def result_shape(a: Any, b: Any, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The batch size and the shape of the product of stacks of these shapes.

    Raises ArgumentError if the shapes do not fit together.
    """
    (one, rows, inner), (other, depth, columns) = left, right
    if inner != depth or (one != other and 1 not in (one, other)):
        raise ArgumentError(
            f"a, b: have shapes {tuple(a.shape)} and {tuple(b.shape)}: {rows} x {inner} times {depth} x {columns}"
            f"{f', in batches of {one} and {other}' if one != other else ''}; they cannot be multiplied"
        )
    batch = max(one, other) if min(one, other) else 0
    return batch, ((batch,) if 3 in (len(a.shape), len(b.shape)) else ()) + (rows, columns)


def empty_plan(treatment: arrays.Arrays, result: tuple[tuple[int, ...], str], depth: int, device: str) -> Plan:
    """The plan for operands without elements, whose product is 0."""

    def run(out: Any, a: Any, b: Any, alpha: float = 1.0, beta: float = 0.0) -> None:
        treatment.check_target(out)
        if min(out.shape):
            treatment.scale(out, beta)

    def unchanged(array: Any) -> Any:
        return array

    *batch, rows, columns = result[0]
    sizes = {"M": rows, "N": columns, "K": depth, "batch": batch[0] if batch else 1}
    explanation = Explanation("none", {}, "exact", None, device, sizes, why="one of the sizes is 0")
    return Plan(run, (unchanged, unchanged, unchanged), result, None, treatment, lambda *arrays: explanation)
