"""The plan of a matrix product: how its arrays are checked, prepared and multiplied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.devices.cuda.arrays import PlacedArray
from tuner.errors import ArgumentError, MisalignedArray
from tuner.families.explanations import Explanation
from tuner.families.matrices import arrays
from tuner.families.vendor import LibraryKernel

TYPES = ("float32", "float16", "bfloat16")
RETRY = 16  # calls after which a plan asks again for its shortcut
StackExplainer = Callable[..., Explanation]  # takes the stacks C, A, B
Product = Callable[[Any, Any, Any, float, float], None]  # takes a, b, out, alpha and beta


@dataclass
class Plan:
    """How the arrays of a call are multiplied.

    `prepare` converts C, A and B into stacks, which `run` multiplies. `result` is the shape and type of a new output.
    `temporary` is the type of a temporary output that is copied to C afterwards; None if C is written directly.
    `shortcut` returns a function that multiplies the arrays a, b and out themselves, None if there is none yet; it is
    None if there will be none.
    """

    run: Callable[..., None]
    prepare: tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]  # C, A, B
    result: tuple[tuple[int, ...], str]
    temporary: str | None
    treatment: arrays.Arrays
    explain_stacks: StackExplainer
    shortcut: Callable[[Any, Any, Any], Product | None] | None = None
    _direct: Product | None = None
    _calls: int = 0  # without the shortcut

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
        if self._direct is not None:
            try:
                self._direct(a, b, out, alpha, beta)
                return
            except MisalignedArray:  # nothing was enqueued; another kernel may take these arrays
                pass
        elif self.shortcut is not None:
            if self._calls % RETRY == 0:
                self._direct = self.shortcut(a, b, out)
            self._calls += 1
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


def direct(kernel: Callable[..., None], current: Callable[[Any], int]) -> Product:
    """A function that launches a kernel on arrays whose layouts are known, by their addresses alone.

    To make views of the arrays, and to read their shapes and types again, takes longer than the launch. `current`
    returns the current stream.
    """

    def multiply(a: Any, b: Any, out: Any, alpha: float, beta: float) -> None:
        stream = current(a)
        placed = (
            PlacedArray(out.data_ptr(), stream),
            PlacedArray(a.data_ptr(), stream),
            PlacedArray(b.data_ptr(), stream),
        )
        if alpha == 1 and beta == 0:
            kernel(*placed)
        else:
            kernel(*placed, alpha=alpha, beta=beta)

    return multiply


def direct_library(library: LibraryKernel, current: Callable[[Any], int]) -> Product:
    """`direct` for the library, which needs no arrays in place of the addresses."""
    at, with_factors = library.at, direct(library, current)

    def multiply(a: Any, b: Any, out: Any, alpha: float, beta: float) -> None:
        if alpha == 1 and beta == 0:
            at((out.data_ptr(), a.data_ptr(), b.data_ptr(), current(a), 1.0, 0.0))
        else:
            with_factors(a, b, out, alpha, beta)

    return multiply


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
