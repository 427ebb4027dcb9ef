"""What `tune new` concludes from how indices, sizes, blocks and numbers of the host follow from each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.drafts import drafted
from helpers.processes import Tune

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ASKED = "# ? how many blocks in x, y, z?"
# Programs, each with lines of its draft.
PROGRAMS = {
    "sizes that the host computes from one number, in a struct, and a border that keeps the host's zeros": (
        "#define S 16\nstruct Grid { int nx, ny; float h; };\n__global__ void f(float *y, const float *x, Grid g) {"
        "int c = blockIdx.x * S + threadIdx.x, r = blockIdx.y * S + threadIdx.y;"
        "if (c < 1 || r < 1 || c >= g.nx - 1 || r >= g.ny - 1) return; int i = r * g.nx + c;"
        "y[i] = (x[i - 1] + x[i + 1] + x[i - g.nx] + x[i + g.nx]) / g.h; }\nint main() { int cells = 512; Grid g;"
        "g.nx = cells + 2; g.ny = 2 * cells + 2; g.h = 1.0f / cells; float *x, *y; cudaMalloc(&x, g.nx * g.ny * 4);"
        "cudaMalloc(&y, g.nx * g.ny * 4); cudaMemset(y, 0, g.nx * g.ny * 4); dim3 block(S, S);"
        "f<<<dim3((g.nx + S - 1) / S, (g.ny + S - 1) / S), block>>>(y, x, g); }",
        ["  options: {h: 1.0}  # write the usual values\n", "name: x, dtype: float32, shape: [ny, nx], role: in}\n",
         "name: y, dtype: float32, shape: [ny, nx], role: inout, fill: zeros}\n", "    - name: g\n",
         "grid: [ceil_div(nx, S), ceil_div(ny, S)]\n"],
    ),
    "two structs with members of the same names, and a grid of a scalar that is computed": (
        "#define S 16\nstruct Image { float *data; int width, height; };\n"
        "__global__ void f(Image in, Image out, int tiles) { int x = blockIdx.x * S + threadIdx.x;"
        "int y = blockIdx.y * S + threadIdx.y; if (x >= out.width || y >= out.height) return; float v = 0;"
        "for (int k = 0; k < tiles; k++) v += in.data[2 * y * in.width + 2 * x]; out.data[y * out.width + x] = v; }"
        "\nint main() { Image in, out; in.width = 1000; in.height = 600; out.width = in.width / 2;"
        "out.height = in.height / 2; cudaMalloc(&in.data, in.width * in.height * 4);"
        "cudaMalloc(&out.data, out.width * out.height * 4); int tiles = (out.width + S - 1) / S;"
        "f<<<dim3(tiles, (out.height + S - 1) / S), dim3(S, S)>>>(in, out, tiles); }",
        ["guess: in_data;", "- {name: width, dtype: int32, value: in_width}\n",
         "name: out_data, dtype: float32, shape: [out_height, out_width], role: out}\n",
         "- {name: width, dtype: int32, value: out_width}\n", "- {name: height, dtype: int32, value: out_height}\n",
         "{name: tiles, dtype: int32, value: \"ceil_div(out_width, S)\"}\n",
         "grid: [ceil_div(out_width, S), ceil_div(out_height, S)]\n"],
    ),
    "a plane of which a scalar has the number, and an array whose last element has a number": (
        "#define EACH 2\n__global__ void f(float *y, const float *x, int rows, int cols, int plane) { float s[EACH][4];"
        "int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;"
        "if (r < rows && c < cols) { s[0][c & 3] = x[r]; s[1][c & 3] = x[c]; float v = 0;"
        "for (int e = 0; e < EACH; e++) v += s[e][c & 3]; y[plane * (rows * cols) + r * cols + c] = v; } }",
        ["role: inout, fill: zeros}\n",
         "# EACH: [2]    # no knob: the source names the last element by its number: s[1]\n"],
    ),
    "a cast as a call, and a number of elements to which the host gives a name of its own": (
        "struct Config { int batch = 16, heads = 32; int width() const { return heads * 64; } };\n"
        "#define TPB 64\n__global__ void f(float *y, const float *x, const float *w, int width) {"
        "const size_t first = size_t(blockIdx.x) * width;"
        "for (int i = threadIdx.x; i < width; i += TPB) y[first + i] = x[first + i] * w[i]; }\n"
        "void run(Config c, float *y, float *x, float *w) { f<<<c.batch, TPB>>>(y, x, w, c.width()); }\n"
        "int main() { Config c; const size_t cells = size_t(c.batch) * c.width(); float *x, *y, *w;"
        "cudaMalloc(&x, cells * 4); cudaMalloc(&y, cells * 4); cudaMalloc(&w, c.width() * 4); run(c, y, x, w); }",
        ["name: y, dtype: float32, shape: [batch, width], role: out}\n",
         "name: x, dtype: float32, shape: [batch, width], role: in}\n", "grid: [batch]\n"],
    ),
    "functions that only compute an index, test it, or name an element": (
        "struct View { int rows, cols; };\n__device__ int cell(int r, int c, const View &v) { return r * v.cols + c; }"
        "\n__device__ float &at(float *a, int r, int c, View v) { return a[r * v.cols + c]; }"
        "\n__device__ bool outside(int r, int c, View v) { return r >= v.rows || c >= v.cols; }"
        "\n__device__ int pitch(int n) { return n + k; }"
        "\n__global__ void f(float *y, const float *x, const float *z, View v, int k) { int cols = v.cols;"
        "int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;"
        "if (outside(r, c, v)) return; at(y, r, c, v) = x[cell(r, cols - 1 - c, v)] + z[r * pitch(cols) + c]; }",
        ["guess: z;", "name: y, dtype: float32, shape: [rows, cols], role: out}\n",
         "name: x, dtype: float32, shape: [rows, cols], role: in}\n",
         "grid: [ceil_div(cols, block_size_x), ceil_div(rows, block_size_y)]\n"],
    ),
    "a fixed number of elements, each a grid apart": (
        "#define EACH 4\n__global__ void f(float *y, const float *x, int n) { int step = gridDim.x * blockDim.x;"
        f"{INDEX} for (int k = 0; k < EACH; k++) if (i + k * step < n) y[i + k * step] = x[i + k * step]; }}",
        ["grid: [ceil_div(n, block_size_x * EACH)]\n"],
    ),
    "a whole member of a struct that only enters what is computed": (
        "struct Row { int n; }; struct Gain { int n; float k; };\n__global__ void f(float *y, Row a, Gain b) {"
        f"{INDEX}"
        "if (i < a.n) y[i] = b.k * b.n; }",
        ["  options: {b_n: 1, k: 1.0}  # write the usual values\n"],
    ),
    "a number of threads in the offset of a pointer": (
        "#define BLOCK 128\n__global__ void f(float *y, const float *x, int n) { float v = 0;"
        "const float *p = x + (blockIdx.x * BLOCK + threadIdx.x) * 4; for (int k = 0; k < 4; k++) v += *p++;"
        "atomicAdd(y, v); }",
        ["  BLOCK: [32, 64, 128, 256, 512]\n", "block: [BLOCK]\n"],
    ),
    "kinds of cells, which decide whose neighbours are read and who leaves, and shift counts": (
        "enum Cell { OPEN, WALL, DOOR };\n__global__ void f(unsigned *y, const unsigned char *cell, const int *by, "
        f"int n) {{ {INDEX} if (i >= n) return; unsigned s[4];"
        "const unsigned char own = cell[i]; if (own == WALL) return;"
        "for (int k = 0; k < 4; k++) { if (by[k] == i) continue; s[k] = i; }"
        "y[i] = cell[i + 1] != Cell::OPEN && cell[i + 1] != DOOR ? 0 : 1u << by[i]; }",
        ["role: out}  # ? elements of cell decide where it is written: does it keep others? then role: inout\n",
         "# ? it is compared with WALL, Cell::OPEN and DOOR: which values has it? such as fill: {choice: [0, 1]}\n",
         "# ? it is a shift count: which values may it have? such as fill: {integers: [0, 31]}\n"],
    ),
    "a degree, which bounds threads and begins a loop": (
        "#define DEG 7\n#define LOW 2\n__global__ void f(float *y, const float *x, const float *c, float *d, int n)"
        "{ __shared__ float s[DEG + 1]; if (threadIdx.x <= DEG) s[threadIdx.x] = c[threadIdx.x]; __syncthreads();"
        f"{INDEX} float v = 0; for (int k = LOW; k >= 0; k--) v = v * x[i] + d[k] * s[k]; if (i < n) y[i] = v; }}",
        ["name: c, dtype: float32, shape: [8]", "name: d, dtype: float32, shape: [3]",
         "# DEG: [7]    # no knob: an extent of an argument\n", "# LOW: [2]    # no knob: an extent of an argument\n"],
    ),
    "a tile whose elements are compared, and a whole number that only enters what is computed": (
        f"#define ON 1\n__global__ void f(int *y, const int *x, int n, int cost) {{ {INDEX} __shared__ int t[64];"
        "t[threadIdx.x & 63] = x[i]; int on = 0; for (int k = 0; k < 64; k++) if (t[k] == ON) on++;"
        "if (i < n) y[i] = on * cost; }",
        ["  options: {cost: 1}  # write the usual values\n",
         "# ? it is compared with ON: which values has it? such as fill: {choice: [0, 1]}\n"],
    ),
    "whole numbers that elements are compared with, or a function computes with, beside one that limits an index": (
        "__device__ int most(int a, int b) { return a > b ? a : b; }\n"
        "__global__ void f(int *y, const int *x, int n, int limit, int cost, int last) { __shared__ int at[256];"
        "const int *row = x + (size_t)blockIdx.x * n; for (int c = threadIdx.x; c < n; c += blockDim.x) {"
        "at[threadIdx.x] = row[c] > limit; __syncthreads(); if (at[threadIdx.x]) "
        "y[blockIdx.x * n + at[0]] = most(row[c] - cost, 0); } int own = threadIdx.x; if (own < last) y[own] = 0; }",
        ["    n:\n    last:\n  options: {limit: 1, cost: 1}  # write the usual values\n"],
    ),
    "how often a loop replaces what its next pass reads, and a seed": (
        "#define ROUNDS 8\n#define EACH 4\n#define MOST 4\n__global__ void f(unsigned *y, int n, unsigned seed) {"
        f"{INDEX}"
        "unsigned v = seed ^ i; for (int r = 0; r < ROUNDS; r++) { v = v * 1664525u + 1013904223u; v = v ^ (v >> 7); }"
        "int at = i; for (int k = 0; k < EACH; k++) { if (at < n) y[at] = v; at = at + blockDim.x * gridDim.x; }"
        "int w = 0; while (w < MOST && v > 9) { v = v * 3; w++; } if (i < n) y[i] = v; }",
        ["  options: {seed: 1}  # write the usual values\n", "  EACH: [1, 2, 4, 8, 16]\n",
         "  MOST: [1, 2, 4, 8, 16]  # ? a loop repeats so often: if others compute something else, keep one\n",
         "  ROUNDS: [2, 4, 8, 16, 32]  # ? a loop repeats so often: if others compute something else, keep one\n"],
    ),
    "a macro with the name of a size, of which no tile is made": (
        f"#define N 12\n__global__ void f(unsigned *y, int n) {{ {INDEX} unsigned s[N], k = 0;"
        "for (s[0] = (1u << N) - 1; s[k]; s[k] = s[k - 1] / 2) if (k++ == N - 1) break; if (i < n) y[i] = k; }",
        ["  N: [2, 4, 8, 12, 16, 32]  # ? is it a size of the problem? then keep only its value"],
    ),
    "a loop's variable, which limits no block, and numbers that enter what is computed or divide": (
        "#define BLOCK 128\n#define DIM 64\n#define ORDER 4\n#define UNROLL 2\n__constant__ int by[64];\n"
        "__global__ void f(float *y, const float *x, int n) { __shared__ float s[DIM];"
        "for (int d = threadIdx.x; d < DIM; d += BLOCK) s[d] = x[d] + UNROLL * d; __syncthreads();"
        "int i = blockIdx.x * BLOCK + threadIdx.x; float v = 0; for (int k = 0; k < ORDER; k++) v += s[k % DIM];"
        "if (i < n) y[i] = v / (ORDER - 1) + by[i % 64] / 3 + 5 / by[0]; }"
        "\nvoid run(float *y, float *x, int n) { cudaMemcpyToSymbol(by, h, 256);"
        "f<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(y, x, n); }",
        ["default: {BLOCK: 128, DIM: 64, ORDER: 4}\ngrid: [ceil_div(n, BLOCK)]\nblock: [BLOCK]\n",
         "  ORDER: [1, 2, 4, 8, 16]  # ? it enters what is computed: if others compute something else, keep one\n",
         "name: by, kind: constant, dtype: int32, shape: [64], role: in}  # ? it divides: is it never 0?"],
    ),
    "values that the source forbids, and the type of all launches": (
        "#define BM 64\n#define BK 16\nconst int TM = 4;\nstatic_assert(BM % TM == 0 && (TM < 8 || BM / TM > 3), \"\");"
        "static_assert(sizeof(float) * BK == 64u); static_assert(BK / 4 == 4);"
        "\ntemplate <typename T> __global__ void f(T *y, int n) { __shared__ T s[BM * BK]; static_assert(TM <= 8);"
        "int i = blockIdx.x * BM + threadIdx.x; for (int k = 0; k < TM; k++) s[k] = 1; if (i < n) y[i] = s[i % 4]; }"
        "\nvoid run(double *y, int n) { f<double><<<(n + BM - 1) / BM, BM>>>(y, n); }",
        ["  types: {T: [float64, float32]}  # the allowed types; the first is the default, as the host launches it\n",
         "  TM: [1, 2, 4, 8]\n", "  BK: [16]  # no knob: the source asserts its value\n",
         'restrictions:\n  - {that: "BM % TM == 0 and (TM < 8 or BM // TM > 3)", because: the source asserts it}\n'],
    ),
    "a constant that divides a size, and a border before the first threads": (
        "#define PARTS 8\n#define B 64\n__global__ void f(float *y, float *z, const float *x, int n) {"
        "int i = blockIdx.x * B + threadIdx.x + 1, each = n / PARTS; float v = 0;"
        "for (int k = i % PARTS; k < each; k++) v += x[k]; if (i < n) y[i] = v; if (i < n + 1) z[i - 1] = v; }",
        ["  PARTS: [2, 4, 8, 16, 32]  # ? sizes are divided by it: if others compute something else, keep one\n",
         "name: y, dtype: float32, shape: [n], role: inout, fill: zeros}\n",
         "name: z, dtype: float32, shape: [n], role: out}\n"],
    ),
    "pointers that every thread moves once": (
        f"__global__ void f(float *y, const float *x, int n) {{ {INDEX} if (i >= n) return; x += i * 3; y += i;"
        "y[0] = x[0] + x[1] + x[2]; }",
        ["name: y, dtype: float32, shape: [n]", "name: x, dtype: float32, shape: [n, 3]"],
    ),
    "a pointer that a loop moves, too": (
        f"__global__ void f(float *y, const float *x, int n) {{ {INDEX} if (i >= n) return; x += i;"
        "for (int k = 0; k < 3; k++) { y[i] += x[0]; x += n; } }",
        ["guess: x"],
    ),
    "a tile that the rows of a block cover in several steps": (
        "#define TILE 32\n#define ROWS 8\n__global__ void f(float *y, const float *x, int w, int h) {"
        "__shared__ float t[TILE][TILE]; int i = blockIdx.x * TILE + threadIdx.x, k = blockIdx.y * TILE + threadIdx.y;"
        "for (int j = 0; j < TILE; j += ROWS) if (i < w && k + j < h)"
        " t[threadIdx.y + j][threadIdx.x] = x[(k + j) * w + i];"
        "__syncthreads(); for (int j = 0; j < TILE; j += ROWS) if (i < w && k + j < h)"
        " y[(k + j) * w + i] = t[threadIdx.y + j][threadIdx.x ^ 1]; } void run(float *y, float *x, int w, int h) {"
        " f<<<dim3((w + TILE - 1) / TILE, (h + TILE - 1) / TILE), dim3(TILE, ROWS)>>>(y, x, w, h); }",
        ['that: "TILE % ROWS == 0"'],
    ),
    "a tile whose end every thread tests": (
        "#define TILE 32\n#define ROWS 8\n__global__ void f(float *y, const float *x, int w) {"
        "int i = blockIdx.x * TILE + threadIdx.x; for (int j = 0; j < TILE; j += ROWS)"
        "if (i < w && threadIdx.y + j < TILE) y[(blockIdx.y * TILE + threadIdx.y + j) * w + i] = x[i]; }"
        "void run(float *y, float *x, int w, int h) {"
        " f<<<dim3((w + TILE - 1) / TILE, (h + TILE - 1) / TILE), dim3(TILE, ROWS)>>>(y, x, w); }",
        ["default: {TILE: 32, ROWS: 8}\ngrid: "],
    ),
    "a number that nothing declares, at which threads end": (
        f"__global__ void f(float *y, const float *x) {{ {INDEX} if (i < N) y[i] = x[i]; }}",
        ["the source does not define it; if threads end at it, it is a size: derived: {N: n}, with n under sizes:"],
    ),
    "a number that is taken apart and put together": (
        f"__global__ void f(float *y, int n, int w, int h) {{ {INDEX} if (i >= n) return; int column = i % w; i /= w;"
        "int row = i % h; i /= h; y[(i * h + row) * w + column] = 1; }",
        ["name: y, dtype: float32, shape: [n]"],
    ),
    "a second axis for blocks that the first has no place for": (
        "__global__ void f(float *y, int n) { int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;"
        "if (i < n) y[i] = 1; } dim3 blocks(int n) { if (n > 65535) return dim3(65535, n / 65535 + 1); return n; }"
        "void run(float *y, int n) { f<<<blocks(n), 256>>>(y, n); }",
        ["grid: [ceil_div(n, block_size_x), 1]\n"],
    ),
    "a variable that changes after its test, in no loop": (
        f"__global__ void f(float *y, int n, int first) {{ {INDEX} if (i < n) {{ i += first; y[i] = 1; }} }}",
        ["guess: y"],
    ),
    "a larger one of two chosen in the index": (
        f"__global__ void f(float *y, int first, int n) {{ {INDEX} i = i > first ? i : first; if (i < n) y[i] = 1; }}",
        [ASKED],
    ),
    "a launch of another class's kernel of the same name": (
        f"__global__ void A::f(float *y, int n, float c) {{ {INDEX} if (i < n) y[i] = c; }}"
        "void g(float *x) { B::f<<<7, 33>>>(x, 9); } void run(float *y, int n) {"
        "A::f<<<(n + 127) / 128, 128>>>(y, n, 1.0f); }",
        ["grid: [ceil_div(n, block_size_x)]\n"],
    ),
    "threads of a block in a template parameter": (
        "template <int NUM_THREADS = 256 / 2> __global__ void f(float *y, int n) {"
        f"{INDEX} __shared__ float s[NUM_THREADS]; s[threadIdx.x] = 1; if (i < n) y[i] = s[threadIdx.x ^ 1]; }}",
        ["grid: [ceil_div(n, NUM_THREADS)]\n", "block: [NUM_THREADS]\n", "NUM_THREADS: 128"],
    ),
    "blocks of the host's number of threads": (
        "__global__ void f(float *y, int n) { int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);"
        "if (i < n) y[i] = 1; } void run(float *y, int n) { f<<<(n + 1023) / 1024, 512>>>(y, n); }",
        ["grid: [ceil_div(n, block_size_x * 2)]\n"],
    ),
    "blocks for a number that the host passes": (
        f"__global__ void f(float *y, const int *at, int n) {{ {INDEX} if (i < n) y[at[n - i]] = 1; }}"
        "void run(float *y, int *at) { const dim3 block(256); const dim3 grid((40 + block.x - 1) / block.x);"
        "f<<<grid, block>>>(y, at, 40); }",
        ["grid: [ceil_div(n, block_size_x)]\n"],
    ),
    "axes that the host exchanges": (
        "__global__ void f(float *y, int rows, int cols) { int r = blockIdx.y * blockDim.y + threadIdx.y;"
        "int c = blockIdx.x * blockDim.x + threadIdx.x; if (r < rows && c < cols) y[r * cols + c] = 1; }"
        "void run(float *y, int n, int m) { dim3 b(16, 16), g((n + 15) / 16, (m + 15) / 16); f<<<g, b>>>(y, n, m); }",
        [ASKED],
    ),
    "an axis that the kernel does not read": (
        f"__global__ void f(float *y, int n) {{ {INDEX} if (i / n < n) y[i] = 1; }}"
        "void run(float *y, int n) { dim3 g((n + 31) / 32, (n + 31) / 32), b(32, 32); f<<<g, b>>>(y, n); }",
        [ASKED],
    ),
    "an array that all blocks would write, of which the host has one": (
        f"__global__ void f(float *y, const float *x, int n, int m) {{ {INDEX} if (i < n) {{"
        "for (int k = 0; k < m; k++) y[k] = x[i * m + k]; } }"
        "void run(float *y, float *x, int n, int m) { f<<<1, (n + 255) / 256>>>(y, x, n, m); }",
        [ASKED],
    ),
    "a block of template parameters": (
        "template <int BM, int TM> __global__ void f(float *y, int n) {"
        "int i = blockIdx.x * BM + threadIdx.x * TM; for (int k = 0; k < TM; k++) if (i + k < n) y[i + k] = 1; }"
        "void run(float *y, int n) { constexpr int BM = 128; constexpr int TM = 8; dim3 block(BM / TM);"
        "f<BM, TM><<<(n + BM - 1) / BM, block>>>(y, n); }",
        ['- {that: "BM % TM == 0", because:', "block: [BM // TM]\n"],
    ),
    "a block of a number beside the knobs that it follows from": (
        "#define COLUMNS 4\n#define ROWS 16\n__global__ void f(float *y, int n) {"
        "int row = blockIdx.x * ROWS + threadIdx.x / COLUMNS; if (row < n) y[row] = threadIdx.x % COLUMNS; }"
        "\nvoid run(float *y, int n) { f<<<(n + ROWS - 1) / ROWS, 64>>>(y, n); }",
        ["# ? how many threads in x, y, z? the host's number is right for its COLUMNS"],
    ),
    "a macro that a template parameter gets": (
        "#define THREADS 256\ntemplate <int BLOCK> __global__ void f(float *y) { __shared__ float s[THREADS];"
        "s[threadIdx.x] = BLOCK; y[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x]; }"
        "\nvoid run(float *y, int n) { f<THREADS><<<n / THREADS, THREADS>>>(y); }",
        ['- {that: "BLOCK == THREADS", because: the host passes one for the other}'],
    ),
    "knobs with names of blocks that the kernel does not read": (
        "template <int BLOCK_SIZE_X, int THREADS> __global__ void f(float *y, int n) {"
        "int i = blockIdx.x * THREADS + threadIdx.x; if (i < n) y[i] = 1; }",
        ["block: [THREADS]\n"],
    ),
    "a block of which a size is the double": (
        "__global__ void f(float *y, int n) { extern __shared__ float s[]; int i = blockIdx.x * n;"
        "s[threadIdx.x + n / 2] = y[i + threadIdx.x]; y[i + threadIdx.x + n / 2] = s[threadIdx.x]; }"
        "const int THREADS = 512; const int EACH = 2 * THREADS;"
        "void run(float *y, int all) { f<<<all / EACH, THREADS, 2 * EACH>>>(y, EACH); }",
        ["the host passes a multiple of them for n"],
    ),
    "more threads than shared memory has elements": (
        f"__global__ void f(float *y, const float *x, int n) {{ __shared__ float s[256]; {INDEX} int t = threadIdx.x;"
        "s[t] = i < n ? x[i] : 0; __syncthreads(); if (t == 0) atomicAdd(y, s[0] + s[1]); }",
        ["block_size_x: [32, 64, 128, 256]"],
    ),
    "a number of blocks that a condition changes": (
        "__global__ void f(float *y, int n, int each) { int i = blockIdx.x * each + threadIdx.x; if (i < n) y[i] = 1; }"
        "void run(float *y, int n) { int each = 128; int blocks = n / each; if (n % each) blocks += 1;"
        "f<<<blocks, each>>>(y, n, each); }",
        [ASKED],
    ),
    "the number that all launches have for a template parameter, in their grid": (
        "#define BLOCK 128\ntemplate <int EACH> __global__ void f(float *y, int n) { for (int k = 0; k < EACH; k++) {"
        "int i = (blockIdx.x * EACH + k) * BLOCK + threadIdx.x; if (i < n) y[i] = 1; } }"
        "\nvoid run(float *y, int n) { f<2><<<(n + 2 * BLOCK - 1) / (2 * BLOCK), BLOCK>>>(y, n); }",
        ["grid: [ceil_div(n, BLOCK * EACH)]\n"],
    ),
    "a constant number of blocks in a step": (
        "#define BLOCKS 96\n#define THREADS 128\n__global__ void f(float *y, float *s, int n) {"
        "int t = blockIdx.x * THREADS + threadIdx.x; for (int i = t; i < n; i += BLOCKS * THREADS) y[i] = s[t]; }"
        "\nvoid run(float *y, float *s, int n) { f<<<BLOCKS, THREADS>>>(y, s, n); }",
        ["grid: [BLOCKS]\nblock: [THREADS]\n"],
    ),
    "blocks that only arrays by blocks have": (
        "template <int EACH> __global__ void f(float *y, const float *x, int n) { float sum = 0;"
        "for (int k = 0; k < EACH; k++) sum += x[(blockIdx.x * EACH + k) * blockDim.x + threadIdx.x];"
        "if (threadIdx.x == 0) y[blockIdx.x] = sum; } void run(int n) { float *x, *y; const int blocks = 1024;"
        "cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&y, blocks * sizeof(float));"
        "f<4><<<blocks, 256>>>(y, x, n); }",
        [ASKED],
    ),
    "rows of the host's blocks": (
        "__global__ void f(float *y, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) {"
        "y[blockIdx.x * n + i] = 1; } } void run(float *y, int n) { f<<<32, 256>>>(y, n); }",
        ["shape: [32, n]", "grid: [32]\n"],
    ),
    "a capacity beside the length of rows": (
        f"__global__ void f(float *y, const float *x, const int *at, int n, int w) {{ {INDEX}"
        "if (i < n) y[i] = x[at[i] * w + 1]; } void run(float *y, int *at, int n, int rows, int w) {"
        "float *x; int most = 512; cudaMalloc(&x, rows * most * sizeof(float));"
        "f<<<(n + 255) / 256, 256>>>(y, x, at, n, w); }",
        ["guess: x"],
    ),
    "a pitch that the device chooses": (
        "__global__ void f(float *y, int w, int h) { int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;"
        "if (c < w) for (int k = 0; k < 2; k++) y[(r + k) * h + c] = 1; } void run(int w, int h) { float *y;"
        "size_t pitch; cudaMallocPitch(&y, &pitch, w * sizeof(float), h); int row = 0; if (w) row = pitch / 4;"
        "f<<<dim3((w + 255) / 256, h), 256>>>(y, w, row); }",
        ["guess: y"],
    ),
    "memory by a macro that calls": (
        "#define CALL(F, ...) if (F(__VA_ARGS__) != 0) exit(1)\n__global__ void f(float *y) { y[threadIdx.x] = 1; }"
        "\nvoid run(int n) { float *y = new float[8]; CALL(cudaMalloc, (void **)&y, n * sizeof(float));"
        "f<<<1, 64>>>(y); }",
        ["name: y, dtype: float32, shape: [n]"],
    ),
    "rows whose distance is in bytes": (
        "__global__ void f(float *y, const float *x, size_t py, size_t px, int w, int h) {"
        "int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y; if (c < 1 || c >= w - 1 || r >= h) return;"
        "const float *row = (const float *)((const char *)x + r * px);"
        "((float *)((char *)y + py * r + sizeof(float)))[c - 1] = row[c - 1] + row[c + 1]; } void run(int w, int h) {"
        "float *y, *x; size_t py, px; cudaMallocPitch(&y, &py, w * sizeof(float), h);"
        "cudaMallocPitch((void **)&x, &px, w * sizeof(float), h); "
        "f<<<dim3((w + 31) / 32, h), 32>>>(y, x, py, px, w, h); }",
        ["name: y, dtype: float32, shape: [h, w], role: out}\n", "name: x, dtype: float32, shape: [h, w], role: in}\n",
         'name: py, dtype: uint64, value: "4 * w"}\n', 'name: px, dtype: uint64, value: "4 * w"}\n',
         "name: w, dtype: int32}\n"],
    ),
    "rows whose distance in bytes is in an offset that has a name": (
        "__global__ void f(unsigned *y, const unsigned char *x, int h, int w, size_t p, size_t q, int t) {"
        "int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y; if (c >= w || r >= h) return;"
        "size_t at = r * q + c * sizeof(unsigned); unsigned *one = (unsigned *)((char *)y + at);"
        "if (x[r * p + c] > t) *one = 1; else *one = 0; }",
        ["name: y, dtype: uint32, shape: [h, w], role: out}\n", 'name: q, dtype: uint64, value: "4 * w"}\n',
         "shape: [h, w], role: in, strides: [p, 1]}\n"],
    ),
    "rows of vectors and of packed words, as many as a quotient of a size": (
        "__global__ void f(float4 *y, const unsigned *q, int rows, int cols) {"
        "int r = blockIdx.x; const int words = cols / 8; "
        "for (int w = threadIdx.x; w < words; w += blockDim.x) y[r * (cols >> 2) + 2 * w].x = q[r * words + w];"
        "for (int c = threadIdx.x; c < cols / 4; c += blockDim.x) y[r * (cols / 4) + c].y = 0; }",
        ['name: q, dtype: uint32, shape: [rows, "cols // 8"], role: in}\n', "grid: [rows]\n"],
    ),
    "vectors, as many as a quotient of a size": (
        f"__global__ void f(float4 *y, const float4 *x, int n) {{ {INDEX}"
        "const int n4 = n / 4; if (i < n4) y[i].x = x[i].x + x[i + 1].x; }",
        ['name: y, dtype: float32, shape: ["n // 4", 4], role: ', 'name: x, dtype: float32, shape: ["n // 4 + 1", 4]',
         "grid: [ceil_div(n // 4, block_size_x)]\n"],
    ),
    "vectors at the elements of a macro's argument, and rows of two halves behind a cast": (
        "#define FLOAT4(p) (reinterpret_cast<float4 *>(&(p))[0])\n#define BLOCK 64\n"
        "__global__ void f(float *y, float *x, const float *w, int rows, int n) { int row = blockIdx.y;"
        "const float *u = w + static_cast<size_t>(row) * 2 * n, *v = u + n;"
        "int i = 4 * (blockIdx.x * BLOCK + threadIdx.x); if (i < n) { float4 a = FLOAT4(x[row * n + i]);"
        "a.x += u[i] * v[i]; float4 b = *reinterpret_cast<const float4 *>(x + row * n + i); a.y += b.y;"
        "FLOAT4(y[row * n + i]) = a; } }",
        ["name: y, dtype: float32, shape: [rows, n], role: out}\n", "x, dtype: float32, shape: [rows, n], role: in}\n",
         "name: w, dtype: float32, shape: [rows, 2, n], role: in}\n", "grid: [ceil_div(n, BLOCK * 4), rows]\n"],
    ),
    "vectors in arrays of numbers": (
        "#define BLOCK 64\n__global__ void f(float *y, const float *x, const __half *h, int n) {"
        "int i = blockIdx.x * BLOCK + threadIdx.x; const float4 *v = (const float4 *)(x + 4);"
        "if (i < n / 4) { float4 a = v[i]; int4 b = reinterpret_cast<const int4 *>(h)[i]; a.x += b.x;"
        "reinterpret_cast<float4 *>(y)[i] = a; } }",
        ['name: y, dtype: float32, shape: ["n // 4", 4], role: out}\n', 'x, dtype: float32, shape: ["n // 4 + 1", 4]',
         'name: h, dtype: float16, shape: ["n // 4", 8], role: in}\n', "grid: [ceil_div(n // 4, BLOCK)]\n"],
    ),
    "a guess where an index is behind a quotient of a size": (
        f"__global__ void f(float *y, const float *x, int n, int w) {{ {INDEX} int half = n / 2;"
        "if (i < half * w) y[i] = x[i] + x[i + half * w]; }",
        ["guess: x;", 'name: y, dtype: float32, shape: [w, "n // 2"], role: out}', "x, dtype: float32, shape: [n, w],",
         "grid: [ceil_div(w * (n // 2), block_size_x)]\n"],
    ),
    "rows whose distance in bytes is that of a quotient of a size": (
        "__global__ void f(float *y, size_t p, int w, int h) { int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y;"
        "if (c < w / 2 && r <= h) ((float *)((char *)y + r * p))[c] = 0; }",
        ['name: y, dtype: float32, shape: ["h + 1", "w // 2"]', 'name: p, dtype: uint64, value: "4 * (w // 2)"}\n'],
    ),
    "stores behind a condition, at a pointer that moves by bytes and at the first element": (
        f"__global__ void f(float *y, const float *x, int *done, int n) {{ {INDEX} if (i < n) *(float *)((char *)y + i "
        "* sizeof(float)) = *(const float *)((const char *)x + sizeof(float) * i); if (i == 0) *done = 1; }",
        ["name: y, dtype: float32, shape: [n], role: out}\n", "name: x, dtype: float32, shape: [n], role: in}\n",
         "name: done, dtype: int32, shape: [1], role: out}\n"],
    ),
    "rows whose distance in bytes is also used otherwise": (
        "__global__ void f(float *y, int p, int w, int h) { int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y;"
        "if (c < w && r < h) *(reinterpret_cast<float *>(reinterpret_cast<char *>(y) + r * p) + c) = p / 4; }",
        ["    p:\n", "guess: y"],
    ),
    "launches for memory of which one is not known": (
        f"__global__ void f(float *y, int n) {{ {INDEX} if (i < n) y[blockIdx.x] = 1; }} void run(int n) {{"
        "float *y, *z; int each = n / 256; if (n % 256) each++; cudaMalloc(&y, each * sizeof(float));"
        "cudaMalloc(&z, sizeof(float)); f<<<each, 256>>>(y, n); f<<<1, 256>>>(z, each); }",
        ["shape: [\"ceil_div(n, block_size_x)\"]"],
    ),
    "a number of the host of which the kernel gets a part": (
        "#define N 1024\n__global__ void f(float *y, const float *x, int n) { float sum = 0; "
        f"{INDEX} for (int k = i; k < n; k += gridDim.x * blockDim.x) sum += x[k]; y[i] = sum; }}"
        "\nvoid run(float *x) { float *y; cudaMalloc(&y, N * sizeof(float)); f<<<8, 128>>>(y, x, N / 4); }",
        ["guess: y"],
    ),
    "sizes that the host halves": (
        f"__global__ void f(float *y, const float *x, int w, int h, int ow, int oh) {{ {INDEX} int j = blockIdx.y;"
        "if (i < ow && j < oh) y[j * ow + i] = x[2 * j * w + 2 * i]; } void run(float *x, float *y, int w, int h) {"
        "const int ow = w / 2; dim3 grid((ow + 127) / 128, h / 2); f<<<grid, 128>>>(y, x, w, h, ow, h / 2); }",
        ["    w:\n    h:\n  arg", "y, dtype: float32, shape: [\"h // 2\", \"w // 2\"]",
         "ow, dtype: int32, value: \"w // 2\"", "grid: [ceil_div(w // 2, block_size_x), h // 2]\n"],
    ),
    "a part of a row, which is no size of the draft": (
        "__global__ void f(const float *x, float *y, int rows, int half) { int row = blockIdx.x; "
        "for (int c = threadIdx.x; row < rows && c < half; c += blockDim.x) { int i = row * half + c; y[2 * i] = x[i]; "
        "y[2 * i + 1] = 0; } }\nvoid run(int rows, int cols) { float *x, *y; size_t n = (size_t)rows * cols; "
        "cudaMalloc(&x, n / 2 * sizeof(float)); cudaMalloc(&y, n * sizeof(float)); "
        "f<<<rows, 256>>>(x, y, rows, cols / 2); }",
        ["guess: x", "x, dtype: float32, shape: [rows, half]", "y, dtype: float32, shape: [rows, half, 2]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_follows_from_each_other_is_said_or_asked_for(what: str, tmp_path: Path, tune: Tune) -> None:
    code, lines = PROGRAMS[what]
    _, text = drafted(tmp_path, tune, code)
    assert [line for line in lines if line not in text] == []


def test_launches_are_found_in_the_repository_but_not_in_its_tests(tmp_path: Path, tune: Tune) -> None:
    for folder in (".git", "kernels", "app", "tests"):
        (tmp_path / folder).mkdir()
    launch = "void run(float *y, int n) { cudaMalloc(&y, n * sizeof(float)); f<<<n / 4, 64>>>(y); }"
    (tmp_path / "tests" / "run.cu").write_text("void check(float *y) { f<<<1, 4>>>(y); }")
    (tmp_path / "app" / "run.cu").write_text(launch)
    code = "__global__ void f(float *y) { y[blockIdx.x * 4 + threadIdx.x % 4] = 1; }"
    _, text = drafted(tmp_path / "kernels", tune, code)
    assert "grid: [(n // 4)]\n" in text
    (tmp_path / "app" / "other.cu").write_text(code)  # then it is not known which of the two is launched
    _, text = drafted(tmp_path / "kernels", tune, code)
    assert ASKED in text


def test_constants_that_the_host_passes_are_no_sizes_beside_the_arguments(tmp_path: Path, tune: Tune) -> None:
    code = """
    constexpr int WIDE = 480, HIGH = 360;
    __global__ void f(float *y, int w, int h) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= w * h) return; y[i] = i % w; }
    void launch(float *y, int w, int h) { int n = w * h; f<<<(n + 255) / 256, 256>>>(y, w, h); }
    int main() { float *y; cudaMalloc(&y, WIDE * HIGH * sizeof(float)); launch(y, WIDE, HIGH); }
    """
    data, text = drafted(tmp_path, tune, code)
    assert list(data["operation"]["sizes"]) == ["w", "h"]
    assert "grid: [ceil_div(w * h, block_size_x)]\n" in text
    assert "guess" not in text
    other = code.replace("WIDE * HIGH * sizeof", "WIDE * 7 * sizeof")
    assert "the shape of this is a guess: y" in drafted(tmp_path, tune, other)[1]


def test_explicit_instances_tell_the_numbers_of_template_parameters(tmp_path: Path, tune: Tune) -> None:
    code = """
    template <bool UP, unsigned int MB, unsigned int NB> __global__ void f(float *y, int n) {
        __shared__ float a[MB]; int i = blockIdx.x * MB + threadIdx.x; a[threadIdx.x] = NB; if (i < n) y[i] = UP; }
    template __global__ void f<true, 64, 4>(float *, int);
    template __global__ void f<false, 64, 8>(float *, int);
    """
    _, text = drafted(tmp_path, tune, code)
    assert "  MB: [16, 32, 64, 128, 256]\n" in text
    assert "NB: [1, 2, 4, 8]  # ? which values" in text


def test_a_comparison_with_null_says_nothing_of_a_role(tmp_path: Path, tune: Tune) -> None:
    code = f"__global__ void f(int *a, float *b, float *c, float *y, int n) {{ {INDEX}"
    code += "int k = (n > 9 && a != nullptr) ? a[i] : i; if (c && i < n) c[i] = k; if (i < n && b) y[i] = b[i]; }"
    data, text = drafted(tmp_path, tune, code)
    assert [each.get("role") for each in data["operation"]["arguments"]] == ["in", "in", "out", "out", None]
    assert "inout?" not in text


def test_a_scalar_of_one_step_that_follows_from_those_of_another_is_no_size(tmp_path: Path, tune: Tune) -> None:
    code = f"""
    #define THREADS 256
    __global__ void scale(float *x, int w, int h) {{
        {INDEX} int j = blockIdx.y; if (i < w && j < h) x[j * w + i] *= 2; }}
    __global__ void total(const float *x, int count, float *sum) {{
        float v = 0; {INDEX} for (; i < count; i += blockDim.x * gridDim.x) v += x[i]; atomicAdd(sum, v); }}
    void run(int w, int h) {{
        size_t cells = (size_t)w * h; float *x, *sum;
        cudaMalloc(&x, cells * sizeof(float)); cudaMalloc(&sum, sizeof(float));
        if (cells) cudaMemcpy(x, 0, 4, cudaMemcpyHostToDevice);
        cudaMemset(sum, 0, sizeof(float));
        scale<<<dim3((w + THREADS - 1) / THREADS, h), THREADS>>>(x, w, h);
        total<<<128, THREADS>>>(x, (int)cells, sum); }}
    """
    data, text = drafted(tmp_path, tune, code, "--entry", "scale,total")
    assert list(data["operation"]["sizes"]) == ["w", "h"]
    assert '{name: x, dtype: float32, shape: ["h * w"]' in text
    assert '{name: count, dtype: int32, value: "h * w"}' in text
    assert "name: sum, dtype: float32, shape: [1], role: inout, fill: zeros}" in text
    assert data["steps"][1]["grid"] == [128]  # as the host launches its grid-stride loop
    for condition in ("if (w > 9) ", "if (w > 9); else ", "for (int k = 0; k < h; k++) ", "for (auto d : all) "):
        once = code.replace("cudaMemset", f"{condition}cudaMemset")
        assert "fill: zeros" not in drafted(tmp_path, tune, once, "--entry", "scale,total")[1]
    checked = code.replace("cudaMemset(sum, 0, sizeof(float))", "if (cudaMemset(sum, 0, sizeof(float)) != 0) return")
    assert "fill: zeros" in drafted(tmp_path, tune, checked, "--entry", "scale,total")[1]
