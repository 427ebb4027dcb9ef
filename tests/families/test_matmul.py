"""`tuner.matmul` on the host: matrices as they lie, and what becomes of those that no kernel takes so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tuner
from tuner.catalog import catalog
from tuner.devices.cuda.blas import gemm
from tuner.errors import ArgumentError, RequestError
from tuner.families import products
from tuner.families.dispatcher import Dispatcher
from tuner.families.matrices import plans, precisions
from tuner.families.matrices.matmul import Matmul  # a new one has no earlier plans
from tuner.families.matrices.stacks import Stack
from tuner.space.scope import Limits, Scope

Array = np.ndarray[Any, Any]
ERRORS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}  # relative to the largest element


def random(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).random(shape, dtype=np.float32).astype(dtype)


def close(given: Array, expected: Array) -> bool:
    wanted = expected.astype(np.float64)
    return bool(np.abs(given.astype(np.float64) - wanted).max() <= ERRORS[given.dtype.name] * np.abs(wanted).max())


A, B = random(37, 53), random(53, 29)
WIDE = random(60, 106)
LYING: dict[str, tuple[Callable[[], tuple[Array, Array]], str]] = {
    "matrices": (lambda: (A, B), "without copies"),
    "a row": (lambda: (A[:1], B), "without copies"),
    "stacks": (lambda: (random(3, 7, 5), random(3, 5, 2)), "without copies"),
    "one matrix for all of a stack": (lambda: (random(3, 7, 53), B), "a copy of b"),
    "a stack of one": (lambda: (random(1, 7, 5), random(3, 5, 2)), "a copy of a"),
    "a transposed view": (lambda: (A, np.asfortranarray(B)), "a copy of b"),
    "rows that lie apart": (lambda: (WIDE[:37, :53], B), "a copy of a"),
    "every other column": (lambda: (WIDE[:, ::2], B), "a copy of a"),
    "halves": (
        lambda: (A.astype(np.float16), B.astype(np.float16)),
        "a copy of out as float32, a copy of a as float32",
    ),
    "bfloat16": (lambda: (A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)), "a copy of out as float32"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LYING)
def test_the_product_is_right_however_matrices_lie_and_what_was_copied_is_told(name: str) -> None:
    make, how = LYING[name]
    a, b = make()
    c = tuner.matmul(a, b)
    assert (c.dtype, c.shape) == (a.dtype, (a.astype(np.float32) @ b.astype(np.float32)).shape)
    assert close(c, a.astype(np.float32) @ b.astype(np.float32))
    told = tuner.matmul.explain(a, b)
    assert (told.how[: len(how)], told.kernel) == (how, "sgemm/01_host_blocked")
    assert ("neither" in told.why or "no kernel" in told.why) == (how != "without copies")


def test_operands_may_be_given_transposed() -> None:
    assert close(tuner.matmul(A.T, B, transpose_a=True), A @ B)
    assert tuner.matmul.explain(A.T, B, transpose_a=True).how == "without copies"
    stacked, other = random(3, 5, 7), random(3, 2, 5)
    assert close(
        tuner.matmul(stacked, other, transpose_a=True, transpose_b=True), stacked.mT @ np.swapaxes(other, 1, 2)
    )


def test_where_no_kernel_has_the_precision_float32_is_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precisions, "LEAST_SIDE", 1)
    monkeypatch.setattr(precisions, "LEAST_PRODUCTS", 1)
    assert close(Matmul()(A, B, precision="fp32x3"), A @ B)
    told, plain = Matmul().explain(A, B, precision="fp32x3"), tuner.matmul.explain(A, B)
    assert told.kernel == plain.kernel
    assert told.why == f"{plain.why}; precision 'fp32x3' is set aside: none of its kernels runs on host:0"


def test_it_is_told_that_a_product_is_too_small_for_a_precision() -> None:
    told = str(tuner.matmul.explain(A, B, precision="fp32x3"))
    assert told.endswith("; precision 'fp32x3' is set aside: M, N or K is below 256")
    few = np.ones((300, 300), np.float32)
    told = str(tuner.matmul.explain(few, few, precision="fp32x3"))
    assert told.endswith("; precision 'fp32x3' is set aside: batch * M * N * K is below 268435456")
    assert "set aside" not in str(tuner.matmul.explain(few, few))


@pytest.mark.parametrize(
    ("lies", "own_ms", "told"),
    [
        (lambda b: b, 0.5, "its kernels are expected to take 0.5 ms, which"),
        (np.asfortranarray, 0.5, "its kernels are expected to take 0.5 ms, and copies 0.03 ms, which"),
        (np.asfortranarray, 0.4, "its kernels are expected to take 0.4 ms, and copies 0.03 ms, which"),
    ],
    ids=["matrices", "a transposed view", "a transposed view, but for whose copy it would be faster"],
)
def test_it_is_told_that_a_precision_would_not_be_faster(
    lies: Callable[[Array], Array], own_ms: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = lies(B)
    monkeypatch.setattr(precisions, "LEAST_SIDE", 1)
    monkeypatch.setattr(precisions, "LEAST_PRODUCTS", 1)
    monkeypatch.setitem(precisions.FAMILIES, "fp32x3", ("sgemm",))  # a family with kernels on the host
    assert "set aside" not in Matmul().explain(A, b, precision="fp32x3").why, "nothing is known of its times"
    times = iter([0.5, own_ms])  # the plain families are asked first
    monkeypatch.setattr(Dispatcher, "shortest_ms", lambda *_: next(times))
    why = Matmul().explain(A, b, precision="fp32x3").why
    assert why.endswith(
        f"; precision 'fp32x3' is set aside: {told} is not 1.2 times as fast as the 0.5 ms expected without it"
    )
    assert why.startswith(tuner.matmul.explain(A, b).why)


def test_a_precision_is_known_and_is_for_float32() -> None:
    with pytest.raises(RequestError, match=r"matmul\(precision='fp16'\): allowed: fp32x3, or None"):
        tuner.matmul(A, B, precision="fp16")
    with pytest.raises(RequestError, match="allowed: fp32x3"):
        tuner.matmul(A, B, precision=["fp32x3"])  # type: ignore[arg-type]  # a wrong type is what this tests
    with pytest.raises(ArgumentError, match="float16; allowed with precision='fp32x3': float32"):
        tuner.matmul(A.astype(np.float16), B.astype(np.float16), precision="fp32x3")


def test_an_output_is_scaled_and_added_to() -> None:
    out = random(37, 29)
    expected = 2 * (A @ B) + 3 * out
    assert tuner.matmul(A, B, out, alpha=2.0, beta=3.0) is out
    assert close(out, expected)
    apart = random(60, 60)
    part = apart[:37, ::2][:, :29]
    expected, untouched = 2 * (A @ B) + 3 * part, apart[:, 1::2].copy()
    tuner.matmul(A, B, part, alpha=2.0, beta=3.0)
    assert close(part, expected)
    np.testing.assert_array_equal(apart[:, 1::2], untouched)


def test_an_output_of_float32_takes_the_sums_of_halves_as_they_are() -> None:
    a, b, out = A.astype(np.float16), B.astype(np.float16), np.empty((37, 29), np.float32)
    assert close(tuner.matmul(a, b, out), a.astype(np.float32) @ b.astype(np.float32))


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "shapes": (lambda: tuner.matmul(A, A), r"a, b: have shapes \(37, 53\) and \(37, 53\): 37 x 53 times"),
    "batches": (
        lambda: tuner.matmul(random(2, 3, 4), random(3, 4, 5)),
        "in batches of 2 and 3; they cannot",
    ),
    "a vector": (lambda: tuner.matmul(A[0], B), r"a: has shape \(53,\); pass a matrix, or a stack"),
    "doubles": (lambda: tuner.matmul(A.astype(float), B.astype(float)), "a: has dtype float64; allowed: float32, fl"),
    "two types": (lambda: tuner.matmul(A, B.astype(np.float16)), "b: has dtype float16; allowed: float32"),
    "a list": (lambda: tuner.matmul(A, [[1.0]]), "b: of type list; pass one of ndarray, as a is"),
    "two lists": (lambda: tuner.matmul([[1.0]], [[1.0]]), "an array of type list: pass arrays of NumPy, CuPy, torch"),
    "an output": (lambda: tuner.matmul(A, B, random(3, 3)), r"out: has shape \(3, 3\); required: \(37, 29\)"),
    "nothing to add to": (lambda: tuner.matmul(A, B, beta=1.0), "there is no out to add to; pass one"),
    "itself": (lambda: tuner.matmul(SQUARE, SQUARE, SQUARE), "shares memory with"),
    "a masked array": (
        lambda: tuner.matmul(SQUARE, np.ma.masked_less(SQUARE, 0.5).T),
        "of type MaskedArray: pass a pl",
    ),
    "a class of its own": (
        lambda: tuner.matmul(SQUARE.view(Own), SQUARE),
        "of type Own: pass a plain array, such as np.asarray returns",
    ),
    "swapped bytes": (
        lambda: tuner.matmul(A.astype(">f4"), B),
        "a: has dtype >f4; allowed: float32, float16, bfloat16",
    ),
    "an output that repeats": (
        lambda: tuner.matmul(*HALVES, np.broadcast_to(np.ones(29, np.float16), (37, 29))),
        "out: has strides .* so its elements overlap in memory",
    ),
    "shared elements": (
        lambda: tuner.matmul(SQUARE, SQUARE, np.lib.stride_tricks.as_strided(random(40), (16, 16), (4, 4))),
        "out: has strides .* so its elements overlap in memory",
    ),
}


class Own(np.ndarray):
    """Arrays that may multiply by rules of their own."""


SQUARE = random(16, 16)
HALVES = A.astype(np.float16), B.astype(np.float16)


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_one_message(name: str) -> None:
    call, told = REFUSED[name]
    with pytest.raises((ArgumentError, RequestError), match=told):
        call()


def test_a_read_only_output_of_halves_is_refused_before_anything_is_computed() -> None:
    out = np.zeros((37, 29), np.float16)
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="out: is read-only; pass a writable array"):
        tuner.matmul(*HALVES, out)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_sums_of_nothing_are_zero_and_what_has_no_elements_is_left_so(dtype: Any) -> None:
    def empty(*shape: int) -> Array:
        return np.zeros(shape, dtype)

    for a, b in ((empty(4, 0), empty(0, 3)), (empty(0, 5), empty(5, 3)), (empty(2, 4, 5), empty(5, 0)),
                 (empty(0, 4, 5), empty(5, 3)), (empty(1, 4, 0), empty(3, 0, 2))):  # fmt: skip
        product = tuner.matmul(a, b)
        expected = np.matmul(a.astype(np.float32), b.astype(np.float32))
        assert (product.dtype, product.shape, product.any()) == (a.dtype, expected.shape, False)
        assert tuner.matmul.explain(a, b).why == "one of the sizes is 0"
    out = np.full((4, 3), 2, dtype)
    assert (tuner.matmul(empty(4, 0), empty(0, 3), out, beta=3.0) == 6).all()
    out[0, 0] = np.nan
    assert not tuner.matmul(empty(4, 0), empty(0, 3), out).any()
    with pytest.raises(ArgumentError, match="4 x 0 times 1 x 3; they cannot be multiplied"):
        tuner.matmul(empty(4, 0), empty(1, 3))


def unaligned(array: Array) -> Array:
    memory = np.zeros(array.nbytes + 1, np.uint8)
    moved = memory[1:].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_arrays_that_begin_amid_an_element_are_copied(dtype: Any) -> None:
    a, b, out = (unaligned(x.astype(dtype)) for x in (A, B, random(37, 29)))
    expected = 2 * (A @ B) + 3 * out.astype(np.float32)
    assert close(tuner.matmul(a, b), A @ B)
    assert tuner.matmul(a, b, out, alpha=2.0, beta=3.0) is out
    assert close(out, expected)
    if dtype is np.float32:
        for x, how in ((a, "a copy of out, a copy of a, a copy of b"), (a.copy(), "without copies")):
            assert tuner.matmul.explain(x, b.copy()).how == how


def test_an_array_on_disk_is_one_as_any_other(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "b", np.float32, "w+", shape=B.shape)
    mapped[...] = B
    assert close(tuner.matmul(A, mapped), A @ B)
    assert close(tuner.matmul(mapped.T, A.T), (A @ B).T)


def test_what_says_whether_an_operand_is_transposed_is_true_or_false() -> None:
    how: dict[str, Any] = {"transpose_a": None, "transpose_b": 0}
    assert close(tuner.matmul(A, B, **how), A @ B)


STACKS = np.arange(5 * 6 * 8, dtype=np.float32).reshape(5, 6, 8)
OF_STACKS: dict[str, tuple[Array, bool, bool]] = {  # whether elements are its own, and matrices follow one another
    "one after another": (STACKS, True, True),
    "rows of one between those of others": (STACKS.swapaxes(0, 1), True, True),
    "backwards": (STACKS[::-1], True, False),
    "the same again": (np.broadcast_to(STACKS[:1], STACKS.shape), False, True),
    "overlapping": (np.lib.stride_tricks.as_strided(STACKS, (3, 6, 8), (32, 32, 4)), False, True),
    "one, backwards": (STACKS[:1][::-1], True, True),
}


@pytest.mark.parametrize("name", OF_STACKS)
def test_what_a_library_must_know_of_a_stack_its_strides_tell(name: str) -> None:
    array, is_disjoint, runs_forward = OF_STACKS[name]
    stack = Stack(array.shape, tuple(stride // 4 for stride in array.strides), "float32")
    assert (stack.is_disjoint, stack.runs_forward) == (is_disjoint, runs_forward)


def test_cublas_is_not_asked_for_numbers_that_its_ints_do_not_hold() -> None:
    space, scope = catalog.load("sgemm/03_naive"), Scope({}, {"alpha": 1.0, "beta": 0.0}, "cuda", Limits())
    for large, fits in (({}, True), ({"M": 1 << 31}, False), ({"N": 1 << 32}, False), ({"batch": 1 << 33}, False)):
        product = products.product(space, replace(scope, sizes={"M": 2, "N": 3, "K": 4, "batch": 1, **large}))
        assert product is not None
        assert gemm.fits(product) == fits


def test_tensors_of_torch_on_the_processor_are_multiplied_where_they_lie() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    product = tuner.matmul(a, b)
    assert (type(product), product.dtype) == (torch.Tensor, torch.float32)
    assert close(product.numpy(), A @ B)
    half = tuner.matmul(a.bfloat16(), b.bfloat16())
    assert (half.dtype, close(half.float().numpy().astype(ml_dtypes.bfloat16), A @ B)) == (torch.bfloat16, True)
    with pytest.raises(ArgumentError, match="requires grad"):
        tuner.matmul(a.requires_grad_(), b)
    with pytest.raises(ArgumentError, match="out: requires grad"):
        tuner.matmul(b.mT, b, torch.zeros(29, 58)[:, ::2].requires_grad_())
    with pytest.raises(ArgumentError, match=r"a tensor of layout torch.sparse_coo: pass a dense one"):
        tuner.matmul(b.to_sparse(), b)
    with pytest.raises(ArgumentError, match=r"a tensor on meta: pass one on a CUDA GPU or on the CPU"):
        tuner.matmul(b.to("meta"), b.mT.to("meta"))
    assert not tuner.matmul(torch.zeros(4, 0), torch.zeros(0, 3)).any()


def test_the_library_gets_the_addresses_and_the_stream_of_arrays_whose_layouts_are_known() -> None:
    given: list[Any] = []

    class Library:
        at = staticmethod(given.append)

        def __call__(self, *arrays: Any, **factors: float) -> None:
            given.append(([(each.address, each.stream) for each in arrays], factors))

    library: Any = Library()
    multiply = plans.direct_library(library, lambda array: 5)
    a, b, out = (SimpleNamespace(data_ptr=lambda address=address: address) for address in (1, 2, 3))
    multiply(a, b, out, 1, 0)
    multiply(a, b, out, 2.0, 0.5)
    assert given == [(3, 1, 2, 5, 1.0, 0.0), ([(3, 5), (1, 5), (2, 5)], {"alpha": 2.0, "beta": 0.5})]
