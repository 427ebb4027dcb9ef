"""What `tune new` reads from the indices of a kernel: shapes, grids, and the numbers that inputs hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.drafts import guessed
from helpers.kernels import outcome_of
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.space.file.yamlfile import read

Drafted = tuple[dict[str, Any], str]

BIAS = """
#define TILE 16
__global__ void f(float *y, const float *x, const float *bias, int rows, int cols) {
    int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y * TILE + threadIdx.y;
    if (r < rows && c < cols) y[r * cols + c] = fmaxf(x[r * cols + c] + bias[c], 0.0f);
}
"""
FLAT = """
template <int BLOCK> __global__ void f(float *y, const float *x, const float *bias, int rows, int cols) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= rows * cols) return;
    int c = i % cols;
    y[i] = x[i] + bias[c];
}
"""
NORM = """
constexpr int THREADS = 128;
__global__ void __launch_bounds__(THREADS) f(float *y, const float *x, const float *gamma, int hidden, float eps) {
    const float *row = x + blockIdx.x * (size_t)hidden;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) y[(size_t)blockIdx.x * hidden + i] = row[i] * gamma[i] + eps;
}
"""
SOFTMAX = """
#define TILE 256
__global__ void f(const float *x, const int *mask, float *y, int rows, int cols) {
    const float *v = &x[blockIdx.x * cols];
    const int *m = mask + (size_t)blockIdx.x * cols;
    float sum = 0;
    for (int c = threadIdx.x; c < cols; c += TILE) if (m[c]) sum += v[c];
    for (int c = threadIdx.x; c < cols; c += TILE) y[blockIdx.x * cols + c] = v[c] / sum;
}
"""
GATHER = """
#define THREADS 128
__global__ void f(const float *table, const long long *ids, float *y, int tokens, int dim, int vocab) {
    long long id = ids[blockIdx.x];
    if (id < 0 || id >= vocab) return;
    for (int d = threadIdx.x; d < dim; d += THREADS) y[blockIdx.x * dim + d] = table[id * dim + d];
}
"""
SCATTER = """
__global__ void f(float *y, const float *x, const int *index, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[index[i]], x[i]);
}
"""
GEMV = """
template <int WARPS> __global__ void __launch_bounds__(WARPS * 32)
f(float *y, const float *A, const float *x, int m, int n, int batch) {
    int row = blockIdx.x * WARPS + threadIdx.y, b = blockIdx.y;
    if (row >= m) return;
    const float *a = A + ((size_t)b * m + row) * n;
    float sum = 0;
    for (int j = threadIdx.x; j < n; j += 32) sum += a[j] * x[b * n + j];
    if (threadIdx.x == 0) y[b * m + row] = sum;
}
"""
STENCIL = """
#define RADIUS 2
#define BLOCK_X 32
#define BLOCK_Y 8
__constant__ float weights[2 * RADIUS + 1];
__global__ void f(float *out, const float *in, int nx, int ny) {
    int x = blockIdx.x * BLOCK_X + threadIdx.x, y = blockIdx.y * BLOCK_Y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    float sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) sum += weights[k + RADIUS] * in[y * nx + min(max(x + k, 0), nx - 1)];
    out[y * nx + x] = sum;
}
"""
CONV = """
#define BX 16
#define K 3
__global__ void f(const float *image, const float *w, float *y, int C, int H, int W) {
    int i = blockIdx.x * BX + threadIdx.x, j = blockIdx.y, c = blockIdx.z;
    if (i >= W || j >= H) return;
    float sum = 0;
    for (int a = 0; a < K; ++a) for (int b = 0; b < K; ++b)
        if (j + a < H && i + b < W) sum += image[(c * H + j + a) * W + i + b] * w[(c * K + a) * K + b];
    y[(c * H + j) * W + i] = sum;
}
"""
QUANTISE = """
#ifndef ROWS
#define ROWS 4
#endif
__global__ void f(const float *x, signed char *q, float *scales, int rows, int cols) {
    int row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= rows) return;
    for (int c = threadIdx.x; c < cols; c += 32) q[row * cols + c] = x[row * cols + c];
    if (threadIdx.x == 0) scales[row] = 1;
}
"""
HISTOGRAM = """
#define BINS 256
__global__ void f(const unsigned char *x, unsigned int *bins, int n) {
    __shared__ unsigned int local[BINS];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) local[x[i]] += 1;
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}
"""
LIFE = """
#define ROWS 2
__kernel void f(__global const uchar *now, __global uchar *next, int width, int height) {
    int x = get_global_id(0), first = get_global_id(1) * ROWS;
    if (x >= width) return;
    for (int k = 0; k < ROWS && first + k < height; k++) {
        int y = first + k, up = (y + height - 1) % height;
        next[y * width + x] = now[up * width + x];
    }
}
"""
FOURS = """
__kernel void f(__global float *y, __global const float *x, int n) {
    int first = 4 * get_global_id(0);
    for (int k = 0; k < 4; k++) if (first + k < n) y[first + k] = 2 * x[first + k];
}
"""
MARCH = """
#define BX 32
#define BY 8
__global__ void f(float *next, const float *now, const float *speed, int nx, int ny, int nz) {
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    bool inside = x < nx && y < ny;
    size_t plane = (size_t)nx * ny, column = inside ? (size_t)y * nx + x : 0;
    float behind = 0;
    for (int z = 0; z < nz; z++) {
        float here = inside ? now[column + z * plane] : 0;
        if (inside) next[column + z * plane] = speed[column + z * plane] * (here - behind);
        behind = here;
    }
}
"""
MATRICES = """
#define TILE 16
__global__ void f(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float a[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        if (row < M && t * TILE + threadIdx.x < K) a[threadIdx.y][threadIdx.x] = A[row * K + t * TILE + threadIdx.x];
        if (col < N && t * TILE + threadIdx.y < K) sum += B[(t * TILE + threadIdx.y) * N + col];
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""
PARTS = """
#define TILE 256
__global__ void f(const float *x, float *parts, int n) {
    __shared__ float sums[TILE];
    int tid = threadIdx.x, i = blockIdx.x * blockDim.x + tid;
    sums[tid] = i < n ? x[i] : 0.0f;
    if (tid == 0) parts[blockIdx.x] = sums[0] + sums[TILE - 1];
}
"""
TRANSPOSE = """
#define DIM 16
__global__ void f(float *y, const float *x, int w, int h) {
    __shared__ float tile[DIM][DIM + 1];
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < w && j < h) tile[threadIdx.y][threadIdx.x] = x[j * w + i];
    int u = blockIdx.y * blockDim.y + threadIdx.x, v = blockIdx.x * blockDim.x + threadIdx.y;
    if (u < h && v < w) y[v * h + u] = tile[threadIdx.x][threadIdx.y];
}
"""
ROWS = """
__kernel void f(__global float *y, __global const int *start, __global const float *x, int rows) {
    int i = get_global_id(0);
    if (i < rows) for (int j = start[i]; j < start[i + 1]; j++) y[i] = x[j];
}
"""
HOST = """
void f(const float *x, float *y, int h, int w) {
    for (int j = 0; j < h; j++) for (int i = 0; i < w - 1; i++) y[j * w + i] = x[j * w + i + 1] - x[j * w + i];
}
"""

# By the kernel: shapes, fills, grid, block; None for a grid that is asked for
TOLD: dict[str, tuple[str, dict[str, list[Any]], dict[str, list[Any]], list[Any] | None, list[Any]]] = {
    "a bias, in square tiles": (
        BIAS, {"y": ["rows", "cols"], "x": ["rows", "cols"], "bias": ["cols"]}, {},
        ["ceil_div(cols, TILE)", "ceil_div(rows, TILE)"], ["TILE", "TILE"],
    ),
    "a bias, by one index": (
        FLAT, {"y": ["rows", "cols"], "x": ["rows", "cols"], "bias": ["cols"]}, {}, ["ceil_div(rows * cols, BLOCK)"],
        ["BLOCK"],
    ),
    "a row for each block, of which no argument tells": (
        NORM, {"y": ["rows", "hidden"], "x": ["rows", "hidden"], "gamma": ["hidden"]}, {}, ["rows"], ["THREADS"],
    ),
    "a row for each block, by pointers": (
        SOFTMAX, {"x": ["rows", "cols"], "mask": ["rows", "cols"], "y": ["rows", "cols"]}, {}, ["rows"], ["TILE"],
    ),
    "rows by their numbers": (
        GATHER, {"table": ["vocab", "dim"], "ids": ["tokens"], "y": ["tokens", "dim"]}, {"ids": [0, "vocab - 1"]},
        ["tokens"], ["THREADS"],
    ),
    "elements by their numbers": (
        SCATTER, {"y": ["m"], "x": ["n"], "index": ["n"]}, {"index": [0, "m - 1"]}, ["ceil_div(n, block_size_x)"],
        ["block_size_x"],
    ),
    "a batch of matrices, a warp for each row": (
        GEMV, {"y": ["batch", "m"], "A": ["batch", "m", "n"], "x": ["batch", "n"]}, {}, ["ceil_div(m, WARPS)", "batch"],
        [32, "WARPS"],
    ),
    "weights of a number that the source says": (
        STENCIL, {"out": ["ny", "nx"], "in_": ["ny", "nx"], "weights": [5]}, {},
        ["ceil_div(nx, BLOCK_X)", "ceil_div(ny, BLOCK_Y)"], ["BLOCK_X", "BLOCK_Y"],
    ),
    "a filter of a number that the source says": (
        CONV, {"image": ["C", "H", "W"], "w": ["C", 3, 3], "y": ["C", "H", "W"]}, {}, ["ceil_div(W, BX)", "H", "C"],
        ["BX"],
    ),
    "rows of warps": (
        QUANTISE, {"x": ["rows", "cols"], "q": ["rows", "cols"], "scales": ["rows"]}, {}, ["ceil_div(rows, ROWS)"],
        [32, "ROWS"],
    ),
    "bins": (
        HISTOGRAM, {"x": ["n"], "bins": [256]}, {"x": [0, 255]}, ["ceil_div(n, block_size_x)"], ["block_size_x"],
    ),
    "several rows for each work-item": (
        LIFE, {"now": ["height", "width"], "next": ["height", "width"]}, {},
        ["ceil_div(width, block_size_x)", "ceil_div(height, block_size_y * ROWS)"], ["block_size_x", "block_size_y"],
    ),
    "four elements for each work-item": (
        FOURS, {"x": ["n"], "y": ["n"]}, {}, ["ceil_div(n, block_size_x * 4)"], ["block_size_x"],
    ),
    "columns, of which threads outside take the first": (
        MARCH, {name: ["nz", "ny", "nx"] for name in ("next", "now", "speed")}, {},
        ["ceil_div(nx, BX)", "ceil_div(ny, BY)"], ["BX", "BY"],
    ),
    "tiles of matrices": (
        MATRICES, {"A": ["M", "K"], "B": ["K", "N"], "C": ["M", "N"]}, {}, ["ceil_div(N, TILE)", "ceil_div(M, TILE)"],
        ["TILE", "TILE"],
    ),
    "an element for each block": (
        PARTS, {"x": ["n"], "parts": ["ceil_div(n, TILE)"]}, {}, ["ceil_div(n, TILE)"], ["TILE"],
    ),
    "a block by what its threads share": (
        TRANSPOSE, {"x": ["h", "w"], "y": ["w", "h"]}, {}, ["ceil_div(w, DIM)", "ceil_div(h, DIM)"], ["DIM", "DIM"],
    ),
    "one more than there are rows": (
        ROWS, {"y": ["rows"], "start": ["rows + 1"]}, {}, ["ceil_div(rows, block_size_x)"], ["block_size_x"],
    ),
    "distances between elements of a tour": (
        """
        #define T 64
        __global__ void f(float *y, const float *x, const int *tour, int n) {
            int i = blockIdx.x * T + threadIdx.x;
            if (i < n) y[i] = x[tour[i] * n + tour[i > 0 ? i - 1 : 0]];
        }""",
        {"y": ["n"], "tour": ["n"]}, {"tour": [0, "n - 1"]}, ["ceil_div(n, T)"], ["T"],
    ),
    "a panel of rows from a base index": (
        """
        #define NB 16
        __global__ void f(float *a, const float *l, const float *u, int n, int m) {
            int first = blockIdx.x * NB, c = blockIdx.y * blockDim.x + threadIdx.x;
            if (c >= m) return;
            for (int i = 0; i < NB && first + i < n; ++i)
                for (int k = 0; k < NB; ++k) a[(first + i) * m + c] -= l[(first + i) * NB + k] * u[k * m + c];
        }""",
        {"a": ["n", "m"], "l": ["n", 16], "u": [16, "m"]}, {}, ["ceil_div(n, 16)", "ceil_div(m, block_size_x)"],
        ["block_size_x"],
    ),
    "loops of C": (HOST, {"x": ["h", "w"], "y": ["h", "w"]}, {}, None, []),
}  # fmt: skip


def drafted(folder: Path, tune: Tune, code: str) -> Drafted:
    suffix = "cl" if "__kernel" in code else "cu" if "__global__" in code else "c"
    (folder / f"f.{suffix}").write_text(code)
    assert tune("new", folder / f"f.{suffix}").status == 0
    return read(folder / "f.yaml").data, (folder / "f.yaml").read_text()


@pytest.mark.parametrize("what", TOLD)
def test_indices_tell_shapes_and_grids(what: str, tmp_path: Path, tune: Tune) -> None:
    code, shapes, fills, grid, block = TOLD[what]
    data, text = drafted(tmp_path, tune, code)
    arguments = {a["name"]: a for a in data["operation"]["arguments"] if "shape" in a}
    assert {name: arguments[name]["shape"] for name in shapes} == shapes
    assert [a["name"] for a in arguments.values() if a["name"] not in shapes] == guessed(text)
    assert {name: a["fill"]["integers"] for name, a in arguments.items() if "fill" in a} == fills
    assert ("its shape varies with a parameter: which value of it does not?" in text) == (code == PARTS)
    assert ("how many blocks in x, y, z?" in text) == (grid is None and "grid:" in text)
    if grid is not None:
        assert (data["grid"], data["block"]) == (grid, block)
    assert not {"K", "BINS", "RADIUS"} & {*(data["parameters"] or ())}, "another value takes other arrays"


def test_what_the_indices_leave_open_is_asked_for(tmp_path: Path, tune: Tune) -> None:
    _, text = drafted(tmp_path, tune, ROWS)
    ask = "indices are compared with it: which values may it have? such as fill: {python: data.py:make}"
    assert re.search(rf"name: start,.*# \? {re.escape(ask)}", text)
    assert guessed(text) == ["x"]


@pytest.mark.parametrize(
    "copy",
    [
        "const float4 *v = (const float4 *)x; y[i] = v[i].x + v->y;",
        "auto v = reinterpret_cast<const float4 *>(x + 4); y[i] = v[i].x;",
        "y[i] = ((const vector *)x)[i].x;",
        "y[i] = first(x, i);",
        "const float *v = x; v += 4 * i; y[i] = v[0];",
        "y[i] = x[i / 2 * 3 + (i << 1)];",
        "y[i] = x[i * (n + 1) + threadIdx.x];",
    ],
)
def test_of_an_index_that_is_not_understood_nothing_is_concluded(copy: str, tmp_path: Path, tune: Tune) -> None:
    loop = f"int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {copy} }}"
    _, text = drafted(tmp_path, tune, f"__global__ void f(float *y, const float *x, int n) {{ {loop} }}")
    assert re.search(r"name: y,.*shape: \[n\], role: out}$", text, re.MULTILINE)
    assert "x" in guessed(text)


def test_a_size_that_no_kernel_takes_is_said_to_be_one(tmp_path: Path, tune: Tune) -> None:
    data, text = drafted(tmp_path, tune, NORM)
    assert list(data["operation"]["sizes"]) == ["rows", "hidden"]
    assert "rows, which no kernel takes, is the number of blocks" in text
    assert data["operation"]["options"] == {"eps": 0.00001}


DROPOUT = """
void f(float *y, const float *x, const unsigned char *keep, float p, int n) {
    for (int i = 0; i < n; i++) y[i] = BODY;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("other", "failure"), [("0", None), ("x[i] / (1 - p)", "wrong result")])
def test_a_mask_is_asked_for_and_once_answered_decides(
    other: str, failure: str | None, tmp_path: Path, tune: Tune, host: Device
) -> None:
    _, text = drafted(tmp_path, tune, DROPOUT.replace("BODY", f"keep[i] ? x[i] / (1 - p) : {other}"))
    assert "# ? is it a mask? then fill: {choice: [0, 1]}" in line_of("keep", text)
    text = text.replace("reference:  #", "reference: where(keep, x / (1 - p), 0)  #").replace(
        "parameters:", "parameters: {a: [1]}"
    )
    text = re.sub(r"in}  # \? is it a mask\? then (fill: .*)", r"in, \1}", text)
    (tmp_path / "f.yaml").write_text(re.sub(r"  # \? .*", "", text))
    assert outcome_of(catalog.load(str(tmp_path / "f.yaml")), host, "1000") == failure


@pytest.mark.parametrize(
    ("line", "ask"),
    [
        ("y[i] = a[i] / d[i];", "it divides: is it never 0? then fill: {integers: [1, 8]}"),
        ("if (a[i] != 0 && d[i]) y[i] = 1; else y[i] = 0;", "is it a mask? then fill: {choice: [0, 1]}"),
        ("y[i] = a[i] < 3 ? d[i] : 0;", ""),
    ],
)
def test_questions_about_whole_numbers_follow_their_use(line: str, ask: str, tmp_path: Path, tune: Tune) -> None:
    code = f"void f(int *y, int *a, const int *d, int n) {{ for (int i = 0; i < n; i++) {{ {line} }} }}"
    data, text = drafted(tmp_path, tune, code)
    assert [a.get("role") for a in data["operation"]["arguments"]] == ["out", "in", "in", None]
    (of_d,) = (each for each in text.splitlines() if "name: d," in each)
    assert of_d.partition("  # ? ")[2] == ask


def test_what_a_loop_by_a_macro_declares_is_no_knob(tmp_path: Path, tune: Tune) -> None:
    code = """
    #define EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
    __global__ void f(float *y, const float *x, int n) { EACH(index, n) { y[index / 2 * 2] = x[index]; } }
    """
    assert list(drafted(tmp_path, tune, code)[0]["parameters"]) == ["block_size_x"]


COUNTED = """
#ifndef BX
#define BX 128
#endif
#define INDEX (get_group_id(0) * BX + get_local_id(0))
#ifdef cl_khr_int64_base_atomics
#define ADD(where, what) atomic_add((volatile __global int *)(where), (what))
#else
#define ADD(where, what) atomic_add((where), (what))
#endif
__kernel void hist(__global int *counts, __global const int *x, __global const float *in, int n, int bins) {
    int i = INDEX;
    if (i < n CONDITION) ADD(&counts[x[i]], 1);
}
"""


def test_a_single_number_that_many_are_added_to_is_a_sum(tmp_path: Path, tune: Tune) -> None:
    _, text = drafted(tmp_path, tune, SCATTER.replace("&y[index[i]]", "y"))
    assert "# reference: y + sum(x) + sum(index)    #" in text


@pytest.mark.parametrize(
    ("condition", "asks", "reference"),
    [
        ("&& in[i] > 0.5f", True, "counts + bincount(x, weights=in_, minlength=bins)"),
        ("&& 0.5f <= in[i]", True, "counts + bincount(x, weights=in_, minlength=bins)"),
        ("&& in[i] > 0.5f && 2 * in[i] < 3", False, "counts + bincount(x, weights=in_, minlength=bins)"),
    ],
)
def test_macros_are_seen_through_and_what_they_add_up_is_a_count(
    condition: str, asks: bool, reference: str, tmp_path: Path, tune: Tune
) -> None:
    data, text = drafted(tmp_path, tune, COUNTED.replace("CONDITION", condition))
    arguments = {a["name"]: a for a in data["operation"]["arguments"]}
    assert (arguments["counts"]["role"], arguments["counts"]["shape"]) == ("inout", ["bins"])
    assert arguments["x"]["fill"] == {"integers": [0, "bins - 1"]}
    line = next(line for line in text.splitlines() if "name: in_" in line)
    assert ("# ? is it a mask? then fill: {choice: [0, 1]}" in line) == asks
    assert "# `in` is a Python keyword, which references cannot use" in line
    assert (data["grid"], data["block"], list(data["parameters"])) == (["ceil_div(n, BX)"], ["BX"], ["BX"])
    assert f"# reference: {reference}    #" in text
    assert 'compute in float64, as in in_.astype("float64")' in text


def test_macros_that_are_extents_are_sizes(tmp_path: Path, tune: Tune) -> None:
    code = """
    #define BX 16
    #define W 512
    #define H 256
    #define AT(y, x) ((y) * W + (x))
    #define WARP_SIZE 32
    __global__ void g(float *y) { const int i = 2 * threadIdx.x, j = i; *y = j; }
    __global__ void f(float *y, const float *x) {
        int i = blockIdx.x * BX + threadIdx.x / WARP_SIZE, j = blockIdx.y;
        if (i < W && j < H) y[AT(j, i)] = 2 * x[AT(j, i)];
    }
    """
    (tmp_path / "f.cu").write_text(code)
    assert tune("new", tmp_path / "f.cu", "--entry", "f").status == 0
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    assert data["operation"]["sizes"] == {"W": 512, "H": 256}
    assert "the source defines it: here, each run sets it" in text
    assert [a["shape"] for a in data["operation"]["arguments"]] == [["H", "W"]] * 2
    small = code.replace("512", "8").replace("256", "4")  # as of a filter
    (tmp_path / "f.cu").write_text(small)
    (tmp_path / "f.yaml").unlink()
    assert tune("new", tmp_path / "f.cu", "--entry", "f").status == 0
    assert (
        "sizes:  # ? the source fixes all extents, but a space file needs a size" in (tmp_path / "f.yaml").read_text()
    )
    assert (list(data["parameters"]), data["block"]) == (["BX"], ["32 * BX"])


@pytest.mark.parametrize(
    ("index", "ask"),
    [
        ("(int)(x[i] * m)", "indices are computed from it: which values may it have? such as fill: {uniform: [0, 1]}"),
        ("k[i] / 4", "it holds indices: into how many elements? such as fill: {integers: [0, n - 1]}"),
        ("abs(k[i] % m)", ""),
    ],
)
def test_inputs_that_choose_elements_are_asked_about(index: str, ask: str, tmp_path: Path, tune: Tune) -> None:
    code = (
        f"void f(int *y, const float *x, const int *k, int n, int m) {{ for (int i = 0; i < n; i++) y[{index}] = 1; }}"
    )
    _, text = drafted(tmp_path, tune, code)
    used = "x" if "x[" in index else "k"
    (line,) = (line for line in text.splitlines() if f"name: {used}," in line)
    assert line.partition("  # ? ")[2].partition("; which shape")[0] == ask


def line_of(name: str, text: str) -> str:
    (line,) = (line for line in text.splitlines() if f"name: {name}," in line)
    return line


COMPACT = """
__global__ void f(float *dst, int *counter, const float *src, float least, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && src[i] > least) { int place = atomicAdd(counter, 1); dst[place] = src[i]; }
}
"""
PRICES = """
__kernel void f(__global float *call, __global float *put, __global const float *s, __global const float *k,
                __global const float *t, __global const float *d, uint n) {
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        float root = sqrt(t[i]), e = log(s[i] / k[i]) / root, sum = sqrt(e * e + d[i] * d[i]);
        call[i] = e + sum;
        put[i] = e / d[i];
    }
}
"""
EMBEDDING = """
__global__ void f(float *out, const float *table, const int *ids, int tokens, int dim, int padding) {
    for (int t = blockIdx.x; t < tokens; t += gridDim.x) {
        if (ids[t] == padding) continue;
        const float4 *row = reinterpret_cast<const float4 *>(table + ids[t] * dim);
        for (int d = threadIdx.x; d < dim; d += blockDim.x) out[t * dim + d] = row[d / 4].x;
    }
}
"""
TOP = """
#define K 8
__global__ void f(const float *x, float *top, float *most, int rows, int cols) {
    float best = x[blockIdx.x * cols + threadIdx.x];
    for (int c = threadIdx.x; c < cols; c += 64) if (x[blockIdx.x * cols + c] > best && c > 0) best = 1;
    for (int k = 0; k < K; ++k) top[blockIdx.x * K + k] = best;
    *most = best;
}
"""
MARCHING = """
#define BX 32
#define DEPTH 16
#define AT(x, y, z) (((z) * ny + (y)) * nx + (x))
__global__ void f(const float *in, float *out, int nx, int ny, int nz) {
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y, z0 = blockIdx.z * DEPTH;
    if (x >= nx - 1 || y >= ny) return;
    float below = in[AT(x, y, max(z0 - 1, 0))];
    for (int z = z0; z < min(z0 + DEPTH, nz - 1); z++) out[AT(x, y, z)] = below + in[AT(x + 1, y, z + 1)];
}
"""
# The source; what is asked about arguments, "" for nothing; sizes; the grid; what else the draft says.
OTHERS: dict[str, tuple[str, dict[str, str], list[str], list[Any], list[str]]] = {
    "compaction": (
        COMPACT,
        {
            "dst": "atomics return its indices, so its order varies: declare what is compared in `derive:`, or write "
            "`compared: false`",
            "counter": "it counts written elements: does it start at 0?",
            "src": "",
        },
        ["n"], ["ceil_div(n, block_size_x)"], ["dtype: int32, shape: [1], role: inout, fill: zeros}"],
    ),
    "prices": (
        PRICES,
        {
            **dict.fromkeys(
                "skt", "a root or a logarithm is taken of it: is it positive? then fill: {uniform: [0.5, 1.5]}"
            ),
            "d": "it divides: is it never 0? then fill: {uniform: [0.5, 1.5]}",
        },
        ["n"], ["ceil_div(n, block_size_x)"],
        ["# any number works with a grid-stride loop", "returns {'call': ..., 'put': ...}"],
    ),
    "rows that a cast pointer chooses": (
        EMBEDDING, {"ids": "it holds indices: into how many elements? such as fill: {integers: [0, n - 1]}"},
        ["tokens", "dim"], ["tokens"], ["options: {padding: 1}  # write", "grid: [tokens]  # any number"],
    ),
    "the largest of rows": (
        TOP, {"x": "", "top": "", "most": ""}, ["rows", "cols"], ["rows"],
        ["name: top, dtype: float32, shape: [rows, 8], role: out}", "most, dtype: float32, shape: [1], role: out}"],
    ),
    "planes one after the other": (
        MARCHING, {"out": ""}, ["nx", "ny", "nz"], ["ceil_div(nx, BX)", "ny", "ceil_div(nz, DEPTH)"],
        ["name: in_, dtype: float32, shape: [nz, ny, nx], role: in}", "block: [BX]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_kernels_of_many_styles_are_asked_about(what: str, tmp_path: Path, tune: Tune) -> None:
    code, asks, sizes, grid, says = OTHERS[what]
    data, text = drafted(tmp_path, tune, code)
    assert {n: line_of(n, text).partition("  # ? ")[2].partition("; which shape")[0] for n in asks} == asks
    assert (list(data["operation"]["sizes"]), data["grid"]) == (sizes, grid)
    assert not [each for each in says if each not in text]


def test_what_steps_hand_on_has_an_element_for_each_block_of_the_first(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.cl").write_text("""
    #define WG 64
    __kernel void parts(__global const float *a, __global float *part, const uint n) {
        uint i = get_group_id(0) * WG + get_local_id(0);
        if (i < n) part[get_group_id(0)] = a[i];
    }
    __kernel void last(__global const float *part, __global float *sum, const uint count) {
        for (uint i = get_local_id(0); i < count; i += WG) *sum = part[i];
    }
    """)
    assert tune("new", tmp_path / "f.cl", "--entry", "parts,last").status == 0
    text = (tmp_path / "f.yaml").read_text()
    assert 'name: part, dtype: float32, shape: ["ceil_div(n, WG)"], role: scratch}' in text
    assert "is it the length of part? then write value: ceil_div(n, WG) here, and no size" in line_of("count", text)
    assert "    grid: [1]  # ? how many blocks" in text


@pytest.mark.slow
def test_macros_that_double_without_end_stay_names(tmp_path: Path, tune: Tune) -> None:
    macros = "".join(f"#define M{i} (M{i + 1} + M{i + 1})\n" for i in range(2000))
    body = "y[blockIdx.x * M0 + threadIdx.x] = 1;"
    data, _ = drafted(tmp_path, tune, f"{macros}__global__ void f(float *y, int n) {{ {body} }}")
    assert list(data["parameters"]) == ["block_size_x"]


def test_a_name_that_gets_another_value_after_its_test_has_no_bound(tmp_path: Path, tune: Tune) -> None:
    _, text = drafted(
        tmp_path, tune,
        """
    __global__ void f(float *y, const float *x, int rows, int cols) {
        int at = blockIdx.x * blockDim.x + threadIdx.x;
        if (at >= rows) return;
        y[at] = cols;
        if (cols > 1) at = cols * at + 1;
        y[0] = x[at];
    }
    """,
    )  # fmt: skip
    assert "x" in guessed(text)


def test_sizes_of_types_that_headers_also_name_are_those_of_the_types(tmp_path: Path, tune: Tune) -> None:
    code = """
    #include <cuda_fp16.h>
    void copied(const half *from);
    __global__ void f(half *y, const int *k) { y[k[threadIdx.x]] = k[0]; }
    void run(int n) { half *y; int *k; cudaMalloc(&y, sizeof(half) * n); f<<<1, 32>>>(y, k); }
    """
    data, _ = drafted(tmp_path, tune, code)
    assert data["operation"]["arguments"][0]["shape"] == ["n"]
