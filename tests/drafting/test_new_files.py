"""`tune new` reads files as people have them: their own names of types, enumerations, headers, macros and encodings."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.drafts import compiled, drafted, guessed
from helpers.processes import Tune

I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"  # noqa: E741


def test_a_type_has_the_dtype_for_which_it_is_another_name(tmp_path: Path, tune: Tune) -> None:
    code = (
        "typedef double real;\nusing whole = unsigned int;\n#define DATA float\ntypedef real number;\n"
        f"__global__ void f(number *y, const DATA *x, const whole *k, int n) {{ {I} if (i < n) y[i] = x[i] + k[i]; }}\n"
    )
    data, text = drafted(tmp_path, tune, code)
    assert [a["dtype"] for a in data["operation"]["arguments"]] == ["float64", "float32", "uint32", "int32"]
    compiled(tmp_path, tune, text)


def test_parameters_of_templates_are_what_their_kinds_are(tmp_path: Path, tune: Tune) -> None:
    """Enumerators by name, scoped ones too; a cast for an enumeration of a library; integers for an index."""
    code = """\
#include <mma.h>
enum Mode { SUM, MAX = 3 };
enum class Order { UP, DOWN };
template <typename T, typename Index, Mode mode, Order order, nvcuda::wmma::layout_t layout>
__global__ void f(T *y, Index n) {
    Index i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && i % 2 == 0) y[i] = mode == SUM ? T(int(order)) : T(int(layout));
}
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["kernel"] == "f<{T}, {Index}, {mode}, Order::{order}, (nvcuda::wmma::layout_t){layout}>"
    assert (data["parameters"]["mode"], data["parameters"]["order"]) == (["SUM", "MAX"], ["UP", "DOWN"])
    assert data["operation"]["types"] == {"T": ["float32", "float64"], "Index": ["int32", "int64"]}
    assert list(data["operation"]["sizes"]) == ["n"]
    compiled(tmp_path, tune, text)


def test_knobs_are_what_the_kernel_reads(tmp_path: Path, tune: Tune) -> None:
    """Of an included header, through macros and structs; none that another kernel reads, and no code of a case."""
    (tmp_path / "tile.h").write_text("#define TILE 16\n#define UNUSED 8\nconst int OFTEN = 2;\n")
    code = f"""\
#include "tile.h"
#define ADD 0
#define SCALE 1
#define OTHER 4
#define at(i) ((i) * BY_BUILD)
struct Node {{ int keys[ORDER]; }};
__global__ void f(float *y, const Node *nodes, int mode, int n) {{
    {I}
    for (int k = 0; k < TILE; k += OFTEN)
        if (i < n) y[i] = (mode == ADD ? 1 : mode == SCALE ? k : 0) + at(i) + nodes[i].keys[0];
}}
__global__ void g(float *y) {{ y[0] = OTHER + HIDDEN; }}
"""
    data, _ = drafted(tmp_path, tune, code, "--entry", "f")
    assert {*data["parameters"]} == {"TILE", "OFTEN", "BY_BUILD", "ORDER", "block_size_x"}


