"""`tune new`: the draft of a space file says what the source says, and asks for the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.processes import Tune
from tuner.space.file.yamlfile import read

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


@pytest.mark.slow
@pytest.mark.parametrize("language", ADD)
def test_a_draft_is_yaml_that_asks_and_once_answered_validates(language: str, tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, *ADD[language])
    assert yaml.safe_load(file.read_text())["kernel"] == "add"
    data = data_of(file)
    assert [(a["name"], a["dtype"], a.get("role")) for a in data["operation"]["arguments"]] == [
        ("c", "float32", "out"), ("a", "float32", "in"), ("b", "float32", "in"), ("n", "int32", None),
    ]  # fmt: skip
    assert (data["parameters"], data["default"]) == ({"BLOCK": [64, 128, 256, 512, 1024]}, {"BLOCK": 256})
    for command in (("validate", file), (file, "1000")):
        done = tune(*command)
        header, *questions = done.err.splitlines()
        assert (done.status, done.out) == (2, "")
        several = len(questions) > 1
        count, each = (f"{len(questions)} open questions", "each") if several else ("an open question", "it")
        assert f"{file}: {count}; answer {each} on its line, and remove its `# ?`" in header
        lines = [(number, line.partition("# ? ")[2]) for number, line in enumerate(file.read_text().splitlines(), 1)]
        assert questions == [
            f"  line {number}: {'sizes' if number == 5 else 'reference' if 'hold?' in ask else 'block'}: {ask}"
            for number, ask in lines
            if ask and number > 2
        ]
    file.write_text(answered(file.read_text()))
    done = tune("validate", file)
    assert done.status == 0, done.err


@pytest.mark.slow
@pytest.mark.parametrize(("language", "device"), [("opencl", "opencl"), ("c", "host")])
def test_an_answered_draft_tunes(
    language: str, device: str, tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # times of more are noise here, and bring four times as many rounds
    file = drafted(tmp_path, tune, *ADD[language])
    file.write_text(answered(file.read_text()))
    done = tune(file, "1000", "--device", device, "--json", "--repeats", "2")
    assert (done.status, done.json["failed"], done.json["evaluated"]) == (0, {}, 5), done.err


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
        "ns::conv<{T}, {threads}, {fast}>",
        {"T": ["float32", "float64"]},
    )
    assert "#ifndef" not in text, "the file may define them as it does"


def test_threads_that_the_source_leaves_to_the_launch_are_parameters(tmp_path: Path, tune: Tune) -> None:
    code = (
        "__global__ void f(float *y, int n, int m) {\n"
        "    y[(blockIdx.y * blockDim.y + threadIdx.y) * n + blockIdx.x * blockDim.x + threadIdx.x] = 1;\n}\n"
    )
    data = data_of(drafted(tmp_path, tune, "f.cu", code))
    assert list(data["parameters"]) == data["block"] == ["block_size_x", "block_size_y"]
    assert data["grid"] == ["ceil_div(n, block_size_x)", "ceil_div(m, block_size_y)"]
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
    assert "its type is real: which dtype is it?; if it is a pointer, add a shape and a role" in line
    file.write_text(answered(file.read_text()).replace("reference: a + b", "reference: alpha * x[0]"))
    assert tune("validate", file).status == 0


OF_OTHERS = """
#define TILE 64
__constant__ float weights[4];
__constant__ float table[8];
template <typename T, typename Stride>
__global__ void f(T *y, const T *x, Stride apart, int n) {
    static_assert(TILE >= 64, "f (only"); y[threadIdx.x % TILE] = x[1 + 2 * apart] * weights[n]; }
