"""`tune new`: the draft of a space file says what the source says, and asks for the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.processes import Tune
from tuner.space.yamlfile import read

ADD_BODY = "if (i < n) c[i] = a[i] + b[i];"
ADD = {
    "cuda": (
        "add.cu",
        "#ifndef BLOCK\n#define BLOCK 256\n#endif\n"
        "__global__ void add(float *c, const float *a, const float *b, int n) {\n"
        f"    int i = blockIdx.x * BLOCK + threadIdx.x;\n    {ADD_BODY}\n}}\n",
    ),
    "opencl": (
        "add.cl",
        "#ifndef BLOCK\n#define BLOCK 256\n#endif\n"
        "__kernel void add(__global float *c, __global const float *a, __global const float *b, int n) {\n"
        f"    int i = get_group_id(0) * BLOCK + get_local_id(0);\n    {ADD_BODY}\n}}\n",
    ),
    "c": (
        "add.c",
        "#ifndef BLOCK\n#define BLOCK 256\n#endif\n"
        "void add(float *c, const float *a, const float *b, int n) {\n"
        f"#pragma omp parallel for schedule(static, BLOCK)\n    for (int i = 0; i < n; i++) {{ {ADD_BODY} }}\n}}\n",
    ),
}


def drafted(folder: Path, tune: Tune, name: str, code: str, *options: str) -> Path:
    """The file that `tune new` writes for `code`."""
    source = folder / name
    source.write_text(code)
    done = tune("new", source, *options, "--json")
    assert done.status == 0, done.err
    return Path(done.json["file"])


def data_of(file: Path) -> Any:
    return read(file).data


def answered(text: str) -> str:
    """A draft without its questions, whose reference a user has chosen from those that it offers."""
    return re.sub(r"  # \? .*", "", text).replace("reference:\n", "reference: a + b\n", 1)


@pytest.mark.parametrize("language", ADD)
def test_a_draft_is_yaml_that_asks_and_once_answered_validates(language: str, tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, *ADD[language])
    assert yaml.safe_load(file.read_text())["kernel"] == "add"
    data = data_of(file)
    assert [(a["name"], a["dtype"], a.get("role")) for a in data["operation"]["arguments"]] == [
        ("c", "float32", "out"), ("a", "float32", "in"), ("b", "float32", "in"), ("n", "int32", None),
    ]  # fmt: skip
    assert (data["parameters"], data["default"]) == ({"BLOCK": [64, 128, 256, 512, 1024]}, {"BLOCK": 256})
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert f"{file}:5: an open question: are these its sizes?" in done.err
    file.write_text(answered(file.read_text()))
    done = tune("validate", file)
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(("language", "device"), [("opencl", "opencl"), ("c", "host")])
def test_an_answered_draft_tunes(
    language: str, device: str, tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # times of more are noise here, and bring four times as many rounds
    file = drafted(tmp_path, tune, *ADD[language])
    file.write_text(answered(file.read_text()))
    done = tune(file, "10000", "--device", device, "--json", "--repeats", "3")
    assert (done.status, done.json["failed"], done.json["evaluated"]) == (0, {}, 5), done.err


def test_an_unanswered_question_stands_beside_the_fault_that_it_leads_to(tmp_path: Path, tune: Tune) -> None:
    done = tune(drafted(tmp_path, tune, *ADD["opencl"]), "100", "--device", "opencl")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "operation.reference: " in done.err
    assert "(its line still asks: what must c hold?)" in done.err


RICH = """
#define TILE 16
#define UNUSED 3
#define NAME word
#ifndef FLAG
#define FLAG 0
#endif
#if !defined(ITEMS)
# define ITEMS 3
#endif
namespace ns {
template <typename T, int threads, bool fast = (1 > 0)>
__global__ void __launch_bounds__(threads * 2, 1) conv(T *out, int *hits, const T *in, double *sum, int h, unsigned w,
                                                       float a) {
    __shared__ T part[TILE * ITEMS + FLAG];
    out[blockIdx.x * w + threadIdx.x] = a * in[0];
    hits[0] += 1;
    atomicAdd(&sum[0], 1.0);
}
}
__global__ void other(int *x) { x[0] = 1; }
"""


def test_a_draft_knows_templates_macros_bounds_and_roles(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "conv.cu", RICH, "--entry", "conv")
    data, text = data_of(file), file.read_text()
    assert data["parameters"] == {
        "threads": [64, 128, 256, 512],
        "fast": [False, True],
        "TILE": [4, 8, 16, 32, 64],
        "FLAG": [0, 1],
        "ITEMS": [1, 2, 3, 4, 8],
    }
    assert data["block"] == ["threads * 2"]
    assert list(data["operation"]["sizes"]) == ["h", "w"]
    assert list(data["operation"]["options"]) == ["a"]
    roles = {a["name"]: a["role"] for a in data["operation"]["arguments"] if "role" in a}
    assert roles == {"out": "out", "hits": "inout", "in_": "in", "sum": "inout"}
    dtypes = [a["dtype"] for a in data["operation"]["arguments"]]
    assert dtypes == ["T", "int32", "T", "float64", "int32", "uint32", "float32"]
    assert (data["kernel"], data["operation"]["types"]) == (
        "conv<{T}, {threads}, {fast}>",
        {"T": ["float32", "float64"]},
    )
    assert "# ? write #ifndef TILE before its #define in the source" in text
    assert text.count("#ifndef") == 1, "the others have it"
    assert "is it in namespace ns? write ns::conv<" in text


def test_threads_that_the_source_leaves_to_the_launch_are_parameters(tmp_path: Path, tune: Tune) -> None:
    code = (
        "__global__ void f(float *y, int n, int m) {\n"
        "    y[(blockIdx.y * blockDim.y + threadIdx.y) * n + blockIdx.x * blockDim.x + threadIdx.x] = 1;\n}\n"
    )
    data = data_of(drafted(tmp_path, tune, "f.cu", code))
    assert list(data["parameters"]) == data["block"] == ["block_size_x", "block_size_y"]
    assert data["grid"] == ["ceil_div(m, block_size_x)", "ceil_div(n, block_size_y)"]
    assert "how many threads" not in (tmp_path / "f.yaml").read_text()


SCALARS = """
template <typename T>
__global__ void f(T *y, const T *x, const real *w, T alpha, real beta, const T gamma[], int n) { y[0] = x[0]; }
"""


def test_a_parameter_by_value_of_an_open_type_is_a_scalar(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "f.cu", SCALARS)
    operation = data_of(file)["operation"]
    arrays = [a["name"] for a in operation["arguments"] if "shape" in a]
    assert arrays == ["y", "x", "w", "gamma"]
    assert list(operation["options"]) == ["alpha", "beta"]
    assert [a["dtype"] for a in operation["arguments"]] == ["T", "T", "float32", "T", "float32", "T", "int32"]
    line = next(line for line in file.read_text().splitlines() if "name: beta" in line)
    assert "its type is real: which dtype is it?; an array, if that is a pointer?" in line
    file.write_text(answered(file.read_text()).replace("reference: a + b", "reference: alpha * x"))
    assert tune("validate", file).status == 0


PAIRS = """
__global__ void f(float2 *y, const double2 *x, const float4 *w, int n) { y[threadIdx.x].x = x[0].x; }
"""


def test_a_pair_of_numbers_is_drafted_as_two_and_may_be_complex(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "f.cu", PAIRS)
    arguments = data_of(file)["operation"]["arguments"][:3]
    assert [(a["dtype"], a["shape"]) for a in arguments] == [
        ("float32", ["n", 2]), ("float64", ["n", 2]), ("float32", ["n"])
    ]  # fmt: skip
    text = file.read_text()
    assert "or is it complex64, of the shape [n]?" in text
    assert "or is it complex128, of the shape [n]?" in text
    text = answered(text).replace("reference: a + b", "reference: x")
    for answer in (
        text,
        text.replace("float64, shape: [n, 2]", "complex128, shape: [n]").replace(
            ": x\n", ": real(x[:, None] * ones(2))\n"
        ),
    ):
        file.write_text(answer)
        done = tune("validate", file)
        assert (done.status, done.err) == (0, "")


def test_a_macro_whose_default_is_a_word_is_told_in_a_comment(tmp_path: Path, tune: Tune) -> None:
    code = ADD["c"][1].replace("static", "SCHED")
    guarded = "#ifndef SCHED\n#define SCHED static\n#endif\n#define UNUSED word\n#define real float\n" + code
    file = drafted(tmp_path, tune, "add.c", guarded)
    text = file.read_text()
    assert "  # SCHED: [static]    # a macro whose default is a word: add others, and #ifndef SCHED" in text
    assert "UNUSED" not in text
    assert list(data_of(file)["parameters"]) == ["BLOCK"]
    file.write_text(answered(text).replace("  # SCHED: [static]", "  SCHED: [static, dynamic]").replace(
        "default: {", "default: {SCHED: static, "
    ))  # fmt: skip
    done = tune("validate", file, "--compile")
    assert (done.status, done.err) == (0, "")


def test_threads_that_a_source_neither_names_nor_reads_are_asked_for(tmp_path: Path, tune: Tune) -> None:
    file = drafted(
        tmp_path, tune, "f.cu", "__global__ void f(float *y, int n) { y[blockIdx.x * 32 + threadIdx.x] = 1; }"
    )
    assert "block: [block_size_x]  # ? how many threads in x, y, z?" in file.read_text()


def test_a_word_that_yaml_would_take_for_something_else_stays_a_word(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "a b.c", "void yes(float *on, const float *no, int off) { on[0] = no[0]; }")
    data = yaml.safe_load(file.read_text())
    assert (data["kernel"], data["source"]) == ("yes", "a b.c")
    assert [a["name"] for a in data["operation"]["arguments"]] == ["on", "no", "off"]


@pytest.mark.parametrize(
    ("name", "code", "options", "message"),
    [
        ("f.cu", RICH, [], "several kernels: conv, other; name the one to tune with --entry NAME"),
        ("f.cu", RICH, ["--entry", "convolution"], "there is no such kernel; it has conv, other"),
        ("f.cu", "int x;", [], "no kernel: none that can be seen"),
        ("f.txt", RICH, [], "not a kernel file; name one that ends in .c, .cl, .cu"),
        ("f.cu", "\0\xff", [], "no kernel"),
        ("nowhere/f.cu", None, [], "cannot be read: No such file or directory"),
        ("f.cu", ADD["cuda"][1], ["--output", "there.yaml"], "there.yaml: is there already, and stays"),
        ("f.cu", ADD["cuda"][1], ["--output", "nowhere/f.yaml"], "cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_drafted_is_one_message_and_no_file_is_lost(
    name: str, code: str | None, options: list[str], message: str, tmp_path: Path, tune: Tune,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("there.yaml").write_text("mine")
    if code is not None:
        Path(name).write_text(code)
    done = tune("new", name, *options)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert message in done.err
    assert Path("there.yaml").read_text() == "mine"
    assert not Path("f.yaml").exists()


def test_a_draft_in_another_folder_names_the_source_from_there(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "spaces").mkdir()
    file = drafted(tmp_path, tune, *ADD["c"], "--output", str(tmp_path / "spaces/sum.yaml"))
    assert data_of(file)["source"] == "../add.c"
    file.write_text(answered(file.read_text()))
    assert tune("validate", file).status == 0


STEPS = """
#ifndef threads
#define threads 128
#endif
__constant__ float weights[3][2];
__constant__ double bias;
__constant__ float known[2] = {1, 2};
__constant__ int unused[4];
extern "C" __global__ void __launch_bounds__(threads) parts(float *partials, const float *x, int n) {
    partials[blockIdx.x * threads + threadIdx.x] = x[n - 1] * weights[2][1] * bias * known[0];
}
template <int items>
__global__ void last(float *total, const float *partials, int n) { total[0] = partials[0]; }
"""


def test_a_draft_of_steps_knows_their_order_scratch_and_constants(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "sum.cu").write_text(STEPS)
    done = tune("new", tmp_path / "sum.cu")
    assert "several kernels: parts, last; name the one to tune with --entry NAME, or the steps of one" in done.err
    data = data_of(drafted(tmp_path, tune, "sum.cu", STEPS, "--entry", "parts,last"))
    assert "kernel" not in data
    assert [(step["kernel"], step["arguments"], step["block"]) for step in data["steps"]] == [
        ("parts", ["partials", "x", "n"], ["threads"]),
        ("last<{items}>", ["total", "partials", "n"], ["threads"]),
    ]
    named = {a["name"]: (a.get("kind"), a.get("role"), a.get("shape")) for a in data["operation"]["arguments"]}
    assert named == {
        "partials": (None, "scratch", ["n"]),
        "x": (None, "in", ["n"]),
        "n": (None, None, None),
        "total": (None, "out", ["n"]),
        "weights": ("constant", "in", [3, 2]),
        "bias": ("constant", "in", [1]),
    }
    assert data["parameters"].keys() == {"threads", "items"}


def test_an_answered_draft_of_steps_validates(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "sum.cu", STEPS, "--entry", "parts,last")
    text = re.sub(r"  # \? .*", "", file.read_text()).replace("reference:\n", "reference: x\n", 1)
    file.write_text(text)
    done = tune("validate", file, "--compile")
    assert (done.status, done.err) == (0, "")


LOCAL = """
__kernel void rows(__global float *y, __global const float *x, __local float *tile, int n) {
    tile[get_local_id(0)] = x[get_global_id(0)];
    y[get_global_id(0)] = tile[0];
}
"""


def test_a_draft_declares_local_memory_as_what_it_is(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "rows.cl", LOCAL)
    tile = data_of(file)["operation"]["arguments"][2]
    assert (tile["kind"], tile["shape"], "role" in tile) == ("local", ["block_size_x"], False)
    file.write_text(re.sub(r"  # \? .*", "", file.read_text()).replace("reference:\n", "reference: x\n", 1))
    assert tune("validate", file).status == 0
