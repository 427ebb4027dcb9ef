"""`tuner.matmul` on the host: matrices as they lie, and what becomes of those that no kernel takes so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tuner
from tuner.errors import ArgumentError, RequestError

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
    "matrices": (lambda: (A, B), "as they lie"),
    "a row": (lambda: (A[:1], B), "as they lie"),
    "stacks": (lambda: (random(3, 7, 5), random(3, 5, 2)), "as they lie"),
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


@pytest.mark.parametrize("name", LYING)
def test_the_product_is_right_however_matrices_lie_and_what_was_copied_is_told(name: str) -> None:
    make, how = LYING[name]
    a, b = make()
    c = tuner.matmul(a, b)
    assert (c.dtype, c.shape) == (a.dtype, (a.astype(np.float32) @ b.astype(np.float32)).shape)
    assert close(c, a.astype(np.float32) @ b.astype(np.float32))
    told = tuner.matmul.explain(a, b)
    assert (told.how[: len(how)], told.kernel) == (how, "sgemm/01_host_blocked")
    assert ("neither" in told.why or "no kernel" in told.why) == (how != "as they lie")


def test_operands_may_be_given_transposed() -> None:
    assert close(tuner.matmul(A.T, B, transpose_a=True), A @ B)
    assert tuner.matmul.explain(A.T, B, transpose_a=True).how == "as they lie"
    stacked, other = random(3, 5, 7), random(3, 2, 5)
    assert close(
        tuner.matmul(stacked, other, transpose_a=True, transpose_b=True), stacked.mT @ np.swapaxes(other, 1, 2)
    )


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
    "shapes": (lambda: tuner.matmul(A, A), r"a, b: have shapes \(37, 53\) and \(37, 53\), which makes 37 x 53 times"),
    "batches": (lambda: tuner.matmul(random(2, 3, 4), random(3, 4, 5)), "2 and 3 of them; they cannot be multiplied"),
    "a vector": (lambda: tuner.matmul(A[0], B), r"a: has shape \(53,\); pass a matrix, or a stack"),
    "doubles": (lambda: tuner.matmul(A.astype(float), B.astype(float)), "a: has dtype float64; allowed: float32, fl"),
    "two types": (lambda: tuner.matmul(A, B.astype(np.float16)), "b: has dtype float16; allowed: float32"),
    "a list": (lambda: tuner.matmul(A, [[1.0]]), "b: of type list; pass one of ndarray, as a is"),
    "two lists": (lambda: tuner.matmul([[1.0]], [[1.0]]), "an array of type list: pass arrays of NumPy, CuPy, torch"),
    "an output": (lambda: tuner.matmul(A, B, random(3, 3)), r"out: has shape \(3, 3\); needed is \(37, 29\)"),
    "nothing to add to": (lambda: tuner.matmul(A, B, beta=1.0), "there is no out to add to; pass one"),
    "itself": (lambda: tuner.matmul(SQUARE, SQUARE, SQUARE), "shares memory with"),
}
SQUARE = random(16, 16)


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_one_message(name: str) -> None:
    call, told = REFUSED[name]
    with pytest.raises((ArgumentError, RequestError), match=told):
        call()


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