def test_arrays_of_structs_of_one_type_are_arrays_of_numbers(tmp_path: Path, tune: Tune) -> None:
    """A constant pointer may be written to. One that is read by `->` has one element. Flags are those that the kernel
    reads, not host code or other kernels."""
    code = f"""\
struct Complex {{ double re, im; }};
struct Body {{ float x, y, z; }};
struct Particle {{ float2 place; float mass; }};
struct Corner {{ int x, y; }};
struct Box {{ Corner low, high; }};
__global__ void other(float *y) {{
#ifdef OF_OTHER
    y[0] = 1;
#endif
}}
__global__ void f(Complex *const __restrict__ y, const Complex *x, const Body *b, Box *box, int n, Particle *p) {{
    {I}
#ifdef FAST
    if (i < n) y[i].re = x[i].im;
#else
    if (i < n) y[i].re = x[i].im + b[i].z * (box->high.x - box->low.x) * p[i].mass;
#endif
}}
int main() {{
#ifdef VERIFY
    return 1;
#endif
}}
"""
    data, text = drafted(tmp_path, tune, code, "--entry", "f")
    arrays = [(a["dtype"], a["shape"], a["role"]) for a in data["operation"]["arguments"][:4]]
    assert arrays[:2] == [("complex128", ["n"], "out"), ("complex128", ["n"], "in")]
    assert arrays[2:] == [("float32", ["n", 3], "in"), ("int32", [1, 4], "in")]
    assert data["operation"]["arguments"][5]["shape"] == ["n", 4], "its alignment leaves four bytes behind it"
    assert "its elements are of Box: which numbers?" in text
    assert "# bytes: 60 * n + 16 * 1 " in text
    assert {*data["parameters"]} == {"FAST", "block_size_x"}
    compiled(tmp_path, tune, text)


def test_a_scalar_has_another_name_than_a_word_of_expressions(tmp_path: Path, tune: Tune) -> None:
    head = "__global__ void f(float *y, const float *in, int len, float lambda)"
    code = f"{head} {{ {I} if (i < len) y[i] = lambda * in[i]; }}"
    data, text = drafted(tmp_path, tune, code)
    assert list(data["operation"]["sizes"]) == ["len_"]
    assert data["operation"]["options"] == {"lambda_": 1.0}
    assert guessed(text) == []
    compiled(tmp_path, tune, text)


def test_headers_of_host_code_may_be_missing_and_those_of_the_kernel_are_named(tmp_path: Path, tune: Tune) -> None:
    code = f"""\
#include "measure.h" // for the host
#ifdef WITH_PICTURES
#include "pictures.h"
#endif
#include <papi/counters.hpp>
#include <vector>
__global__ void f(float *y, int n) {{ {I} if (i < n) y[i] = 2; }}
int main() {{ start(); }}
"""
    _, text = drafted(tmp_path, tune, code)
    assert 'measure.h" is not in' in text, "a header may declare what a knob would be"
    compiled(tmp_path, tune, text)
    done = tune("validate", tmp_path / "f.yaml", "--compile")
    assert 'f.cu:1: #include "measure.h" is not in' in done.err
    assert "pictures.h" not in text + done.err
    (tmp_path / "f.cu").write_text(code.replace("= 2", "= VALUE"))
    done = tune("validate", tmp_path / "f.yaml", "--compile")
    assert done.status == 2
    headers = '"measure.h", <papi/counters.hpp>'
    assert f'identifier "VALUE" is undefined; not found, and taken as empty: {headers}' in done.err
    (tmp_path / "f.cu").write_text(code.replace("<vector>", "<cub/no_such_part.cuh>").replace("= 2", "= cub::VALUE"))
    done = tune("validate", tmp_path / "f.yaml", "--compile")
    assert f"{headers}, <cub/no_such_part.cuh>; pip install nvidia-cuda-cccl" in done.err
    (tmp_path / "f.cu").write_text(code.replace("int main() { start(); }\n", ""))
    done = tune("validate", tmp_path / "f.yaml")
    assert (done.status, done.err.count("\n")) == (2, 1), "nothing but the kernel can need it"
    (tmp_path / "f.cu").write_text(
        f"#include <papi/counters.hpp>\n__global__ void f(float *y, int n) {{ {I} y[i] = 2; }}\n"
    )
    assert tune("validate", tmp_path / "f.yaml", "--compile").status == 0, "a library's header may be missing"


def test_a_header_in_brackets_with_device_code_is_found_beside_the_kernel(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "shift.cuh").write_text("__device__ float shifted(float x) { return x + 1; }\n")
    code = f"#include <shift.cuh>\n__global__ void f(float *y, int n) {{ {I} if (i < n) y[i] = shifted(i); }}\n"
    data, text = drafted(tmp_path, tune, code)
    assert data["include"] == ["."]
    compiled(tmp_path, tune, text)


