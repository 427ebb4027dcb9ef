"""Kernels that take leading dimensions are launched on views."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import LIBRARIES, in_threads, on_gpu, on_host
from helpers.strided import SIZES, part, parts, product
from tuner.devices import Device
from tuner.errors import ArgumentError

Array = np.ndarray[Any, np.dtype[Any]]


def expected(alpha: float = 1.0) -> Array:
    """The larger matrix of the product, in which its part alone has changed."""
    C, A, B = parts()
    part(0, C)[...] = alpha * (part(1, A) @ part(2, B))
    return C


def test_a_kernel_on_the_host_takes_views(host: Device, tmp_path: Path) -> None:
    kernel = tuner.load(product(tmp_path, is_c=True), SIZES, device=host)
    for alpha in (1.0, 2.0):
        C, A, B = parts()
        kernel(part(0, C), part(1, A), part(2, B), alpha=alpha)
        np.testing.assert_allclose(C, expected(alpha), rtol=1e-5)
        C = parts()[0]
        kernel.bind(part(0, C), part(1, A), part(2, B), alpha=alpha)()
        np.testing.assert_allclose(C, expected(alpha), rtol=1e-5)


@pytest.mark.slow
def test_views_of_any_strides_and_whole_arrays_take_turns(host: Device, tmp_path: Path) -> None:
    kernel = tuner.load(product(tmp_path, is_c=True), SIZES, device=host)
    random = np.random.default_rng(0)
    for width in (*range(12, 100), 12, 13, 14):
        A, B = (random.random((13, width), dtype=np.float32)[: shape[0], : shape[1]] for shape in ((5, 12), (12, 8)))
        C = np.zeros((5, 8), np.float32)
        kernel(C, A, B)
        np.testing.assert_allclose(C, A @ B, rtol=1e-5)
        kernel(C, A.copy(), B)
        np.testing.assert_allclose(C, A @ B, rtol=1e-5)


def test_an_opencl_kernel_takes_views(opencl: Any, tmp_path: Path) -> None:
    from pyopencl import array

    kernel = tuner.load(product(tmp_path), SIZES, device=opencl)
    C, A, B = (array.to_device(opencl.queue, x) for x in parts())
    for launch in (kernel, lambda *given: kernel.bind(*given)()):
        launch(part(0, C), part(1, A), part(2, B))
        np.testing.assert_allclose(C.get(), expected(), rtol=1e-5)
        C.set(parts()[0])
    with pytest.raises(ArgumentError, match="A: begins 4 bytes inside a buffer; on this device, a view must begin at"):
        kernel(part(0, C), A[:5, 1:13], part(2, B))
    whole = array.to_device(opencl.queue, np.zeros((16, 64), np.float32))
    with pytest.raises(ArgumentError, match="C: shares memory with B"):
        kernel(whole[4:9, 0:8], part(1, A), whole[0:12, 0:8])
    kernel(whole[4:9, 32:40], part(1, A), whole[0:12, 0:8])  # side by side


@pytest.mark.gpu
@pytest.mark.parametrize("library", [name for name in LIBRARIES if name != "own"])  # whose arrays have views
def test_a_cuda_kernel_takes_views_of_every_library(library: str, cuda: Device, tmp_path: Path) -> None:
    kernel = tuner.load(product(tmp_path), SIZES, device=cuda)
    C, A, B = (on_gpu(library, x) for x in parts())
    for launch in (kernel, kernel, lambda *given: kernel.bind(*given)()):
        launch(part(0, C), part(1, A), part(2, B))
        cuda.synchronize()
        np.testing.assert_allclose(on_host(C), expected(), rtol=1e-5)
        whole = [on_gpu(library, np.ascontiguousarray(part(i, x))) for i, x in enumerate(parts())]
        launch(*whole)
        cuda.synchronize()
        np.testing.assert_allclose(on_host(whole[0]), part(0, expected()), rtol=1e-5)
        C = on_gpu(library, parts()[0])
    with pytest.raises(ArgumentError, match="C: shares memory with A"):
        kernel(part(0, A), A[:5, :12], part(2, B))
    kernel(A[:5, 12:20], A[:5, :12], part(2, B))
    cuda.synchronize()


@pytest.mark.slow
def test_threads_share_a_kernel_on_views_of_their_own(host: Device, tmp_path: Path) -> None:
    kernel = tuner.load(product(tmp_path, is_c=True), SIZES, device=host)

    def run(number: int) -> None:
        A = np.random.default_rng(number).random((5, 12 + number), dtype=np.float32)[:, :12]
        B, C = np.ones((12, 8 + number), np.float32)[:, :8], np.zeros((5, 9), np.float32)[:, :8]
        for _ in range(200):
            kernel(C, A, B)
            np.testing.assert_allclose(C, A @ B, rtol=1e-5)

    in_threads(run, 8)


def test_a_pickled_kernel_takes_views(host: Device, tmp_path: Path) -> None:
    kernel = pickle.loads(pickle.dumps(tuner.load(product(tmp_path, is_c=True), SIZES, device=host)))
    C, A, B = parts()
    kernel(part(0, C), part(1, A), part(2, B))
    np.testing.assert_allclose(C, expected(), rtol=1e-5)


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def lying(shape: tuple[int, int], strides: tuple[int, int]) -> Array:
    """A view with these strides in bytes, from the middle of an array."""
    return np.ndarray(shape, np.float32, zeros(4000), offset=8000, strides=strides)


C, A, B = zeros(5, 8), zeros(5, 12), zeros(12, 8)
ALLOWED = r" \(bytes\); allowed are \[lda, 1\] elements of 4 bytes, and "
MISFITS: dict[str, tuple[tuple[Any, ...], str]] = {
    "backwards": ((C, lying((5, 12), (-48, 4)), B), r"A: has strides \(-48, 4\)" + ALLOWED + "rows must not overlap"),
    "repeated": ((C, lying((5, 12), (0, 4)), B), r"A: has strides \(0, 4\)" + ALLOWED + "rows must not overlap"),
    "overlapping": ((C, lying((5, 12), (40, 4)), B), "A: .*rows must not overlap or run backwards; pass a copy"),
    "every other": ((C, zeros(5, 24)[:, ::2], B), r"A: has strides \(96, 8\)" + ALLOWED + r"these are \(96, 4\) bytes"),
    "columns first": ((C, np.asfortranarray(zeros(5, 12)), B), r"A: has strides \(4, 20\)" + ALLOWED),
    "odd bytes": ((C, lying((5, 12), (50, 4)), B), "strides must be multiples of 4 bytes; pass a copy"),
    "shape": ((C, zeros(6, 20)[:, :12], B), r"A: has shape \(6, 12\)"),
    "dtype": ((C, np.zeros((5, 20))[:, :12], B), "A: has shape .* dtype float64"),
    "no array": ((C, [1.0], B), "A: of type list; pass a NumPy array"),
    "too few": ((C, A), "2 arrays given; it takes 3: C, A, B"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("misfit", MISFITS)
def test_a_view_that_does_not_fit_is_named(misfit: str, host: Device, tmp_path: Path) -> None:
    given, message = MISFITS[misfit]
    kernel = tuner.load(product(tmp_path, is_c=True), SIZES, device=host)
    for launch in (kernel, kernel.bind):
        with pytest.raises(ArgumentError, match=message):
            launch(*given)


def test_rows_begin_where_the_space_says(host: Device, tmp_path: Path) -> None:
    kernel = tuner.load(product(tmp_path, is_c=True, alignment=16), {"M": 5, "N": 8, "K": 12}, device=host)
    memory = zeros(4096)
    memory = memory[-memory.ctypes.data % 64 // 4 :][:4000]
    rows = {width: memory[: 20 * width].reshape(20, width) for width in (12, 16, 18)}
    aligned = [x.copy() if x.ctypes.data % 16 else x for x in (C, B)]
    kernel(aligned[0], rows[16][:5, :12], aligned[1])
    with pytest.raises(ArgumentError, match=r"A: has strides \(72, 4\).*each row must begin at a multiple of 4 elem"):
        kernel(aligned[0], rows[18][:5, :12], aligned[1])
    odd = tuner.load(product(tmp_path, is_c=True, alignment=16), {"M": 5, "N": 8, "K": 9}, device=host)
    odd(aligned[0], memory[:45].reshape(5, 9), aligned[1][:9])  # contiguous, as while it was tuned


def test_an_output_beside_its_inputs_in_one_matrix_is_taken(host: Device, tmp_path: Path) -> None:
    kernel = tuner.load(product(tmp_path, is_c=True), SIZES, device=host)
    whole = np.random.default_rng(0).random((12, 40), dtype=np.float32)
    A, B = whole[:5, :12], whole[:, 12:20]
    kernel(whole[:5, 20:28], A, B)
    np.testing.assert_allclose(whole[:5, 20:28], A @ B, rtol=1e-5)
    with pytest.raises(ArgumentError, match="C: shares memory with B"):
        kernel(whole[:5, 19:27], A, B)


SHARED = """\
title: t
operation:
  sizes: {M: , n: 6}
  extent: [M]
  arguments:
    - {name: y, dtype: float32, shape: [2, M, n], role: out, strides: [ld * M, ld, 1]}
    - {name: x, dtype: float32, shape: [2, M, n], role: in, strides: [step, ld, 1]}
    - {name: ld, dtype: int64}
    - {name: step, dtype: int8}
    - {name: M, dtype: int32}
    - {name: n, dtype: int32}
  reference: 2 * x