__global__ void g(float *y) { y[threadIdx.x % TILE] = table[threadIdx.x % TILE]; }
"""


def test_types_of_parts_of_indices_are_integers_and_what_other_kernels_have_is_left_out(
    tmp_path: Path, tune: Tune
) -> None:
    data = data_of(drafted(tmp_path, tune, "f.cu", OF_OTHERS, "--entry", "f"))
    assert min(data["parameters"]["TILE"]) == 64
    operation = data["operation"]
    assert operation["types"] == {"T": ["float32", "float64"], "Stride": ["int32", "int64"]}
    assert [a["name"] for a in operation["arguments"]] == ["y", "x", "apart", "n", "weights"]
    (tmp_path / "f.yaml").unlink()
    data = data_of(drafted(tmp_path, tune, "f.cu", OF_OTHERS, "--entry", "g"))
    assert [a["name"] for a in data["operation"]["arguments"]] == ["y", "table"]
    assert min(data["parameters"]["TILE"]) < 64


PAIRS = """
#include <cuComplex.h>
__global__ void f(float2 *y, const double2 *x, const float4 *w, int n, const cuFloatComplex *__restrict__ z) {
    y[threadIdx.x].x = x[0].x + z[threadIdx.x].x;
}
"""


def test_a_pair_of_numbers_is_drafted_as_two_and_may_be_complex(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "f.cu", PAIRS)
    arguments = [each for each in data_of(file)["operation"]["arguments"] if "shape" in each]
    assert [(a["dtype"], a["shape"]) for a in arguments] == [
        ("float32", ["n", 2]), ("float64", ["n", 2]), ("float32", ["n", 4]), ("complex64", ["n"])
    ]  # fmt: skip
    text = file.read_text()
    assert "# or complex64, of the shape [n]" in text
    assert "# or complex128, of the shape [n]" in text
    text = answered(text).replace("reference: a + b", "reference: x")
    for answer in (
        text,
        text.replace("float64, shape: [n, 2]", "complex128, shape: [n]").replace(
            ": x\n", ": real(x[:, None] * ones(2))\n"
        ),
    ):
        file.write_text(answer)
        done = tune("validate", file)
        assert done.status == 0, done.err


@pytest.mark.slow
def test_a_macro_whose_default_is_a_word_is_told_in_a_comment(tmp_path: Path, tune: Tune) -> None:
    code = ADD["c"][1].replace("static", "SCHED")
    guarded = "#ifndef SCHED\n#define SCHED static\n#endif\n#define UNUSED word\n#define real float\n" + code
    file = drafted(tmp_path, tune, "add.c", guarded)
    text = file.read_text()
    assert "  # SCHED: [static]    # a macro whose value is a word: add others" in text
    assert "UNUSED" not in text
    assert list(data_of(file)["parameters"]) == ["BLOCK"]
    file.write_text(answered(text).replace("  # SCHED: [static]", "  SCHED: [static, dynamic]").replace(
        "default: {", "default: {SCHED: static, "
    ))  # fmt: skip
    done = tune("validate", file, "--compile")
    assert done.status == 0, done.err


@pytest.mark.parametrize(("index", "block"), [("blockIdx.x * 32 + threadIdx.x", "32"), ("threadIdx.x", "block_size_x")])
def test_threads_that_a_source_neither_names_nor_reads_are_asked_for(
    index: str, block: str, tmp_path: Path, tune: Tune
) -> None:
    file = drafted(tmp_path, tune, "f.cu", f"__global__ void f(float *y, int n) {{ y[{index}] = 1; }}")
    text = file.read_text()
    assert f"block: [{block}]  # ? how many threads in x, y, z?" in text
    ask = "  # ? the source does not read the block size: which macro or number is it in x?"
    assert (ask in text) == (block == "block_size_x")


def test_a_word_that_yaml_would_take_for_something_else_stays_a_word(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "a b.c", "void yes(float *on, const float *no, int off) { on[0] = no[0]; }")
    data = yaml.safe_load(file.read_text())
    assert (data["kernel"], data["source"]) == ("yes", "a b.c")
    assert [a["name"] for a in data["operation"]["arguments"]] == ["on", "no", "off"]


@pytest.mark.parametrize(
    ("name", "code", "options", "message"),
    [
        ("f.cu", RICH, [], "several kernels: ns::conv, other; choose one with --entry NAME"),
        ("f.cu", RICH, ["--entry", "convolution"], "there is no such kernel; it has ns::conv, other"),
        ("f.cu", "int x;", [], "no kernel found; tuner looks for __global__ and __kernel functions"),
        ("f.c", "static void f(int n) {} int main() { f(1); }", [], 'static: f; write a .c file with #include "f.c"'),
        ("f.cpp", RICH, [], 'a .c file with an extern "C" function that calls it, and `compile_options: {c: [-xc++]}`'),
        ("f.hpp", "template <int N> void f(float *y) {}", [], "lists; a function in C++ for the CPU needs a .c file"),
        ("f.txt", RICH, [], "not a kernel file; name one that ends in .c, .cl, .cu, or in .clh, .cuh, .h, .hip, "),
        (".", None, [], ".: a folder, not a kernel file; name one"),
        ("f.cu", "\0\xff", [], "no kernel"),
        ("f.cu", "__global__ void NAME(add)(float *y) {}", [], "made by a macro, NAME(add): write the name itself"),
        ("nowhere/f.cu", None, [], "cannot be read: No such file or directory; name a kernel file"),
        ("f.cu", ADD["cuda"][1], ["--output", "there.yaml"], "there.yaml: already exists"),
        ("f.cu", RICH, ["--entry", "ns::conv", "--output", "there.yaml"], "file with --output, such as conv.yaml"),
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
__constant__ float4 weights[3][2];
__constant__ double2 bias;
__constant__ float known[2] = {1, 2};
__constant__ int unused[4];
extern "C" __global__ void __launch_bounds__(threads) parts(float *partials, const float *x, int n) {
    partials[blockIdx.x * threads + threadIdx.x] = x[n - 1] * weights[2][1].x * bias.y * known[0];
}
template <int items>
__global__ void last(float *total, const float *partials, int n) { total[0] = partials[0]; }
"""