def test_a_header_of_the_repository_is_found_if_only_one_folder_has_it(tmp_path: Path, tune: Tune) -> None:
    for folder in (".git", "src", "common/util", "old/util"):
        (tmp_path / folder).mkdir(parents=True)
    code = f'#include "util/size.h"\n__global__ void f(float *y, int n) {{ {I} if (i < SIZE * n) y[i] = 2; }}\n'
    (tmp_path / "src/f.cu").write_text(code)
    (tmp_path / "common/util/size.h").write_text('#include "more.h"\n')
    (tmp_path / "common/more.h").write_text("#define SIZE 4\n")
    (tmp_path / "old/util/size.h").write_text("#define SIZE 8\n")
    assert tune("new", tmp_path / "src/f.cu", "--output", tmp_path / "several.yaml").status == 0
    text = (tmp_path / "several.yaml").read_text()
    assert f"add its folder to `include:`: {tmp_path / 'common'} or {tmp_path / 'old'}" in text
    (tmp_path / "old/util/size.h").unlink()
    assert tune("new", tmp_path / "src/f.cu", "--output", tmp_path / "f.yaml").status == 0
    assert "include: [common]\n" in (tmp_path / "f.yaml").read_text()
    compiled(tmp_path, tune, (tmp_path / "f.yaml").read_text())


def test_of_a_kernel_in_a_header_blocks_are_knobs_and_numbers_of_a_build_are_none(tmp_path: Path, tune: Tune) -> None:
    """A kernel without a bound, whose whole blocks the host launches; a block of cub has its number of threads."""
    (tmp_path / "kernels.h").write_text("""
#ifdef GIVEN
#define SHIFT GIVEN
#else
#define SHIFT 2
#endif
__global__ void f(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = SHIFT; }
__global__ void sums(float *z, const float *x, int n) {
    using Sum = cub::BlockReduce<float, 128>;
    __shared__ typename Sum::TempStorage memory;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    sum = Sum(memory).Sum(sum);
    if (threadIdx.x == 0) z[blockIdx.x] = sum;
}
""")
    launches = "f<<<n / 64, 64>>>(y, n); sums<<<rows, 128>>>(z, x, n);"
    host = f"int main() {{ float *y, *z, *x; int n = count(), rows = count(); {launches} }}"
    code = f'#include <cub/cub.cuh>\n#include "kernels.h"\n{host}\n'
    for entry, block, conditions in ("f", ["block_size_x"], ["n % block_size_x == 0"]), ("sums", [128], []):
        data, _ = drafted(tmp_path, tune, code, "--entry", entry)
        assert (data["block"], [each["that"] for each in data.get("restrictions", [])]) == (block, conditions)
        assert "GIVEN" not in data["parameters"]


def test_register_hinders_nothing(tmp_path: Path, tune: Tune) -> None:
    code = f"__global__ void f(float *y, int n) {{\n    register {I} const register int two = 2;\n y[i] = two; }}\n"
    _, text = drafted(tmp_path, tune, code)
    compiled(tmp_path, tune, text)


def test_a_comment_in_latin_1_hinders_nothing(tmp_path: Path, tune: Tune) -> None:
    code = f"// gr\u00f6\u00dfe\n__global__ void f(float *y, int n) {{ {I} if (i < n) y[i] = 2; }}\n"
    _, text = drafted(tmp_path, tune, code.encode("latin-1"))
    compiled(tmp_path, tune, text)


