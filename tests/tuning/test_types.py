"""Types that are chosen like sizes: what is tuned, stored, found, launched and exported is of the chosen type."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tuner
from helpers.processes import Tune
from tuner.errors import ArgumentError, RequestError
from tuner.store.store import Store

# Wrong where the type has two bytes and step is 4, and where it has eight, because it rounds to a float.
SOURCE = """
void scale(real *y, const real *x, int n, real a) {
    for (int i = 0; i < n; i += step)
        for (int j = i; j < i + step && j < n; j++)
            y[j] = (float)(a * x[j] / 3) + (sizeof(real) == 2 && step == 4);
}
"""
SPACE: dict[str, Any] = {
    "title": "Multiply a vector by a third of a number",
    "operation": {
        "sizes": {"n": None},
        "options": {"a": 2.0},
        "types": {"real": ["float32", "float16", "float64"]},
        "extent": ["n"],
        "arguments": [
            {"name": "y", "dtype": "real", "shape": ["n"], "role": "out"},
            {"name": "x", "dtype": "real", "shape": ["n"], "role": "in"},
            {"name": "n", "dtype": "int32"},
            {"name": "a", "dtype": "real"},
        ],
        "reference": "a * x / 3",
        "tolerance": "4 * epsilon",
    },
    "kernel": "scale",
    "languages": ["c"],
    "parameters": {"step": [1, 4]},
    "default": {"step": 4},
}
FLOAT16 = ("--type", "real=float16")


def written(folder: Path, source: str = SOURCE, suffix: str = "c", **more: Any) -> Path:
    """The kernel, and the file of its space; `more` are other keys of the space."""
    (folder / "scale.c").unlink(missing_ok=True)
    (folder / f"scale.{suffix}").write_text(source)
    file = folder / "scale.yaml"
    file.write_text(yaml.safe_dump({**SPACE, **more}, sort_keys=False))
    return file


def changed(**keys: Any) -> dict[str, Any]:
    """The operation with other keys."""
    return {**copy.deepcopy(SPACE["operation"]), **keys}


@pytest.fixture
def tuned(tune: Tune, tmp_path: Path) -> Path:
    """The file of the space, tuned for float16."""
    file = written(tmp_path)
    done = tune(file, "1000", *FLOAT16, "--json")
    assert (done.status, done.json["failed"]) == (0, {"wrong result": 1}), done.err
    return file


@pytest.mark.slow
@pytest.mark.usefixtures("untuned")
def test_types_do_not_mix_in_the_store_and_the_ledger(tuned: Path, tune: Tune) -> None:
    for types, failed in (((), {}), (FLOAT16, {"wrong result": 1})):
        done = tune(tuned, "1000", *types, "--json")
        assert (done.status, done.json["failed"]) == (0, failed), done.err
    store = Store(f"{tuned.parent.name}/scale")
    assert sorted(record.types["real"] for record in store.records) == ["float16", "float32"]
    for dtype, match in (("float32", "exact"), ("float16", "exact"), ("float64", "default")):
        best = tune("best", tuned, "1000", "--type", f"real={dtype}", "--json").json
        assert (best["types"], best["match"]) == ({"real": dtype}, match)
    assert tune("best", tuned, "1000", *FLOAT16, "--json").json["config"] == {"step": 1}
    report = tune("report").out
    assert [f"| {store.kernel}, real={dtype} |" in report for dtype in ("float32", "float16")] == [True, True]
    done = tune("run", tuned, "1000", *FLOAT16)
    assert (done.status, "real=float16" in done.out) == (0, True), done.err


@pytest.mark.slow
def test_the_tolerance_uses_the_round_off_of_the_chosen_type(tune: Tune, tmp_path: Path) -> None:
    done = tune(written(tmp_path), "1000", "--type", "real=float64", "--json")
    assert (done.status, done.json["failed"]) == (1, {"wrong result": 2})


@pytest.mark.slow
def test_a_kernel_is_loaded_pickled_and_launched_with_its_type(tuned: Path) -> None:
    import pickle

    kernel = tuner.load(tuned, 1000, types={"real": "float16"}, strict=True)
    x = (np.arange(1000) % 64).astype(np.float16)  # exact where a processor rounds each operation to halves, too
    for loaded in (kernel, pickle.loads(pickle.dumps(kernel))):
        y = np.zeros(1000, np.float16)
        loaded(y, x, a=6.0)
        assert np.array_equal(y, 2 * x)
        with pytest.raises(ArgumentError, match=r"x: has shape .* and dtype float32; required: .* and dtype float16"):
            loaded(y, x.astype(np.float32))
    with pytest.raises(RequestError, match="no exact record"):
        tuner.load(tuned, 1000, types={"real": "float64"}, strict=True)
    with pytest.raises(RequestError, match="does not fit the kernel's float16"):
        tuner.load(tuned, 1000, types={"real": "float16"}, options={"a": 1e6})


@pytest.mark.slow
def test_exports_are_of_the_chosen_type(tuned: Path, tune: Tune, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for to in ("header", "cu", "csv", "kernel-tuner", "t4"):
        done = tune("export", tuned, "1000", *FLOAT16, "--to", to)
        assert done.status == 0, done.err
    assert "#define real _Float16\n" in Path("scale-1000-float16.h").read_text()
    assert "scale(float16 * y, float16 * x, int32 n, float16 a)" in Path("scale-1000-float16.c").read_text()
    header, *rows = Path("scale-1000-float16.csv").read_text().splitlines()
    assert header.startswith("kernel,device,n,real,step,")
    assert [row.split(",")[3:5] for row in rows] == [["float16", "4"], ["float16", "1"]]
    for file in ("scale-1000-float16.json", "scale-1000-float16-t4.json"):
        done = tune("import", file, "--kernel", tuned, "--results", "other", "--json")
        assert done.status == 0, done.err
    records = Store(f"{tuned.parent.name}/scale", Path("other")).records
    assert [record.types for record in records] == [{"real": "float16"}]
    done = tune("import", "scale-1000-float16.json", "--kernel", tuned, "--type", "real=float32")
    assert (done.status, "leave --type out" in done.err, len(done.err.splitlines())) == (2, True, 1)


@pytest.mark.slow
def test_a_recording_says_its_types(tune: Tune, tmp_path: Path) -> None:
    done = tune("record", written(tmp_path), "100", *FLOAT16, "--output", tmp_path / "r.json", "--json")
    assert done.status == 0, done.err
    assert json.loads((tmp_path / "r.json").read_text())["types"] == {"real": "float16"}
    about = json.loads(Path(done.json["metadata"]).read_text())["metadata"]
    assert about["environment"]["device_query"]["types"] == {"real": "float16"}
    assert about["environment"]["device_query"]["toolchain"], "of the device that it was measured on"


CUDA = """
extern "C" __global__ void scale(real *y, const real *x, int n, real a) {
    const int i = blockIdx.x * step + threadIdx.x;
    if (i < n) y[i] = a * x[i] / 3;
}
"""


def test_a_bundle_is_of_the_chosen_type(tune: Tune, tmp_path: Path) -> None:
    more = {"languages": ["cuda"], "block": ["step"], "grid_divisors": {"x": ["step"]}}
    file, folder = written(tmp_path, CUDA, "cu", **more), tmp_path / "bundle"
    arguments = ("--to", "cubin", "--architecture", "sm_90a", "--output", folder)
    done = tune("export", file, "1000", "--type", "real=float64", *arguments)
    assert done.status == 0, done.err
    launch = json.loads((folder / "launch.json").read_text())
    assert launch["types"] == {"real": "float64"}
    (build,) = launch["builds"]
    assert [argument["dtype"] for argument in build["arguments"]] == ["float64", "float64", "int32", "float64"]


OPENCL = """
__kernel void scale(__global real *y, __global const real *x, int n, real a) {
    const int i = get_global_id(0);
    if (i < n) y[i] = a * x[i] / 3;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_type_is_chosen_on_opencl(dtype: str, tune: Tune, tmp_path: Path) -> None:
    more = {"languages": ["opencl"], "block": ["step"], "grid_divisors": {"x": ["step"]}}
    file = written(tmp_path, OPENCL, "cl", **more)
    done = tune(file, "100", "--type", f"real={dtype}", "--device", "opencl", "--json")
    assert (done.status, done.json["failed"], done.json["types"]) == (0, {}, {"real": dtype}), done.err


REQUESTS = {
    "real=int9": "type real = 'int9': allowed are float32, float16, float64",
    "real=int32": "type real = 'int32': allowed are float32, float16, float64",
    "index=int32": "type index: the kernel has no type of this name; there are: real",
    "real": "--type real: write NAME=DTYPE, such as real=float16",
    "real=": "--type real=: write NAME=DTYPE, such as real=float16",
}


@pytest.mark.parametrize("text", REQUESTS)
def test_a_wrong_type_is_one_message(text: str, tune: Tune, tmp_path: Path) -> None:
    file = written(tmp_path)
    verbs: list[list[str | Path]] = [
        [file, "9"],
        ["best", file, "9"],
        ["show", file, "9"],
        ["run", file, "9"],
        ["record", file, "9"],
        ["validate", file, "9"],
        ["export", file, "9", "--to", "cu"],
    ]
    for verb in verbs:
        done = tune(*verb, "--type", text)
        assert (done.status, done.out, done.err) == (2, "", f"error: {REQUESTS[text]}\n"), verb


def test_a_type_is_given_once(tune: Tune, tmp_path: Path) -> None:
    done = tune(written(tmp_path), "9", *FLOAT16, *FLOAT16)
    assert (done.status, done.err) == (2, "error: --type real=float16: real is given twice; keep one\n")


FILES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown dtype in the list": (changed(types={"real": ["float32", "int9"]}), "types.real.1: 'int9': not a dtype"),
    "a dtype twice": (changed(types={"real": ["float32", "float32"]}), "float32 appears twice; keep one"),
    "the name of a size": (changed(types={"n": ["float32"], "real": ["float32"]}), "types.n: this name is taken"),
    "the name of a parameter": (changed(types={"step": ["int32"], "real": ["float32"]}), "types.step: this name is"),
    "the name of a C type": (changed(types={"double": ["int32"], "real": ["float32"]}), "types.double: this name is"),
    "the name of an argument": (changed(types={"x": ["int32"], "real": ["float32"]}), "types.x: this name is taken"),
    "a type that nothing uses": (
        changed(types={"real": ["float32"], "index": ["int32", "int64"]}),
        "types.index: neither scale.c nor an argument uses it",
    ),
    "an empty list": (changed(types={"real": []}), "types.real"),
    "a dtype that nobody knows": (changed(types={"other": ["int8"]}), "dtype: 'real': not a dtype; allowed: float16"),
    "no distance for float8": (
        changed(types={"real": ["float8_e4m3", "float16"]}, tolerance={"wrong": 0.01}),
        "y is stored as float8_e4m3fn, which rounds by up to 6%; declare a `tolerance:`",
    ),
    "no tolerance for float8": (
        changed(types={"real": ["float32", "float8_e5m2"]}, tolerance=None),
        "y is stored as float8_e5m2, which rounds by up to 12%; declare a `tolerance:`",
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_with_wrong_types_is_one_message(case: str, tune: Tune, tmp_path: Path) -> None:
    operation, message = FILES[case]
    file = written(tmp_path, operation=operation)
    done = tune("validate", file, "9")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"error: {file}:")
    assert message in done.err


def test_a_source_that_takes_one_type_is_no_kernel_of_a_choice(tune: Tune, tmp_path: Path) -> None:
    done = tune("validate", written(tmp_path, SOURCE.replace("real *y", "float *y")), "9")
    assert (done.status, "which is not float16, a choice of real; write real" in done.err) == (2, True), done.err


def test_a_space_has_types_of_its_own_beside_a_shared_operation(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "operation.yaml").write_text(yaml.safe_dump(SPACE["operation"]))
    file = written(tmp_path, operation="operation.yaml", types={"real": ["float16"]})
    done = tune("show", file, "9", "--json")
    assert done.json["types"] == {"real": ["float16"]}, done.err
