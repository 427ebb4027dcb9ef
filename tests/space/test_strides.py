"""What a space file may say of strides, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.protocols import Validator

from helpers.bundles import bundle
from helpers.processes import Tune
from helpers.strided import product
from tuner.catalog import catalog
from tuner.errors import SpaceError
from tuner.space import operation
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering

# what is wrong: (what stands in the file, what stands there instead, what the message must say besides the file)
FAULTS = {
    "too few": ("[lda, 1]", "[1]", ":8: operation.arguments.1.strides: 1 strides; A has 2 axes: write one for each"),
    "empty": ("[lda, 1]", "[]", ":8: operation.arguments.1.strides: 0 strides; A has 2 axes"),
    "no list": ("[lda, 1]", "lda", ":8: operation.arguments.1.strides: 'lda': "),
    "last": ("[lda, 1]", "[1, lda]", ":8: operation.arguments.1.strides: 'lda' is the stride of the last axis, whose"),
    "unknown": (
        "[lda, 1]",
        "[pitch, 1]",
        ":8: operation.arguments.1.strides.0: `pitch`: pitch is neither a size nor a leading dimension; declare an",
    ),
    "never alone": (
        "[lda, 1]",
        "[2 * lda, 1]",
        ":8: operation.arguments.1.strides.0: `2 * lda`: lda is neither a size",
    ),
    "option": ("[lda, 1]", "[alpha, 1]", ":8: operation.arguments.1.strides.0: `alpha`: alpha is neither"),
    "parameter": ("[lda, 1]", "[threads, 1]", ":8: operation.arguments.1.strides.0: `threads`: threads is neither"),
    "array": ("[lda, 1]", "[B, 1]", ":8: operation.arguments.1.strides.0: `B`: B is neither"),
    "code": ("[lda, 1]", "['f()', 1]", ":8: operation.arguments.1.strides.0: `f()`: f() is not allowed"),
    "scalar": (
        "{name: lda, dtype: int32}",
        "{name: lda, dtype: int32, strides: [1]}",
        ":14: operation.arguments.7.strides: lda: only a plain array that the caller passes may have `strides`",
    ),
    "real": ("name: lda, dtype: int32", "name: lda, dtype: float32", ":14: operation.arguments.7.dtype: lda is"),
    "value": ("dtype: int32}\n    - {name: ldb", "dtype: int32, value: K}\n    - {name: ldb", "`lda`: lda is neither"),
    "constant": (
        "role: in, strides: [lda",
        "role: in, kind: constant, strides: [lda",
        ":8: operation.arguments.1.strides: A: only a plain array that the caller passes may have `strides`",
    ),
    "scratch": (
        "role: in, strides: [lda",
        "role: scratch, strides: [lda",
        ":8: operation.arguments.1.strides: A: only a plain array that the caller passes may have `strides`",
    ),
    "no padding fits": (
        "strides: [lda, 1]}\n    - {name: B, dtype: float32, shape: [K, N], role: in, strides: [ldb, 1]",
        "strides: [lda, 1]}\n    - {name: B, dtype: float32, shape: [2, K, N], role: in, strides: [K * N, ldb, 1]",
        "argument B: its strides are (1048576, 1029, 1) where ldc = 1025, lda = 1027, ldb = 1029, at M=1024",
    ),
    "never contiguous": (
        "[K, N], role: in, strides: [ldb, 1]",
        "[2, K, N], role: in, strides: [ldb * K + 1, ldb, 1]",
        "argument B: its strides are (1048577, 1024, 1) at M=1024, N=1024, K=1024, but tuning uses a contiguous array",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_message_with_file_line_and_key(fault: str, tmp_path: Path, tune: Tune) -> None:
    old, new, told = FAULTS[fault]
    file = product(tmp_path)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    done = tune("validate", file)
    assert (done.status, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert told in done.err
    assert str(file) in done.err


def test_a_shape_that_differs_by_configuration_has_no_strides(tmp_path: Path, tune: Tune) -> None:
    file = product(tmp_path)
    data = yaml.safe_load(file.read_text())
    data["operation"]["derive"] = {"total": "sum(C)"}
    data["operation"]["reference"] = {"total": "sum(A @ B)"}
    data["operation"]["arguments"][0]["shape"] = ["threads", "N"]
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    done = tune("validate", file)
    assert "arguments.0.strides: C: its shape depends on threads, which differs by configuration" in done.err


def test_a_size_where_no_array_is_contiguous_is_told(tmp_path: Path, tune: Tune) -> None:
    file = product(tmp_path, is_c=True)
    text = file.read_text().replace("[ldb, 1]", "[lda, 1]").replace("    - {name: ldb, dtype: int32}\n", "")
    file.write_text(text)
    file.with_suffix(".c").write_text(file.with_suffix(".c").read_text().replace(" int ldb,", "").replace("ldb", "lda"))
    assert tune("validate", file, "8x16x16").status == 0
    for command in (("validate",), ("--device", "host")):
        arguments = (*command, file, "8x16x12") if command == ("validate",) else (file, "8x16x12", *command)
        done = tune(*arguments)
        assert done.status == 2
        assert "argument lda: tuning uses contiguous arrays, for which it would be 12 for A, 16 for B" in done.err
        assert "at M=8, N=16, K=12; choose" in done.err
        assert "Traceback" not in done.err


def test_a_leading_dimension_that_no_argument_holds_is_told(tmp_path: Path, tune: Tune) -> None:
    file = product(tmp_path, is_c=True)
    file.write_text(file.read_text().replace("name: lda, dtype: int32", "name: lda, dtype: int8"))
    file.with_suffix(".c").write_text(file.with_suffix(".c").read_text().replace("int lda", "signed char lda"))
    done = tune("validate", file, "8x8x127")
    assert done.status == 2
    assert "argument lda: is 130 at M=8, N=8, K=127, and does not fit its int8" in done.err


def test_the_reference_kernel_gets_arrays_that_tell_its_leading_dimensions(tmp_path: Path, tune: Tune) -> None:
    file = product(tmp_path)
    reference = "{kernel: product, arguments: [C, B, M, N, K, ldc, lda, ldb, alpha], grid: [N, M], block: [1]}"
    file.write_text(file.read_text().replace("reference: alpha * (A @ B)", f"reference: {reference}"))
    assert "reference.arguments: A is missing, whose stride is lda; add it" in tune("validate", file).err


@pytest.mark.slow
def test_a_kernel_may_be_the_reference_of_one_with_leading_dimensions(tmp_path: Path, tune: Tune) -> None:
    file = product(tmp_path)
    reference = "{kernel: product, grid: [N, M], block: [1]}"
    text = file.read_text().replace("reference: alpha * (A @ B)", f"reference: {reference}")
    file.write_text(text)
    (tmp_path / "product.cu").write_text(
        "#ifndef threads\n#define threads 1\n#endif\n" + (tmp_path / "product.cu").read_text()
    )
    done = tune(file, "8x16x24", "--device", "opencl", "--repeats", "1")
    assert done.status == 0, done.err


def test_a_space_with_strides_meets_the_schema(tmp_path: Path, published: Validator) -> None:
    file = product(tmp_path)
    assert catalog.load(str(file)).operation.leading == ("ldc", "lda", "ldb")
    published.validate(yaml.safe_load(file.read_text()))


def test_strides_are_part_of_the_code(tmp_path: Path) -> None:
    file = product(tmp_path)
    first = rendering.code(catalog.load(str(file)))
    file.write_text(file.read_text().replace("[ldb, 1]", "[lda, 1]").replace("[lda, 1]", "[ldb, 1]", 1))
    assert rendering.code(catalog.load(str(file))) != first


def scalars(file: Path, **sizes: int) -> dict[str, Any]:
    op = catalog.load(str(file)).operation
    values = operation.scalars(op, Scope(sizes, op.options, "cuda", Limits()))
    return {argument.name: value.item() for argument, value in zip(op.scalars, values, strict=True)}


def test_exports_launch_on_contiguous_arrays(tmp_path: Path, tune: Tune) -> None:
    file = product(tmp_path)
    assert scalars(file, M=5, N=8, K=12) | {"alpha": 1.0} == {
        "M": 5, "N": 8, "K": 12, "ldc": 8, "lda": 12, "ldb": 8, "alpha": 1.0
    }  # fmt: skip
    made = bundle(tune, tmp_path / "b", str(file), "5x8x12", "--architecture", "sm_80")
    values = {a["name"]: a.get("value") for a in made["builds"][0]["arguments"]}
    assert (values["ldc"], values["lda"], values["ldb"]) == (8, 12, 8)


def test_a_fault_in_a_file_is_no_valid_space(tmp_path: Path) -> None:
    file = product(tmp_path)
    file.write_text(file.read_text().replace("[lda, 1]", "[lda, 2]"))
    with pytest.raises(SpaceError, match=r":8: operation.arguments.1.strides: '2' is the stride of the last axis"):
        catalog.load(str(file))


def test_a_tensor_map_describes_no_array_with_strides(tmp_path: Path, tune: Tune) -> None:
    file = product(tmp_path)
    data = yaml.safe_load(file.read_text())
    data["languages"] = ["cuda"]
    data["operation"]["arguments"].append({"name": "map", "kind": "tensor_map", "of": "A", "box": [1, 4]})
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    done = tune("validate", file)
    assert "arguments.10.kind: tensor_map describes A as a contiguous array; remove its `strides`" in done.err