def test_of_two_declarations_the_one_counts_that_a_plain_build_takes(tmp_path: Path, tune: Tune) -> None:
    code = """\
#ifdef USE_IMAGE
__kernel void f(image2d_t x, __global float *y, int n) {
#else
__kernel void f(__global const float *x, __global float *y, int n, int width) {
#endif
    int i = get_global_id(0);
    if (i < n) y[i] = x[i] * width;
}
"""
    data, _ = drafted(tmp_path, tune, code, name="f.cl")
    assert [a["name"] for a in data["operation"]["arguments"]] == ["x", "y", "n", "width"]
    assert "width" not in data["parameters"]


def test_images_have_sizes_for_their_axes_and_a_host_in_python_is_named(tmp_path: Path, tune: Tune) -> None:
    at = "(int2)(get_global_id(0), get_global_id(1))"
    code = f"__kernel void f(__read_only image2d_t x, __write_only image2d_t y) {{ write_imagef(y, {at}, 2.0f); }}"
    (tmp_path / "host.py").write_text("text = open('f.cl').read()\n")
    data, text = drafted(tmp_path, tune, code, name="f.cl")
    assert "# host.py names this source, but host code in Python is not read: its build options, grid" in text
    assert list(data["operation"]["sizes"]) == ["height", "width"]
    assert [each["shape"] for each in data["operation"]["arguments"]] == [["height", "width"]] * 2
    assert "grid: [ceil_div(width, block_size_x), ceil_div(height, block_size_y)]  # ? how many blocks" in text
    data, _ = drafted(tmp_path, tune, code.replace("image2d_t x", "image2d_array_t x"), name="f.cl")
    shapes = [each["shape"] for each in data["operation"]["arguments"]]
    assert shapes == [["depth", "height", "width"], ["height", "width"]]


def test_an_output_whose_shape_varies_is_compared_by_its_sum(tmp_path: Path, tune: Tune) -> None:
    code = """\
#define BLOCK 128
__global__ void f(float *parts, const float *x, int n) {
    __shared__ float all[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    all[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (threadIdx.x == 0) { float sum = 0; for (int j = 0; j < BLOCK; j++) sum += all[j]; parts[blockIdx.x] = sum; }
}
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["operation"]["derive"] == {"parts_total": "sum(parts)"}
    assert "what must parts_total hold?" in text
    compiled(tmp_path, tune, text)


def test_a_size_of_the_problem_that_the_source_defines_is_a_size(tmp_path: Path, tune: Tune) -> None:
    """By its name or its value, in an index or a bound; what an array of the kernel's own has as extent is none."""
    code = """\
#define WIDTH 512
#define POINTS 4096
#define ROWS 8
#define LENGTH 16
__global__ void f(float *y, const float *x, size_t count) {
    __shared__ float part[LENGTH];
    int c = blockIdx.x * block_size_x + threadIdx.x, r = blockIdx.y * ROWS + threadIdx.y;
    part[threadIdx.x % LENGTH] = __ldg(x + r * WIDTH + c);
    if (c < POINTS) y[r * WIDTH + c] = part[0] * block_size_y * (count > 1);
}
void run(float *y, float *x, dim3 grid, dim3 block) { const int all = WIDTH * POINTS; f<<<grid, block>>>(y, x, all); }
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["operation"]["sizes"] == {"WIDTH": 512, "POINTS": 4096}
    *arrays, count = data["operation"]["arguments"]
    assert count == {"name": "count", "dtype": "uint64", "value": "POINTS * WIDTH"}
    arrays = {a["name"]: (a["shape"], a["role"]) for a in arrays}
    assert arrays == {"y": (["POINTS", "WIDTH"], "out"), "x": (["POINTS", "WIDTH"], "in")}
    assert {*data["parameters"]} == {"ROWS", "LENGTH", "block_size_x", "block_size_y"}
    assert data["default"]["block_size_x"] * data["default"]["block_size_y"] <= 1024
    assert "WIDTH: 512  # the source defines it: here, each run sets it" in text
    compiled(tmp_path, tune, text)


def test_a_macro_that_only_scratch_has_as_an_extent_is_a_parameter(tmp_path: Path, tune: Tune) -> None:
    code = """