kernel: twice
languages: [c]
parameters: {unused: [1]}
"""
TWICE = """\
void twice(float *y, const float *x, long ld, signed char step, int M, int n) {
    for (int b = 0; b < 2; b++) for (int i = 0; i < M; i++) for (int j = 0; j < n; j++)
        y[b * ld * M + i * ld + j] = 2 * x[b * step + i * ld + j];
}
"""


@pytest.mark.slow
def test_arrays_share_a_leading_dimension_and_strides_may_be_expressions(host: Device, tmp_path: Path) -> None:
    (tmp_path / "twice.c").write_text(TWICE)
    (tmp_path / "twice.yaml").write_text(SHARED)
    kernel = tuner.load(tmp_path / "twice.yaml", "3", device=host)
    x, y = zeros(2, 5, 8)[:, :3, 1:7], zeros(2, 3, 8)[:, :, :6]
    x[...] = 5
    kernel(y, x)
    assert (y == 10).all()
    with pytest.raises(ArgumentError, match="ld: is 8 in y and 9 in x; pass arrays with the same value"):
        kernel(y, zeros(2, 5, 9)[:, :3, :6])
    with pytest.raises(
        ArgumentError, match=r"y: has strides .*\[ld \* M, ld, 1\] elements .* \(96, 32, 4\) bytes here"
    ):
        kernel(zeros(2, 5, 8)[:, :3, 1:7], x)
    with pytest.raises(ArgumentError, match=r"x: has strides .* step = 160 does not fit its int8; pass a copy"):
        kernel(y, zeros(2, 20, 8)[:, :3, 1:7])
    single = tuner.load(tmp_path / "twice.yaml", "1", device=host)
    x, y = zeros(2, 1, 6), zeros(2, 1, 9)[:, :, :6]
    x[...] = 7
    with pytest.raises(ArgumentError, match="y: has strides"):  # ld is told by no axis; so it is 6, as if contiguous
        single(y, x)
    single(y := zeros(2, 1, 6), x)
    assert (y == 14).all()


STEPS = """\
title: t
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n, n], role: in, strides: [ld, 1]}
    - {name: sums, dtype: float32, shape: [n], role: scratch, zeroed: once}
    - {name: ld, dtype: int64}
    - {name: n, dtype: int32}
  reference: sum(x, axis=1)
