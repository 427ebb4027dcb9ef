"""A kernel with leading dimensions is verified with padding behind rows too, which it meets nowhere while it is
tuned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from helpers.strided import product
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench

SIZE = "32"  # where all leading dimensions are alike


def failure(file: Path, device: Device, **config: Any) -> str | None:
    """Why the kernel fails in the final round."""
    space = catalog.load(str(file))
    bench = Bench(device, space, scope_of(space, device, SIZE))
    assert bench.measure(config).failure is None, "on contiguous arrays it is right"
    (final,) = bench.finals([config], 0.1).candidates
    return final.failure


@pytest.mark.slow
@pytest.mark.parametrize("alignment", [4, 64])
def test_a_kernel_that_takes_its_leading_dimensions_is_right(
    alignment: int, host: Device, opencl: Device, tmp_path: Path
) -> None:
    assert failure(product(tmp_path, alignment=alignment), opencl, threads=4) is None
    assert failure(product(tmp_path, is_c=True, alignment=alignment), host, threads=4) is None


@pytest.mark.gpu
def test_a_kernel_that_takes_its_leading_dimensions_is_right_on_a_gpu(cuda: Device, tmp_path: Path) -> None:
    assert failure(product(tmp_path), cuda, threads=32) is None
    assert "C[1, 0]" in (failure(product(tmp_path, a_row="K"), cuda, threads=32) or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("taken", "told"),
    [
        ({"a_row": "K"}, "C[1, 0] is not written, or NaN"),
        ({"a_row": "ldb"}, "C[1, 0] is not written, or NaN"),
        ({"c_row": "N"}, "writes into the padding behind the rows of C"),
        ({"c_row": "lda"}, "writes after the end of C"),
    ],
)
def test_a_kernel_that_ignores_one_or_takes_another_is_refused(
    taken: dict[str, str], told: str, host: Device, opencl: Device, tmp_path: Path
) -> None:
    for device in (host, opencl):
        found = failure(product(tmp_path, is_c=device is host, **taken), device, threads=4) or ""
        assert f": with ldc=33, lda=35, ldb=37: {told}" in found


C = """\
void f(TYPE *y, const TYPE *x, int ld, int n) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) y[i * ld + j] = 2 * x[i * ld + j];
    BODY
}
"""


def doubled(folder: Path, body: str = "", dtype: str = "float32", **more: Any) -> Path:
    code = C.replace("BODY", body).replace("TYPE", {"float32": "float", "int32": "int"}[dtype])
    arguments = [
        array("y", dtype, ["n", "n"], "out", strides=["ld", 1]),
        array("x", dtype, ["n", "n"], strides=["ld", 1]),
        {"name": "ld", "dtype": "int32"},
    ]
    return written(folder, code, arguments, "2 * x", **more)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("", None),
        ("if (ld > n) y[n] = 1;", "writes into the padding behind the rows of y"),
        ("if (ld > n) y[(n - 1) * ld + n] = 1;", "writes into the padding behind the rows of y"),
        ("if (ld > n) y[n * ld] = 1;", "writes after the end of y"),
        ("if (ld > n) y[-1] = 1;", "writes before the start of y"),
        ("if (ld > n) ((TYPE *)x)[n] = 1;", "writes into x, which it may only read"),
        ("if (ld > n) y[3] = x[n];", "y[0, 3] "),
        ("if (ld > n) y[ld + 5] = y[ld + 5] / 2;", "y[1, 5] = "),
    ],
)
def test_padding_stays_as_it_is(body: str, told: str | None, dtype: str, host: Device, tmp_path: Path) -> None:
    body = body.replace("TYPE", "float" if dtype == "float32" else "int")
    found = failure(doubled(tmp_path, body, dtype), host, a=1)
    assert found is None if told is None else f": with ld=33: {told}" in (found or "")


def test_elements_that_nobody_writes_are_seen_in_a_view_too(host: Device, tmp_path: Path) -> None:
    code = C.replace("y[i", "if (ld == n || i || j) y[i").replace("BODY", "").replace("TYPE", "int")
    file = doubled(tmp_path, dtype="int32")
    file.with_suffix(".c").write_text(code)
    assert "y[0, 0] = " in (failure(file, host, a=1) or "")


@pytest.mark.slow
def test_values_that_are_derived_are_compared(host: Device, tmp_path: Path) -> None:
    more: dict[str, Any] = {"derive": {"total": "sum(y)"}, "tolerance": {"total": 0.5}}
    file = doubled(tmp_path, **more)
    file.write_text(file.read_text().replace("reference: 2 * x", "reference: {total: 2 * sum(x)}"))
    assert failure(file, host, a=1) is None
    file = doubled(tmp_path, "if (ld > n) y[ld] += 100;", **more)
    file.write_text(file.read_text().replace("reference: 2 * x", "reference: {total: 2 * sum(x)}"))
    assert "total" in (failure(file, host, a=1) or "")


@pytest.mark.slow
def test_values_that_are_derived_from_arrays_of_a_configuration_are_compared(host: Device, tmp_path: Path) -> None:
    code = """
    void f(float *sums, const float *x, int ld, int n) {
        for (int k = 0; k < a; k++) sums[k] = 0;
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) sums[i % a] += x[i * ROW + j];
    }
    """
    arguments = [
        array("sums", "float32", ["a"], "out"),
        array("x", "float32", ["n", "n"], strides=["ld", 1]),
        {"name": "ld", "dtype": "int32"},
    ]
    more: dict[str, Any] = {"derive": {"total": "sum(sums)"}, "tolerance": {"total": 0.5}}
    for row in ("ld", "n"):
        own = tmp_path / row
        own.mkdir()
        file = written(own, code.replace("ROW", row), arguments, {"total": "sum(x)"}, parameters={"a": [1, 2]}, **more)
        assert ("total" in (failure(file, host, a=2) or "")) is (row == "n")


@pytest.mark.slow
def test_a_kernel_is_stored_once_it_is_right_on_views(tmp_path: Path, tune: Tune) -> None:
    done = tune(product(tmp_path, is_c=True), "8x16x24", "--device", "host", "--repeats", "1")
    assert done.status == 0, done.err
    done = tune(product(tmp_path, is_c=True, a_row="K"), "8x16x24", "--device", "host", "--repeats", "1", "--fresh")
    assert done.status == 1
    assert "with ldc=17, lda=27, ldb=21: C[1, 0]" in done.err


@pytest.mark.slow
def test_arrays_without_strides_are_compared_beside_those_with(host: Device, tmp_path: Path) -> None:
    code = """
    void f(float *y, float *z, const float *x, int ld, int n) {
        for (int i = 0; i < n; i++) z[i] = ld > n ? ON_VIEWS : x[i * ld];
        for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) y[i * ld + j] = 1;
    }
    """
    arguments = [
        array("y", "float32", ["n", "n"], "out", strides=["ld", 1]),
        array("z", "float32", ["n"], "out"),
        array("x", "float32", ["n", "n"], strides=["ld", 1]),
        {"name": "ld", "dtype": "int32"},
    ]
    reference = {"y": "0 * x + 1", "z": "x[:, 0]"}
    for value, told in (("x[i * ld]", None), ("0", "with ld=33: z[0] = 0")):
        found = failure(written(tmp_path, code.replace("ON_VIEWS", value), arguments, reference), host, a=1)
        assert found is None if told is None else told in (found or "")


def test_a_matrix_of_one_element_is_compared(host: Device, tmp_path: Path) -> None:
    space = catalog.load(str(doubled(tmp_path)))
    (final,) = Bench(host, space, scope_of(space, host, "1")).finals([{"a": 1}], 0.1).candidates
    assert final.failure is None


ROWS = """\
title: A copy of rows, by way of scratch
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n, n], role: out, strides: [ldy, 1]}
    - {name: x, dtype: float32, shape: [n, n], role: in}
    - {name: rows, dtype: float32, shape: [n * n], role: scratch, zeroed: ZEROED}
    - {name: n, dtype: int32}
    - {name: ldy, dtype: int32}
  reference: x
source: rows.c
languages: [c]
steps:
  - {kernel: take, arguments: [rows, x, n]}
  - {kernel: give, arguments: [y, rows, n, ldy]}
parameters: {p: [1]}
"""
TAKE = """\
void take(float *rows, const float *x, int n) {
    for (int i = 0; i < n * n; i++) rows[i] = x[i];
}
void give(float *y, float *rows, int n, int ldy) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { y[i * ldy + j] = rows[i * n + j]; LEFT }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zeroed", "left", "told"),
    [
        ("never", "", None),
        ("once", "rows[i * n + j] = 0;", None),
        ("never", "rows[i * ldy + j] = 0;", "with ldy=33: writes after the end of rows"),
        ("once", "rows[i * n + j] = ldy - n;", "with ldy=33: leaves rows non-zero"),
    ],
)
def test_scratch_is_looked_at_with_padding_too(
    zeroed: str, left: str, told: str | None, host: Device, tmp_path: Path
) -> None:
    (tmp_path / "rows.c").write_text(TAKE.replace("LEFT", left))
    (tmp_path / "rows.yaml").write_text(ROWS.replace("ZEROED", zeroed))
    found = failure(tmp_path / "rows.yaml", host, p=1)
    assert told in found if told and found else told == found