#define SLICES 8
#define WIDE 4
__global__ void first(float *part, const float *x, int rows, int n) {
    int r = blockIdx.y, slice = blockIdx.x, each = (n + SLICES - 1) / SLICES;
    float sum = 0;
    for (int i = slice * each; i < n && i < (slice + 1) * each; i++) sum += x[(r * n + i) * WIDE];
    part[r * SLICES + slice] = sum;
}
__global__ void second(float *y, const float *part, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0;
    for (int s = 0; s < SLICES; s++) sum += part[r * SLICES + s];
    y[r] = sum;
}
void run(float *y, int rows, int n) {
    float *part, *x;
    cudaMalloc(&part, rows * SLICES * sizeof(float));
    cudaMalloc(&x, rows * n * WIDE * sizeof(float));
    first<<<dim3(SLICES, rows), 1>>>(part, x, rows, n);
    second<<<(rows + 255) / 256, 256>>>(y, part, rows);
}
"""
    data, text = drafted(tmp_path, tune, code, "--entry", "first,second")
    assert data["parameters"]["SLICES"] == [2, 4, 8, 16, 32]
    shapes = {each["name"]: each["shape"] for each in data["operation"]["arguments"] if "shape" in each}
    assert (shapes["part"], shapes["x"]) == (["SLICES * rows"], ["4 * n * rows"])
    assert data["steps"][0]["grid"] == ["SLICES", "rows"]
    assert "# WIDE: [4]    # no knob: an extent of an argument" in text
    compiled(tmp_path, tune, text)


def test_a_cuda_file_without_a_number_has_one_of_the_compilers(tmp_path: Path, tune: Tune) -> None:
    code = "__global__ void f(float *y, int n) { if (blockIdx.x < n) y[blockIdx.x] = 2; }\n"
    code += "void run(float *y, int n) { f<<<n, 1>>>(y, n); }\n"
    data, text = drafted(tmp_path, tune, code)
    assert (data["block"], data["default"]) == ([1], {"registers": 255})
    assert data["compile_options"] == {"cuda": ["-maxrregcount={registers}"]}
    compiled(tmp_path, tune, text)


def test_a_number_that_another_value_would_make_another_operation_is_no_knob(tmp_path: Path, tune: Tune) -> None:
    """One that the host reads, an extent of an argument, a window; grids and blocks of the host leave one free."""
    code = """\