source: rows.c
steps:
  - {kernel: add, arguments: [sums, x, ld, n]}
  - {kernel: move, arguments: [y, sums, n]}
languages: [c]
parameters: {unused: [1]}
tolerance: {}
"""
ROWS = """\
void add(float *sums, const float *x, long ld, int n) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) sums[i] += x[i * ld + j];
}
void move(float *y, float *sums, int n) { for (int i = 0; i < n; i++) { y[i] = sums[i]; sums[i] = 0; } }
"""


@pytest.mark.slow
def test_steps_with_scratch_take_views_in_several_threads(host: Device, tmp_path: Path) -> None:
    (tmp_path / "rows.c").write_text(ROWS)
    (tmp_path / "rows.yaml").write_text(STEPS.replace("tolerance: {}\n", ""))
    kernel = tuner.load(tmp_path / "rows.yaml", "20", device=host)

    def run(number: int) -> None:
        whole = np.random.default_rng(number).random((20, 30), dtype=np.float32)
        for width in range(20, 30):
            x, y = np.ascontiguousarray(whole[:, :width])[:, :20], np.empty(20, np.float32)
            for launch in (kernel, kernel.bind(y, x)):
                launch(y, x) if launch is kernel else launch()
                np.testing.assert_allclose(y, x.sum(axis=1), rtol=1e-5)

    in_threads(run, 8)