def test_a_draft_of_steps_knows_their_order_scratch_and_constants(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "sum.cu").write_text(STEPS)
    done = tune("new", tmp_path / "sum.cu")
    assert "several kernels: parts, last; choose one with --entry NAME, or list the steps" in done.err
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
        "total": (None, "out", [1]),
        "weights": ("constant", "in", [3, 2, 4]),
        "bias": ("constant", "in", [2]),
    }
    assert data["parameters"].keys() == {"threads", "items"}


def test_an_answered_draft_of_steps_validates(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "sum.cu", STEPS, "--entry", "parts,last")
    text = re.sub(r"  # \? .*", "", file.read_text()).replace("reference:\n", "reference: x[0]\n", 1)
    file.write_text(text)
    done = tune("validate", file, "--compile")
    assert done.status == 0, done.err


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


@pytest.mark.slow
def test_the_example_of_the_readme_works_as_it_is_written(tmp_path: Path, tune: Tune) -> None:
    """Its two files: the source, whose knob nothing defines, and the answers to its draft's questions."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    source, answers = (
        re.search(rf"```{kind}(.*?)```", readme, re.DOTALL) for kind in ("c\n// twice.cu", "yaml\n# twice.yaml")
    )
    assert source is not None
    assert answers is not None
    file = drafted(tmp_path, tune, "twice.cu", source[1])
    data, line = data_of(file), next(line for line in file.read_text().splitlines() if " threads: [" in line)
    assert (data["parameters"], data["default"]) == ({"threads": [64, 128, 256, 512]}, {"threads": 256})
    assert "# ? which values may it have? the source does not define it" in line
    assert data["block"] == ["threads"]
    for text in (answered(file.read_text()).replace("a + b", "2 * x"), answers[1]):
        file.write_text(text)
        done = tune("validate", file, "--compile", "--json")
        assert (done.status, done.err, len(done.json["builds"])) == (0, "", 2)


UNDECLARED = """
#include <math.h>
typedef struct { float lo, hi; } Range;
#ifdef EXTRA
#define SCALE EXTRA
#endif
#define LOCAL_LOOP(k) for (int k = 0; k < 4; k++)
inline float clamped(float v, Range r) { return fminf(fmaxf(v, r.lo), r.hi); }
void f(float *y, const float *restrict x, int n) {
    Range range = {-INFINITY, INFINITY}, *other = &range;
    float part[LANES], *last = part + LANES - 1, sum = 0, scale;
    for (int i = 0, step = UNROLL; i < n; i += step) {
        unsigned j = i & 3;
        LOCAL_LOOP(k) { part[j] += (float)k * M_PI; }
        y[i * (STRIDE)] = CLAMP ? clamped(x[i], *other) : x[i];
        for (size_t t = 0; t < BLOCK_ROWS; t++) sum += part[t];
        if (FAST) scale = 2; else scale = 3;
        *last = sum * scale;
    }
again:
    if (sum > FLT_MAX) goto again;
}
"""


def test_only_names_that_nothing_declares_are_knobs(tmp_path: Path, tune: Tune) -> None:
    parameters = data_of(drafted(tmp_path, tune, "f.c", UNDECLARED, "--entry", "f"))["parameters"]
    assert parameters == {
        "LANES": [1, 2, 4, 8],
        "UNROLL": [1, 2, 4, 8],
        "STRIDE": [1, 2, 4, 8],
        "CLAMP": [0, 1],
        "BLOCK_ROWS": [1, 2, 4, 8],
        "FAST": [0, 1],
    }


BLUR = """
#include "blur.hpp"
float first(const float *x) { return x[0]; }
extern "C" void blur(float *out, const float *x, int n) { rows<float, TILE, SIMD>(out, x, n); }
"""


def test_a_function_in_c_plus_plus_is_compiled_as_such_and_numbers_of_its_templates_are_knobs(
    tmp_path: Path, tune: Tune
) -> None:
    body = "for (int i = 0; i < n; i += Tile) for (int j = i; j < n && j < i + Tile; j++) out[j] = x[j]"
    template = "template <typename T, int Tile, bool Simd> void rows"
    (tmp_path / "blur.hpp").write_text(f"{template}(T *out, const T *x, int n) {{ {body}; }}")
    file = drafted(tmp_path, tune, "blur.c", BLUR)
    data = data_of(file)
    assert (data["compile_options"], data["parameters"]) == ({"c": ["-xc++"]}, {"TILE": [1, 2, 4, 8], "SIMD": [0, 1]})
    file.write_text(answered(file.read_text()).replace("a + b", "x"))
    assert tune("validate", file, "--compile").status == 0


CPP = """
#include <cub/block/block_reduce.cuh>
namespace cg = cooperative_groups;
enum class Mode { sum, most };
template <typename T> struct Op { T scale; __device__ T operator()(T a, T b) const { return a + b * scale; } };
template <typename T, int BLOCK>
__global__ void f(const T *in, T *out, cudaTextureObject_t image, int n, Mode mode) {
    typedef cub::BlockReduce<float, BLOCK / WARPS> Reduce;
    using Frag = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half>;
    __shared__ typename Reduce::TempStorage temp, other;
    const auto &[lo, hi] = std::make_pair(0, 1);
    float4 v = reinterpret_cast<const float4 *>(in)[threadIdx.x], *p = (float4 *)out;
    uint32_t s = static_cast<uint32_t>(__cvta_generic_to_shared(p)), q;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(q) : "r"(s) : "memory");
    auto g = [&](float a, int b) -> float { float c = a * b; return c + v.x; };
    for (int i = threadIdx.x, k = 0; i < n && k < 4; i += gridDim.x * blockDim.x, ++k) {
        if constexpr (sizeof(T) == 4) v.x += CUDART_PI_F * FLT_EPSILON + tex2D<float>(image, 0, hi);
        else if (mode == Mode::sum) v.y += INFINITY;
        switch (k) { case 0: p[k] = v; break; default: printf("%d", k + lo); }
    }
    T acc[ROWS] = {};
    const __half2 *pairs = reinterpret_cast<const __half2 *>(in), *const last = pairs + n / 2;
    __nv_bfloat162 both = {}, twice{};
    acc[0] = pairs[0].x + last[-1].y * both.x - twice.y;
    #pragma unroll DEPTH
    const Op<T> op{1}, *po = &op;
    float ((*TILES)[4]) = (float (*)[4])out;
    acc[0] += 2 * TILES[1][0];
    if (!VERBOSE and s < STEP) atomicAdd(out, (T)(acc[0] + po->scale + q + Reduce(temp).Sum(g(v.x, lo))));
}
#define OTHER_DEPTH 4
__global__ void later(float *y, int n) {
    #pragma unroll OTHER_DEPTH
    for (int i = 0; i < n; i++) y[i] = 0;
    #pragma unroll UNDEFINED_DEPTH
    for (int i = 0; i < n; i++) y[i] += 1;
}
int main(int count, char **names) { f<float, 128><<<1, HOST_ONLY * 4>>>(0, 0, 0, 1, Mode::sum); }
"""


def test_templates_casts_and_lambdas_leave_only_knobs_undeclared(tmp_path: Path, tune: Tune) -> None:
    parameters = data_of(drafted(tmp_path, tune, "f.cu", CPP, "--entry", "f"))["parameters"]
    assert list(parameters) == ["BLOCK", "WARPS", "ROWS", "VERBOSE", "STEP", "DEPTH", "block_size_x"]


CONSTANTS = """
static const int ROWS = 8, WIDE = 2;
constexpr unsigned kThreads = 128u;
enum { ITEMS = 2, MORE = 2 };
const int UNUSED = 4;
template <int VEC = 4, bool fast = true, int DEPTH>
__global__ void __launch_bounds__(kThreads * ROWS) f(float *y, bool flag, int n) {
    constexpr int LOCAL = 3;
    if (flag) y[blockIdx.x * ITEMS * MORE * WIDE * VEC * LOCAL] = fast;
}
"""


def test_constants_and_defaults_of_templates_are_values_of_knobs(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "f.cu", CONSTANTS)
    data, text = data_of(file), file.read_text()
    of_constants = {"ROWS": 8, "WIDE": 2, "kThreads": 128, "ITEMS": 2, "MORE": 2}
    assert data["default"] == {"VEC": 4, "fast": True, "DEPTH": 1} | of_constants
    assert data["block"] == ["kThreads * ROWS"]
    assert data["operation"]["options"] == {"flag": 1}
    assert re.search(r"DEPTH: .*# \? which values may it have\? it has no default in the source", text)
    assert re.search(r"VEC: \[1, 2, 4, 8, 16\]\n", text)
    file.write_text(answered(text).replace("a + b", "ones(n)"))
    done = tune("validate", file, "--compile")
    assert done.status == 0, done.err


@pytest.mark.parametrize(
    ("index", "block"),
    [
        ("int x = (blockIdx.x * PX + 1) * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;", ["BX", "BY"]),
        ("int x = threadIdx.x + blockIdx.x * (BX * PX), y = 0; for (; y < n; y += BX) {}", ["BX"]),
        ("int x = 0, y = blockIdx.x * BY + threadIdx.y; for (x = threadIdx.x; x < n; x += BX) {}", ["BX", "BY"]),
        ("int x = threadIdx.x + PX, y = blockIdx.y * BX * BY;", ["block_size_x"]),
        ("int y = 0, x = threadIdx.x; for (; x < BX * BY; x += (BX * BY) / (PX * PX)) {}", ["(BX * BY) // (PX * PX)"]),
    ],
)
def test_macros_by_which_threads_are_apart_are_the_block(
    index: str, block: list[str], tmp_path: Path, tune: Tune
) -> None:
    macros = "".join(f"#ifndef {name}\n#define {name} 8\n#endif\n" for name in ("PX", "BX", "BY"))
    code = f"{macros}__global__ void f(float *data, int n) {{ {index} data[y * PX * BX * BY + x] = 1; }}"
    file = drafted(tmp_path, tune, "f.cu", code)
    assert data_of(file)["block"] == block
    invented = {name for name in block if name.startswith("block_size")}
    assert data_of(file)["parameters"].keys() == {"PX", "BX", "BY", *invented}
    assert f"block: [{', '.join(block)}]  # ? how many threads in x, y, z?" in file.read_text()


def test_a_name_that_nothing_defines_gets_the_values_of_blocks_where_it_is_one(tmp_path: Path, tune: Tune) -> None:
    """Else a block of one thread would be the default, and the gain over it would say nothing."""
    body = "int x = blockIdx.x * TX * PX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y; data[y * n + x] = PX;"
    data = data_of(drafted(tmp_path, tune, "f.cu", f"__global__ void f(float *data, int n) {{ {body} }}"))
    assert data["default"] == {"TX": 16, "PX": 1, "TY": 16}
    assert (data["block"], data["parameters"]["TX"]) == (["TX", "TY"], [8, 16, 32])


COPY = "if (x < w && y < h) out[y * w + x] = in[y * w + x];"
COLUMN = "int x = blockIdx.x * BX + threadIdx.x;"
ROWS_OF_CL = f"""
__kernel void f(__global float *out, __global const float *in, int w, int h) {{
    int x = get_group_id(0) * BX + get_local_id(0);
    for (int j = 0; j < ROWS; j++) {{ int y = INDEX; {COPY} }}
}}
"""
TILED = {
    "rows within a block": (ROWS_OF_CL.replace("INDEX", "(get_group_id(1) * ROWS + j) * BY + get_local_id(1)"), 2),
    "rows of a thread": (ROWS_OF_CL.replace("INDEX", "(get_group_id(1) * BY + get_local_id(1)) * ROWS + j"), 2),
    "CUDA": (
        f"{COLUMN} for (int j = 0; j < ROWS; j++) {{ int y = (blockIdx.y * ROWS + j) * BY + threadIdx.y; {COPY} }}", 2
    ),
    "a loop that ends at the border": (
        f"{COLUMN} int y0 = blockIdx.y * (BY * ROWS) + threadIdx.y; "
        f"for (int j = 0; j < ROWS && y0 + j * BY < h; j++) {{ int y = y0 + j * BY; {COPY} }}", 2
    ),
    "steps of the threads": (
        f"{COLUMN} int y0 = blockIdx.y * BY * ROWS; "
        f"for (int y = y0 + threadIdx.y; y < min(h, y0 + BY * ROWS); y += BY) {{ {COPY} }}", 2
    ),
    "steps in a tile": (
        f"{COLUMN} int y0 = blockIdx.y * (BY * ROWS) + threadIdx.y; "
        f"for (int j = 0; j < BY * ROWS; j += BY) {{ int y = y0 + j; {COPY} }}", 2
    ),
    "items far apart": (
        "for (int k = 0; k < ROWS; k++) { int i = blockIdx.x * BX * ROWS + threadIdx.x + k * BX; "
        "if (i < w) out[i] = in[i]; }", 1
    ),
    "items of a thread": (
        "int i = (blockIdx.x * BX + threadIdx.x) * ROWS; "
        "for (int k = 0; k < ROWS; k++) if (i + k < w) out[i + k] = in[i + k];", 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", TILED)
def test_threads_apart_by_tiles_are_a_block_and_no_knobs_are_invented(how: str, tmp_path: Path, tune: Tune) -> None:
    body, dimensions = TILED[how]
    macros = "".join(f"#ifndef {name}\n#define {name} 8\n#endif\n" for name in ("BX", "BY", "ROWS"))
    code = body if "__kernel" in body else f"__global__ void f(float *out, const float *in, int w, int h) {{ {body} }}"
    data = data_of(drafted(tmp_path, tune, "f.cl" if "__kernel" in body else "f.cu", macros + code))
    assert (data["block"], data["grid"]) == (
        (["BX", "BY"], ["ceil_div(w, BX)", "ceil_div(h, BY * ROWS)"]) if dimensions == 2
        else (["BX"], ["ceil_div(w, BX * ROWS)"])
    )  # fmt: skip
    assert not [name for name in data["parameters"] if name.startswith("block_size")]


def test_an_array_that_is_read_before_it_is_written_is_inout(tmp_path: Path, tune: Tune) -> None:
    body = "a[n] = 2 * a[n]; float t = b[0]; b[1] = t; c[0] = t; d[0] = c[0]; float *e0 = &e[n]; e[0] = t;"
    code = f"__global__ void f({', '.join(f'float *{name}' for name in 'abcde')}, int n) {{ {body} }}"
    file = drafted(tmp_path, tune, "f.cu", code)
    roles = {a["name"]: a["role"] for a in data_of(file)["operation"]["arguments"] if "role" in a}
    assert roles == {"a": "inout", "b": "inout", "c": "out", "d": "out", "e": "out"}
    asked = [name for name in "abcde" if re.search(rf"name: {name},.*in, out or inout", file.read_text())]
    assert asked == ["e"]


DYNAMIC = """
#define THREADS 64
struct Params { int n; float a; };
__device__ float last(float *sums);
__global__ void f(uchar4 *y, const uchar4 *x, float2 ab, int2 dims, Params p, float *const *rows, int n) {
    extern __shared__ __align__(16) double sums[];
    sums[threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x].x + last(sums);
    y[0] = make_uchar4(sums[0], 0, 0, 0);
}
"""


def test_a_draft_asks_for_dynamic_shared_memory_and_for_what_is_no_number(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "f.cu", DYNAMIC)
    data, text = data_of(file), file.read_text()
    arguments = {a["name"]: (a.get("dtype"), a.get("shape", a.get("value"))) for a in data["operation"]["arguments"]}
    assert arguments == {
        "y": ("uint8", [1, 4]),
        "x": ("uint8", ["n", 4]),
        "ab": ("float2", [1, 1]),
        "dims": ("int2", [1, 1]),
        "p": (None, None),
        "rows": ("uint64", ["n"]),
        "n": ("int32", None),
    }
    assert list(data["operation"]["sizes"]) == ["n"]
    assert data["shared_memory"] == "8 * THREADS"
    assert "# ? how many bytes does a block need? sums is extern __shared__ in the source" in text
    for name, ask in {
        "ab": "which values has it: sizes, options, expressions of them, or is it complex64?",
        "dims": "which values has it: sizes, options, expressions of them",
        "rows": "pointers to pointers are not supported: use one array and offsets in the source",
    }.items():
        assert re.search(rf"name: {name},.*# \? {re.escape(ask)}", text), name
    assert "  options: {a: 1.0}  # write the usual values\n" in text, "of a field, as of an argument"
    assert "shape: [1, 4], role: out}  # an element of uchar4 has 4 numbers\n" in text
    assert "# bytes: 4 * 1 + 12 * n" in text
    assert "expected(x, rows, *, n, a)" in text


@pytest.mark.parametrize(
    ("step", "terms"),
    [
        ("y[j] += x[j * n + i]", ["n"]),
        ("y[i] = 2 * x[i]", []),
        ("{ float s = 0; for (int d = -2; d <= 2; d++) s += x[j * n + i] * d; y[j * n + i] = s; }", ["5"]),
    ],
)
def test_a_tolerance_is_offered_for_sums_and_not_for_steps_of_loops(
    step: str, terms: list[str], tmp_path: Path, tune: Tune
) -> None:
    loops = f"for (int j = 0; j < m; j++) for (int i = 0; i < n; i += 2) {step};"
    code = f"void f(float *y, const float *x, int n, int m) {{ {loops} }}"
    text = drafted(tmp_path, tune, "f.c", code).read_text()
    assert re.findall(r"if each output is a sum of (\w+) terms", text) == terms


def test_without_inputs_a_draft_offers_a_function_of_sizes(tmp_path: Path, tune: Tune) -> None:
    file = drafted(tmp_path, tune, "f.c", "void f(float *y, int n) { for (int i = 0; i < n; i++) y[i] = i; }")
    assert "expected(*, n) returns an array" in file.read_text()
    assert "# reference: zeros(n)    #" in file.read_text()


def test_an_expression_adds_only_inputs_of_the_output_s_shape(tmp_path: Path, tune: Tune) -> None:
    loop = "for (int i = 0; i < n; i++) y[i] = w[0] * x[i] + w[1] * z[i] + w[2];"
    arguments = "float *y, const float *x, const float *w, const float *z, int n"
    assert "# reference: x + z    #" in drafted(tmp_path, tune, "f.c", f"void f({arguments}) {{ {loop} }}").read_text()


def test_the_chunk_of_a_schedule_is_no_size_whatever_its_name(tmp_path: Path, tune: Tune) -> None:
    loop = "#pragma omp parallel for schedule(static, ROWS)\n    for (int i = 0; i < n; i++) y[i] = 1;\n"
    file = drafted(tmp_path, tune, "f.c", f"#define ROWS 8\nvoid f(float *y, int n) {{\n{loop}}}\n")
    assert "  ROWS: [2, 4, 8, 16, 32]\n" in file.read_text()


HOST = """\
#include <cstdio>
#include <vector>  // for main()
// scale<<<1, 2>>>(y, n);
#if defined(__CUDACC_RTC__) && 1
#else
#include <string>
#endif
__global__ void scale(float *y, int n) { y[threadIdx.x] *= 2; }
__host__ __device__ int both(int n) { return n; }
#ifndef __CUDACC_RTC__
#ifdef BENCHMARK
int main() { scale<<<1, 2>>>(0, 0); }
#endif
#else
__host__ int only() { return 1; }
#endif
void launch(float *y, int n) { scale<<<1, 2>>>(y, n); }
"""


def test_host_code_is_neither_asked_about_nor_read(tmp_path: Path, tune: Tune) -> None:
    text = drafted(tmp_path, tune, "f.cu", HOST, "--entry", "scale").read_text()
    assert "host code" not in text
    assert "BENCHMARK" not in text