#define BLOCK 128
#define TILE 4
#define UNROLL 2
#define HALO 3
#define WINDOW 2
#define REACH 1
#define LAGS 2
#define TAPS (2 * LAGS + 1)
const int DIMS = 3;
typedef float real;
__constant__ real taps[TAPS];
struct Point { float at[DIMS]; };
__global__ void f(float *y, const float *x, const Point *points, int n) {
    int i = (blockIdx.x * BLOCK + threadIdx.x) * TILE;
    float sum = DIMS;
    for (int j = -WINDOW; j <= WINDOW; j++) sum += x[i + HALO + j];
    for (int j = 0; j < 2 * REACH + 1; j++) sum += taps[LAGS] * x[i + HALO + j];
#pragma unroll UNROLL
    for (int j = 0; j < TILE; j++) if (i + j < n) y[i + j] = sum + points[i].at[0];
}
void run(float *y, const Point *points, int n) {
    float *x;
    size_t bytes = (n + 2 * HALO) * sizeof(float);
    cudaMalloc(&x, bytes);
    int threads = BLOCK, each = threads * TILE;
    printf("%d\\n", UNROLL);
    dim3 grid((n + each - 1) / each);
    f<<<grid, threads>>>(y, x, points, n);
}
"""
    data, text = drafted(tmp_path, tune, code)
    assert {*data["parameters"]} == {"BLOCK", "TILE", "UNROLL"}
    assert "# HALO: [3]    # no knob: " in text
    assert "# WINDOW: [2]    # no knob: it is the radius over which the kernel's loops run" in text
    assert "# REACH: [1]    # no knob: it is the radius over which the kernel's loops run" in text
    assert "# LAGS: [2]    # no knob: an extent of an argument" in text
    assert "name: taps, kind: constant, dtype: float32, shape: [5], role: in}\n" in text
    assert "# DIMS: [3]    # no knob: an extent of an argument" in text
    compiled(tmp_path, tune, text)
    free = "void run(float *y, int n) {\n    check(y, HALO * n);\n    f<<<n, BLOCK>>>(y, y, 0, n);\n}\n"
    _, text = drafted(tmp_path, tune, code[: code.index("void run")] + free)
    assert "# HALO: [3]    # no knob: host code reads it: check(y, HALO * n)" in text
    of_template = code.replace("#define WINDOW 2\n", "").replace("__global__", "template <int WINDOW> __global__")
    data, _ = drafted(tmp_path, tune, of_template.replace("f<<<", "f<2><<<"))
    assert data["parameters"]["WINDOW"] == [2], "the name of the kernel passes it"
    _, text = drafted(tmp_path, tune, of_template)
    assert "WINDOW: [1]  # ? which value has it? no knob: it is the radius over which the kernel's loops run" in text


def test_kernels_of_one_name_need_names_of_their_own(tmp_path: Path, tune: Tune) -> None:
    """The compiler's message says so as well. Kernels of other branches of a condition are no others."""
    body = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1; }"
    code = f"""
    namespace a {{
    __global__ void f(float *y, int n) {body}
    __global__ void f(float *y, int n, float a) {body}
    #ifdef WIDE
    __global__ void g(float *y, int n, int pitch) {body}
    #else
    __global__ void g(float *y, int n) {body}
    #endif
    }}
    """
    assert "several kernels of this name" not in drafted(tmp_path, tune, code, "--entry", "g")[1]
    _, text = drafted(tmp_path, tune, code, "--entry", "a::f")
    question = "the source has several kernels of this name, between which `kernel:` cannot choose: give one a name"
    assert f'kernel: "a::f"  # ? {question} of its own' in text
    (tmp_path / "f.yaml").write_text(re.sub(r"  # \? .*", "", text).replace("reference:\n", "reference: none\n", 1))
    refused = tune("validate", tmp_path / "f.yaml", "--compile").err
    assert 'which instance of overloaded function "a::f" is intended; it defines ' in refused
    assert refused.endswith("; give each a name of its own\n")


def test_the_grid_has_blocks_up_to_the_limit_at_which_threads_return(tmp_path: Path, tune: Tune) -> None:
    """A limit of a part of the work does not matter."""
    parts = "if (i < part) { k = i; row = k / w; } else { k = i - part; row = k / h; }"
    body = f"int i = get_global_id(0); if (i >= n) return; int k, row; {parts} y[i] += x[row * h + k];"
    code = f"__kernel void f(int w, int h, int n, int part, __global const float *x, __global float *y) {{ {body} }}"
    data, text = drafted(tmp_path, tune, code, name="f.cl")
    assert data["grid"] == ["ceil_div(n, block_size_x)"]
    assert "how many blocks" not in text


def test_the_elements_of_a_thread_are_a_parameter_also_under_the_name_of_a_size(tmp_path: Path, tune: Tune) -> None:
    code = """\
#define ROWS 1
__global__ void f(float *y, const float *x, int h, int w) {
    int c = blockIdx.x * 16 + threadIdx.x, first = (blockIdx.y * 8 + threadIdx.y) * ROWS;
    for (int k = 0; k < ROWS; ++k)
        if (c < w && first + k < h) y[(first + k) * w + c] = 2 * x[(first + k) * w + c];
}
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["operation"]["sizes"] == {"h": None, "w": None}
    assert data["parameters"]["ROWS"] == [1, 2, 4]
    compiled(tmp_path, tune, text)


def test_an_enumeration_is_a_number_and_what_methods_access_is_asked(tmp_path: Path, tune: Tune) -> None:
    code = f"""\
