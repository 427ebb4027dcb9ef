"""What `fill:` puts into inputs, what it refuses, and what a record says of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.kernels import outcome_of
from helpers.operations import array, written
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.space.dtypes import spelling
from tuner.space.sources import rendering

# Right only for what the fill promises: (dtype of x, fill, condition on the element v at i).
HELD: dict[str, tuple[str, Any, str]] = {
    "uniform": ("float32", {"uniform": [2, 3]}, "v >= 2 && v <= 3"),
    "normal": ("float64", {"normal": [100, 0.5]}, "v > 90 && v < 110"),
    "integers": ("int32", {"integers": [-3, 3]}, "v >= -3 && v <= 3"),
    "unsigned integers": ("uint8", {"integers": [250, 255]}, "v >= 250"),
    "integers below a size": ("int32", {"integers": ["n - 2", "n - 1"]}, "v == n - 2 || v == n - 1"),
    "numbers up to a size": ("float32", {"uniform": [3, "n / 40"]}, "v >= 3 && v <= 5"),
    "numbers around a size": ("float64", {"normal": ["n", 0.5]}, "v > n - 10 && v < n + 10"),
    "zeros": ("float32", "zeros", "v == 0"),
    "ones": ("int32", "ones", "v == 1"),
    "a sequence": ("int32", "arange", "v == i"),
    "a permutation": ("int32", "permutation", "v >= 0 && v < n"),
    "both parts of complex numbers": (
        "complex64",
        {"uniform": [2, 3]},
        "__real__ v >= 2 && __real__ v <= 3 && __imag__ v >= 2 && __imag__ v <= 3 && __real__ v != __imag__ v",
    ),
    "the real part of complex numbers": ("complex128", "arange", "__real__ v == i && __imag__ v == 0"),
    "halves": ("float16", {"normal": [100, 0.5]}, "v > 90 && v < 110"),
    "shorts": ("uint16", {"integers": [65530, 65535]}, "v >= 65530"),
    "only true": ("bool", {"choice": [1]}, "v == 1"),
    "bits of bfloat16": ("bfloat16", {"choice": [1]}, "v == 0x3f80"),
    "bits of float8": ("float8_e4m3fn", {"integers": [2, 2]}, "v == 0x40"),
    "a choice": ("float32", {"choice": [0.5, 4]}, "v == 0.5f || v == 4"),
}
FILE_CODE = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i] == 3 * i ? 1 : -1; }"


def of(folder: Path, dtype: str, fill: Any, condition: str) -> Path:
    """A kernel that writes 1 where `condition` holds, and whose reference is 1."""
    body = f"for (int i = 0; i < n; i++) {{ {spelling(dtype, 'c')} v = x[i]; y[i] = ({condition}) ? 1 : -1; }}"
    code = f"void f(float *y, const {spelling(dtype, 'c')} *x, int n) {{ {body} }}"
    arguments = [array("y", "float32", ["n"], "out"), array("x", dtype, ["n"], fill=fill)]
    return written(folder, code, arguments, "ones(n) + 0 * abs(x)")


@pytest.mark.slow
@pytest.mark.parametrize("what", HELD)
def test_inputs_hold_what_the_file_says(what: str, tmp_path: Path, tune: Tune, host: Device) -> None:
    file = of(tmp_path, *HELD[what])
    assert tune("validate", file).status == 0
    assert outcome_of(catalog.load(str(file)), host, "200") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "condition"),
    [
        ("float32", "(v >= 0.5f && v < 1.5f) || (v <= -0.5f && v > -1.5f)"),
        ("complex64", "__real__ (v * ~v) >= 0.5f && __real__ (v * ~v) < 4.5f"),
        ("uint16", "v >= 0 && v <= 8"),
        ("int8", "v >= -8 && v <= 8"),
        ("bfloat16", "(v & 0x7fff) >= 0x3f00 && (v & 0x7fff) <= 0x3fc0"),
    ],
)
def test_inputs_without_a_fill_hold_numbers_that_are_not_small(
    dtype: str, condition: str, tmp_path: Path, host: Device
) -> None:
    file = of(tmp_path, dtype, None, condition)
    assert outcome_of(catalog.load(str(file)), host, "200") is None


@pytest.mark.slow
def test_a_command_fills_inputs_as_the_file_says(tmp_path: Path, tune: Tune) -> None:
    for what, status in (("uniform", 0), ("zeros", 1)):
        file = of(tmp_path, *HELD["uniform"][:1], HELD[what][1], HELD["uniform"][2])
        assert tune("run", file, "200", "--device", "host").status == status


def with_file(folder: Path, data: np.ndarray[Any, Any], **fit: str) -> Path:
    np.save(folder / "x.npy", data)
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"], fill={"file": "x.npy", **fit})]
    return written(folder, FILE_CODE, arguments, "where(x == 3 * arange(n), 1, -1)")


@pytest.mark.slow
def test_an_input_from_a_file_is_one_set_and_the_record_says_so(tmp_path: Path, tune: Tune) -> None:
    file = with_file(tmp_path, np.arange(0, 600, 3, dtype=np.float32))
    assert tune(file, "200", "--device", "host").status == 0
    assert tune("best", file, "200", "--device", "host", "--json").json["record"]["input_sets"] == 1
    (tmp_path / "drawn").mkdir()
    drawn = of(tmp_path / "drawn", *HELD["uniform"])
    assert tune(drawn, "200", "--device", "host").status == 0
    assert tune("best", drawn, "200", "--device", "host", "--json").json["record"]["input_sets"] > 1


@pytest.mark.slow
def test_a_file_that_does_not_fit_is_one_message_unless_it_is_tiled(tmp_path: Path, tune: Tune) -> None:
    file = with_file(tmp_path, np.arange(0, 30, 3, dtype=np.float32))
    done = tune(file, "200", "--device", "host")
    assert (done.status, done.out) == (2, "")
    assert (
        "x.npy has shape (10,); (200,) is needed at this size; choose the size that matches, or write fit: tile"
        in done.err
    )
    assert "Traceback" not in done.err
    assert tune(with_file(tmp_path, np.zeros(7, np.float32), fit="tile"), "200", "--device", "host").status == 0


@pytest.mark.slow
def test_another_file_of_data_is_measured_again(tmp_path: Path, tune: Tune) -> None:
    file = with_file(tmp_path, np.zeros(200, np.float32))
    first, second = (tune(file, "200", "--device", "host") for _ in range(2))
    np.save(tmp_path / "x.npy", np.ones(200, np.float32))
    third = tune(file, "200", "--device", "host")
    known = ["1 measured before" in done.out + done.err for done in (first, second, third)]
    assert known == [False, True, False]


def test_a_folder_that_moves_takes_its_data_along(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "one").mkdir()
    file = with_file(tmp_path / "one", np.zeros(20, np.float32))
    catalog.load(str(file))  # leaves its launch form in the cache
    moved = tmp_path / "other" / "one"
    shutil.copytree(tmp_path / "one", moved)
    shutil.rmtree(tmp_path / "one")
    assert tune("run", moved / "f.yaml", "20", "--device", "host").status == 0
    fill = catalog.load(str(moved / "f.yaml")).operation.arguments[1].fill
    assert fill is not None
    assert fill.file == moved / "x.npy"


def test_a_fill_is_part_of_the_signature_where_there_is_one(tmp_path: Path) -> None:
    names = {
        str(fill): rendering.signature(catalog.load(str(of(tmp_path, "float32", fill, "v"))))
        for fill in (None, "ones", "zeros", {"uniform": [0, 1]}, {"uniform": [0, 2]})
    }
    assert len(set(names.values())) == len(names)


def test_bounds_that_are_numbers_keep_their_signature_and_expressions_enter_as_they_are_written(tmp_path: Path) -> None:
    def text(fill: Any) -> str:
        found = catalog.load(str(of(tmp_path, "int32", fill, "v"))).operation.arguments[1].fill
        assert found is not None
        return found.text

    assert text({"integers": [0, 999]}) == "integers [0, 999]  False"
    assert text({"integers": [0, "n - 1"]}) == "integers [0, n - 1]  False"


GATHER = """
void f(float *y, const float *logits, const int *labels, int rows, int classes) {
    for (int i = 0; i < rows; i++) y[i] = logits[i * classes + labels[i]];
}
"""


@pytest.mark.slow
def test_an_array_of_indices_is_filled_for_every_size(tmp_path: Path, tune: Tune) -> None:
    arguments = [
        array("y", "float32", ["rows"], "out"), array("logits", "float32", ["rows", "n"]),
        array("labels", "int32", ["rows"], fill={"integers": [0, "n - 1"]}), {"name": "rows", "dtype": "int32"},
    ]  # fmt: skip
    file = written(tmp_path, GATHER, arguments, "logits[arange(rows), labels]", sizes={"rows": None, "n": None})
    assert tune("validate", file, "20x1000").status == 0
    for size in ("20x1000", "30x7"):
        done = tune(file, size, "--device", "host", "--repeats", "3")
        assert done.status == 0, done.err
    file = written(tmp_path, GATHER, arguments, "logits[arange(rows), labels + 1]", sizes={"rows": None, "n": None})
    done = tune("run", file, "200x7", "--device", "host")
    assert "index 7 is out of bounds" in done.err


REFUSED: dict[str, tuple[str, Any, str]] = {
    "a word that is not known": ("float32", "random", "'random' is not a fill; write {uniform:"),
    "a distribution that is not known": ("float32", {"gamma": [1, 2]}, "is not a fill"),
    "one bound": ("float32", {"uniform": [1]}, "is not a fill"),
    "names that are no sizes": ("float32", {"uniform": ["m", "n"]}, "`m`: unknown name 'm'; known: n"),
    "an option for a size": ("float32", {"uniform": [0, "max_threads"]}, "unknown name 'max_threads'"),
    "no expression": ("float32", {"uniform": [0, "n -"]}, "`n -` is not an expression: invalid syntax"),
    "lists for numbers": ("float32", {"uniform": [0, [1]]}, "is not a fill"),
    "no number at the size": (
        "int32",
        {"integers": [0, "'n'"]},
        "[0, 'n']: 'n' is not a finite number, at n=1024",
    ),
    "a bound without a value": ("int32", {"integers": [0, "n // 0"]}, "`n // 0`: division by zero"),
    "bounds in the wrong order at the size": (
        "int32",
        {"integers": [0, "n - 2000"]},
        "fill integers: [0, n - 2000]: integers: [0, -976]: write the lower bound",
    ),
    "half a bound at the size": ("int32", {"integers": [0, "n / 1000"]}, "both bounds must be whole numbers"),
    "what does not fit at the size": (
        "uint8",
        {"integers": [0, "n - 1"]},
        "fill integers: [0, n - 1]: [0, 1023]: uint8 holds 0 to 255, at n=1024",
    ),
    "a size among choices": ("int32", {"choice": ["n"]}, "is not a fill"),
    "bounds in the wrong order": ("float32", {"uniform": [2, 1]}, "write the lower bound first"),
    "a negative deviation": ("float32", {"normal": [0, -1]}, "the deviation must be at least 0"),
    "fractions for integers": ("int32", {"uniform": [0, 1]}, "which int32 cannot hold; write {integers: [low, high]}"),
    "a fraction among integers": ("int32", {"choice": [1, 2.5]}, "int32 holds only whole numbers"),
    "what does not fit": ("uint8", {"integers": [0, 256]}, "uint8 holds 0 to 255"),
    "no choice": ("int32", {"choice": []}, "is not a fill"),
    "another fit": ("float32", {"file": "x.npy", "fit": "crop"}, "fit: 'crop': write tile, or leave it out"),
    "a file that is missing": (
        "float32",
        {"file": "none.npy"},
        "none.npy: cannot be read as .npy: no such file",
    ),
    "a file of something else": ("float32", {"file": "f.yaml"}, "cannot be read as .npy: it has no .npy header"),
    "a file of another type": (
        "float32",
        {"file": "doubles.npy"},
        "holds float64; the kernel takes float32; convert it",
    ),
    "a file of objects": ("float32", {"file": "objects.npy"}, "objects.npy: cannot be read as .npy"),
    "several arrays": ("float32", {"file": "many.npz"}, "it holds several arrays"),
    "a file without an end": ("float32", {"file": "/dev/zero"}, "not a file of at most"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_fill_an_input_is_one_message(what: str, tmp_path: Path, tune: Tune) -> None:
    dtype, fill, message = REFUSED[what]
    np.save(tmp_path / "doubles.npy", np.ones(5))
    np.save(tmp_path / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "many.npz", a=np.ones(5), b=np.ones(5))
    file = of(tmp_path, dtype, fill, "1")
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"error: {file}:")
    assert " operation.arguments.1.fill: " in done.err
    assert message in done.err


def test_only_what_the_kernel_reads_is_filled(tmp_path: Path, tune: Tune) -> None:
    file = of(tmp_path, "float32", "ones", "1")
    file.write_text(file.read_text().replace("role: out", "role: out\n    fill: ones"))
    assert "y: only an array of role in or inout, without `value`, has a `fill`" in tune("validate", file).err