enum class Mode : unsigned char {{ soft = 1, hard }};
struct Image {{ float *pixels; __device__ float &operator()(int i) {{ return pixels[i]; }} }};
__global__ void f(Image image, int n, Mode mode) {{ {I} if (i < n) image(i) = mode == Mode::hard ? 1 : 0.5f; }}
"""
    data, text = drafted(tmp_path, tune, code)
    arguments = {each["name"]: each for each in data["operation"]["arguments"]}
    assert arguments["mode"] == {"name": "mode", "dtype": "uint8", "value": 0}
    assert "the number of which of Mode: soft, hard?" in text
    assert "in, out or inout? methods access it" in text


def test_textures_typedefs_of_scalars_and_the_launch_s_shared_memory_are_drafted(tmp_path: Path, tune: Tune) -> None:
    code = """\
#define CHECKED(call) do { cudaError_t e = (call); if (e != cudaSuccess) exit(1); } while (0)
typedef unsigned int WORD;
__global__ void count(WORD *counts, const float *given, float *sums, cudaTextureObject_t classes, WORD items,
                      int first) {
    extern __shared__ unsigned own[];
    WORD i = blockIdx.x * blockDim.x + threadIdx.x;
    own[threadIdx.x] = i;
    if (i >= items) return;
    atomicAdd(&counts[tex1Dfetch<unsigned char>(classes, i)], own[threadIdx.x]);
    atomicAdd(&(sums[0]), given[first + i]);
}
void run(WORD n, cudaTextureObject_t t) {
    WORD *counts;
    float *given, *sums;
    cudaMalloc(&counts, 8 * sizeof(WORD));
    cudaMalloc(&given, n * sizeof(float));
    cudaMalloc(&sums, sizeof(float));
    int threads = 128;
    CHECKED(cudaMemset(counts, 0, 8 * sizeof(WORD)));
    cudaMemset((void *)sums, 0.0f, sizeof(float));
    cudaMemcpy(sums, 0, 4, cudaMemcpyHostToDevice);
    count<<<(n + threads - 1) / threads, threads, threads * sizeof(unsigned)>>>(counts, given, sums, t, n, 0);
}
"""
    data, text = drafted(tmp_path, tune, code.replace("const float *given", "float *given"))
    arguments = {each["name"]: each for each in data["operation"]["arguments"]}
    assert (data["operation"]["sizes"].keys(), data["shared_memory"]) == ({"items"}, "4 * block_size_x")
    assert arguments["classes"] | {"shape": []} == {
        "name": "classes", "kind": "texture", "dtype": "uint8", "shape": [], "role": "in",
    }  # fmt: skip
    assert [arguments[name].get("fill") for name in ("counts", "sums")] == ["zeros", None], "sums are copied to"
    assert arguments["first"]["value"] == 0
    assert [arguments[name]["role"] for name in ("counts", "given", "sums")] == ["inout", "in", "inout"]
    assert "in, out or inout" not in text
    assert "how many bytes" not in text
    other = "    count<<<1, threads, threads * sizeof(unsigned)>>>(counts, given, sums, t, n, 0);\n"
    data, _ = drafted(tmp_path, tune, code.replace("    cudaMemcpy(sums", f"{other}    cudaMemcpy(sums"))
    assert "fill" not in data["operation"]["arguments"][0], "an earlier launch has counted"
    data, _ = drafted(tmp_path, tune, code.replace("CHECKED(cuda", "if (n > 7) CHECKED(cuda"))
    assert "fill" not in data["operation"]["arguments"][0], "it may not be cleared"
    fixed = code.replace("threads * sizeof", "512 * sizeof")
    assert "shared_memory: 4 * block_size_x\n" in drafted(tmp_path, tune, fixed)[1], "an element for each thread"


def test_kernels_that_macros_make_are_found_by_the_names_that_the_compiler_gets(tmp_path: Path, tune: Tune) -> None:
    code = r"""
    #define BLOCK 64  // threads
    #define JOIN_(a, b) a##_##b
    #define JOIN(a, b) JOIN_(a, b)
    #define REAL float
    #define KERNELS(type, name, op) /* both */ \
        __kernel void JOIN(name, type)(__global type *y, __global const type *x, int n) { \
            int i = get_group_id(0) * BLOCK + get_local_id(0); if (i < n) y[i] = x[i] op x[i]; }
    KERNELS(REAL, sum, +)
    KERNELS(int, product, *)
    #define TWICE(a) TWICE(a##a) TWICE(a##a)
    __kernel void JOIN(less, REAL)(__global REAL *y, int n) { if (get_global_id(0) < n) y[get_global_id(0)] -= 1; }
    """
    data, text = drafted(tmp_path, tune, code, "--entry", "sum_float", name="f.cl")
    assert (data["kernel"], data["parameters"], data["block"]) == (
        "sum_float",
        {"BLOCK": [16, 32, 64, 128, 256]},
        ["BLOCK"],
    )
    assert [each["dtype"] for each in data["operation"]["arguments"]] == ["float32", "float32", "int32"]
    answered = re.sub("reference:  # [?].*", "reference: x + x", text)
    (tmp_path / "f.yaml").write_text(answered)
    assert tune("validate", tmp_path / "f.yaml", "100").status == 0
    (tmp_path / "f.yaml").write_text(answered.replace("sum_float", "sum_double"))
    error = tune("validate", tmp_path / "f.yaml", "100").err
    assert "has no entry point 'sum_double'; it defines less_float, product_int, sum_float" in error
    code = r"""
    #define ONE(T, f) __global__ void f(T *y) { y[0] = 1; }
    ONE(float, one)
    #define ALONE() extern "C" __global__ void alone(float *y) { y[0] = 1; }
    ALONE()
    #define JOIN_(a, b) a##b
    #define JOIN(a, b) JOIN_(a, b)
    #define real float
    #define REAL real
    #define NAME JOIN(named_, REAL)
    __global__ void NAME(float *y) { y[0] = 1; }
    #ifdef LARGE
    #define WORD large
    #define MAKE(f) __global__ void f##_large(float *y) { y[0] = 1; }
    #else
    #define WORD small
    #define MAKE(f) __global__ void f##_small(float *y) { y[0] = 1; }
    #endif
    """
    data, text = drafted(tmp_path, tune, code, "--entry", "named_float")
    assert data["kernel"] == "named_float"
    text = re.sub(r" *# [?].*", "", text).replace("reference:\n", "reference: none\n", 1)
    (tmp_path / "f.yaml").write_text(text.replace("named_float", "none"))
    assert "has no entry point 'none'; it defines alone, named_float, one" in tune("validate", tmp_path / "f.yaml").err
    for left in ("MAKE(of)", "__global__ void JOIN(of_, WORD)(float *y) { y[0] = 1; }"):
        (tmp_path / "f.cu").write_text(f"{code}{left}\n")
        (tmp_path / "f.yaml").write_text(text.replace("named_float", "of_large"))
        assert "entry point" not in tune("validate", tmp_path / "f.yaml").err, "a condition decides the name"
        assert drafted(tmp_path, tune, f"{code}{left}\n", "--entry", "of_small")[0]["kernel"] == "of_small"
    endless = tmp_path / "g.cl"
    endless.write_text(f"{code}TWICE(x)\n__kernel void plain(__global float *y) {{ y[0] = 1; }}\n")
    assert tune("new", endless, "--entry", "plain").status == 0, "then macros stay as they are"
