"""What `tune new` concludes holds for all sizes and configurations of the draft; where that is not sure, it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.drafts import drafted
from helpers.processes import Tune

# Programs, each with lines of its draft.
PROGRAMS = {
    "an argument with the name of a constant": (
        "const int n = 3 * 5;\nconst int part = n / 3;"
        "\n__global__ void f(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        "if (i < n) y[i] = part; }",
        ["name: y, dtype: float32, shape: [n]", "grid: [ceil_div(n, block_size_x)]\n"],
    ),
    "a variable with the name of a constant": (
        "const int m = 7 + 1;"
        "\n__global__ void f(float *y, int n) { y[blockIdx.x * blockDim.x + threadIdx.x] = n; }"
        "\nvoid run(int n) { int m = 2 * n; float *y; cudaMalloc(&y, m * sizeof(float)); f<<<m / 64, 64>>>(y, n); }",
        ['shape: ["2 * n"]'],
    ),
    "a struct with a number of the host that is a size of the draft": (
        "struct Grid { int3 dim; float iso; };"
        "\n__device__ float at(const float *x, int i, int3 d) { return x[(i / d.x * d.y + 1) * d.x + i % d.x]; }"
        "\n__global__ void f(int *y, const float *x, Grid g, int cells) {"
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < cells) y[i] = at(x, i, g.dim) < g.iso; }"
        "\nint main() { const int n = 96, side = n; int cells = (n - 1) * (n - 1) * 7; float *x; int *y;"
        "cudaMalloc(&x, n * n * 8 * sizeof(float)); cudaMalloc(&y, cells * sizeof(int));"
        "Grid g{make_int3((int)n, side, 8), 0.5f}; f<<<(cells + 63) / 64, 64>>>(y, x, g, cells); }",
        [
            "n: 96  # as in the host code; no kernel takes it\n",
            "{name: dim, dtype: int3, value: [n, n, 8]}\n",
            "{name: iso, dtype: float32, value: 0.5}\n",
        ],
    ),
    "tensors of PyTorch": (
        "#include <torch/extension.h>\n"
        "__global__ void f(float *y, float *s, const float *x, int n, int d, int threads) {"
        "extern __shared__ float t[]; for (int i = threadIdx.x; i < n * d; i += threads) { "
        "t[threadIdx.x] = x[blockIdx.x * n * d + i]; y[blockIdx.x * n * d + i] = t[threadIdx.x]; }"
        "s[blockIdx.x * n] += t[0]; }"
        "torch::Tensor run(const torch::Tensor& x) { const auto batch = x.size(0); int n = static_cast<int>(x.size(1));"
        "int d = (int)x.size(2); const int threads = 64; auto y = torch::zeros_like(x);"
        "auto s = torch::zeros({batch, n}, x.options()); s = s.cuda();"
        "f<<<batch, threads, threads * n * sizeof(float)>>>(y.data_ptr<float>(), (float *)s.data_ptr(),"
        "x.contiguous().data_ptr<float>(), n, d, threads); return y; }",
        [
            "batch:  # as in the host code; no kernel takes it\n",
            "name: y, dtype: float32, shape: [batch, n, d], role: out",
            "name: s, dtype: float32, shape: [batch, n], role: inout, fill: zeros",
            "name: x, dtype: float32, shape: [batch, n, d], role: in",
            "name: threads, dtype: int32, value: 64",
            "grid: [batch]\nblock: [64]\nshared_memory: 4 * n * 64\n",
        ],
    ),
    "a bound that leaves, a default that a launch overrides, and a shift by a constant of zero": (
        "const int s = 5 - 5;\ntemplate <int DIM = 64> __global__ void f(float *y, const float *x, int n) {"
        "if (threadIdx.x >= n) { y[blockIdx.x] = 0; return; } y[blockIdx.x] += x[threadIdx.x * DIM + 3] + (1 << s); }"
        "\nvoid run(float *y, float *x, int n) { f<128><<<n, 64>>>(y, x, n); }",
        ["default: {DIM: 128}"],
    ),
    "the larger of two indices that is compared": (
        "__global__ void f(float *y, const float *x, int a, int n) {"
        "int j = max(a, (int)(blockIdx.x * blockDim.x + threadIdx.x)); if (j < n) y[j] = x[j]; }",
        ["name: y, dtype: float32, shape: [n]", "name: x, dtype: float32, shape: [n]"],
    ),
    "records that a loop reads": (
        '#include "vector"\n'
        "__global__ void f(unsigned char *y, const unsigned char *x, int w, int h) {"
        "int u = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y * blockDim.y + threadIdx.y;"
        "if (u >= w || v >= h) return; int i = v * w + u; for (int c = 0; c < 3; c++) y[i * 3 + c] = x[3 * i + c]; }",
        ["name: y, dtype: uint8, shape: [h, w, 3]", "name: x, dtype: uint8, shape: [h, w, 3]"],
    ),
    "a part of the elements, of which the others are treated otherwise": (
        "__global__ void f(float *y, const float *x, int n, int first) { float s, far = LENGTH * 0.5f;"
        "int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;"
        "for (int j = 0; j < n; j++) { if (i < first && x[j] < far) y[i] += LENGTH;"
        "else { s = LENGTH + x[j]; y[i] -= s; } if (i < first || j > i) y[i] += x[i]; } }\n#define LENGTH 15\n",
        ["name: y, dtype: float32, shape: [n]", "name: x, dtype: float32, shape: [n]", "LENGTH: [15]    # no knob"],
    ),
    "a variable of one name in two loops": (
        "__constant__ int mask[MOST];\n__global__ void f(int *y, const int *x, int n, int few) { __shared__ int s[64];"
        "for (int i = threadIdx.x; i < 64; i += blockDim.x) s[i] = x[i];"
        "int k = blockIdx.x * blockDim.x + threadIdx.x, sum = 0; for (int i = 0; i < few; i++)"
        "sum += mask[i] * s[i % 64]; if (k < n) y[k] = sum; }",
        ["kind: constant, dtype: int32, shape: [few], role: in"],
    ),
    "more elements in memory than indices reach": (
        "__global__ void f(int *y, const int *x, int n, int pitch) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        "if (i < n) y[i] = x[2 * pitch + i]; }"
        "void run(int n, int pitch) { int *x, *y; cudaMalloc(&y, pitch * sizeof(int));"
        "cudaMalloc(&x, 3 * pitch * sizeof(int)); f<<<(n + 63) / 64, 64>>>(y, x, n, pitch); }",
        ["name: y, dtype: int32, shape: [pitch]", 'name: x, dtype: int32, shape: ["3 * pitch"]'],
    ),
    "one block of as many threads as a size": (
        "__global__ void f(int *y, int n) { __shared__ int s[64]; int t = threadIdx.x; s[t] = y[t]; __syncthreads();"
        "y[t] = s[n - 1 - t]; } void run() { int n = 64; int *y; cudaMalloc(&y, n * sizeof(int)); f<<<1, n>>>(y, n); }",
        ["shape: [n]", "grid: [1]\nblock: [n]\n"],
    ),
    "as many threads in z as there are planes": (
        "#define PLANES 9\n__constant__ float weights[4 * PLANES];"
        "\n__global__ void f(float *y, int w, int h) { int u = blockIdx.x * blockDim.x + threadIdx.x;"
        "int v = blockIdx.y * blockDim.y + threadIdx.y, p = threadIdx.z; if (u >= w || v >= h || p >= PLANES) return;"
        "y[p * w * h + v * w + u] = weights[4 * p]; }"
        "void run(int w, int h) { float *y; cudaMalloc(&y, PLANES * w * h * sizeof(float));"
        "f<<<dim3((w + 7) / 8, (h + 7) / 8), dim3(8, 8, PLANES)>>>(y, w, h); }",
        ["shape: [9, h, w]", "block: [block_size_x, block_size_y, 9]\n"],
    ),
    "a warp for each row, whose width the kernel only asserts": (
        "__global__ void f(float *y, const float *x, int n, int m) { assert(blockDim.x == 32);"
        "int row = blockIdx.x * blockDim.y + threadIdx.y; if (row >= n) return;"
        "for (int i = threadIdx.x; i < m; i += warpSize) y[row * m + i] = x[row * m + i]; }"
        "void run(float *y, float *x, int n, int m) { f<<<(n + 7) / 8, dim3(32, 8)>>>(y, x, n, m); }",
        ["block: [32, block_size_y]\n"],
    ),
    "a width of which the host passes the part of each head": (
        "__global__ void f(float *y, const float *x, int n, int heads, int part)"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n * heads * part) {"
        "int at = i / part * part + i % part; y[at] = x[i]; } }"
        "void run(float *x, int n, int width, int heads) { float *y; cudaMalloc(&y, n * width * sizeof(float));"
        "int part = width / heads; f<<<(n * width + 255) / 256, 256>>>(y, x, n, heads, part); }",
        ["shape: [n, heads, part]", "sizes:  # `tune FILE SIZE` sets them; a number here is a default\n    n:\n"],
    ),
    "a name that is declared twice, with another bound each": (
        "__global__ void f(float *y, const float *x, const int *at, int rows, int cols) { int len = rows * cols;"
        "for (int i = 0; i < rows; i += blockDim.x) { int k = i + threadIdx.x; if (k < rows) y[at[k]] = 0; }"
        "for (int i = 0; i < len; i += blockDim.x) { int k = i + threadIdx.x; if (k < len) y[0] += x[k]; }"
        "len = blockDim.x; }",
        ["guess: y;", "name: at, dtype: int32, shape: [rows]"],
    ),
    "rows of blocks, whose number a stride tells": (
        "__global__ void f(float *y, const float *x, int batch, int size, int channels) { int b = blockIdx.x;"
        "for (int i = threadIdx.x; i < size * channels; i += blockDim.x) { int s = i / channels, c = i % channels;"
        "y[b * size * channels + size * c + s] = x[c * batch * size + b * size + s]; } }",
        ["name: y, dtype: float32, shape: [batch, channels, size]", "grid: [batch]\n"],
    ),
    "indices that are clamped, in rows that may be padded": (
        "#define TX 32\n#define TY 8\n__global__ void f(float *out, const float *in, int nx, int ny, int pitch) {"
        "__shared__ float tile[TY][TX]; int gx = blockIdx.x * TX + threadIdx.x, gy = blockIdx.y * TY + threadIdx.y;"
        "for (int y = threadIdx.y; y < TY; y += TY) { int sx = gx - 1, sy = gy - 1; sx = max(0, min(nx - 1, sx));"
        "sy = max(0, min(ny - 1, sy)); tile[y][threadIdx.x] = in[sy * pitch + sx]; } __syncthreads();"
        "if (gx < nx && gy < ny) out[gy * pitch + gx] = tile[threadIdx.y][threadIdx.x]; }",
        ["arguments:\n", "in_, dtype: float32, shape: [ny, nx], role: in, strides: [pitch, 1]",
         "grid: [ceil_div(nx, TX), ceil_div(ny, TY)]\n"],
    ),
    "leading dimensions, which are no sizes; one that the kernel compares is a size": (
        "#define T 16\n__global__ void f(float *C, int ldc, const float *A, int lda, float *D, int ldd, int M, int N) {"
        "int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x; if (r < M && c < N)"
        "{ C[r * ldc + c] = A[r * lda + c]; for (int d = 0; d < ldd; d++) D[r * ldd + d] = 1; } }"
        "void run(float *A, float *C, float *D, int M, int N) {"
        "f<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(C, N, A, N, D, N, M, N); }",
        ["name: C, dtype: float32, shape: [M, N], role: out, strides: [ldc, 1]}\n",
         "name: A, dtype: float32, shape: [M, N], role: in, strides: [lda, 1]}\n", "shape: [M, ldd], role: out}\n",
         "name: lda, dtype: int32}  # a leading dimension", "grid: [ceil_div(N, T), ceil_div(M, T)]\n"],
    ),
    "variables of one name, and bytes of two arrays": (
        "extern __shared__ char both[];\n__global__ void f(const float *x, int n, int bins, float *sums, int *counts) {"
        "float *s = (float *)both; int *c = (int *)&s[bins];"
        "for (int b = threadIdx.x; b < bins; b += blockDim.x) { s[b] = 0; c[b] = 0; } __syncthreads();"
        "for (int i = threadIdx.x; i < n; i += blockDim.x) { int b = (int)x[i];"
        "if (b >= 0 && b < bins) { atomicAdd(&s[b], x[i]); atomicAdd(&c[b], 1); } } __syncthreads();"
        "for (int b = threadIdx.x; b < bins; b += blockDim.x) { atomicAdd(&sums[b], s[b]);"
        "atomicAdd(&counts[b], c[b]); } }"
        "\nvoid run(const float *x, int n, int bins, float *sums) { unsigned long long *kept; int *counts;"
        "cudaMalloc(&counts, bins * sizeof *counts); size_t bytes = bins * (sizeof(float) + sizeof(int));"
        "f<<<1, 256, bytes>>>(x, n, bins, sums, counts); }",
        ["sums, dtype: float32, shape: [bins]", "counts, dtype: int32, shape: [bins]", "shared_memory: 8 * bins\n"],
    ),
    "small matrices, several in a block": (
        "#define N 4\n#define EACH 32\n__global__ void f(double *y, const double *a, int batch) {"
        "__shared__ double m[EACH][N][N]; int which = threadIdx.x / N, row = threadIdx.x % N;"
        "int b = blockIdx.x * EACH + which; if (b < batch)"
        "for (int c = 0; c < N; c++) m[which][row][c] = a[(b * N + row) * N + c]; __syncthreads();"
        "if (b < batch) for (int c = 0; c < N; c++) y[(b * N + row) * N + c] = m[which][c][row]; }"
        "\nvoid run(double *y, const double *a, int n) { f<<<(n + EACH - 1) / EACH, EACH * N>>>(y, a, n); }",
        ["a, dtype: float64, shape: [batch, 4, 4]", "block: [EACH * 4]\n", "grid: [ceil_div(batch, EACH)]\n"],
    ),
    "a loop in steps, and what is left over": (
        "#define PARTS 4\n__global__ void f(float *y, const float *x, int cols) { int k = threadIdx.x;"
        "for (; k + 32 * (PARTS - 1) < cols; k += 32 * PARTS)"
        "for (int u = 0; u < PARTS; u++) y[blockIdx.x] += x[k + 32 * u];"
        "for (; k < cols; k += 32) y[blockIdx.x] += x[k]; }",
        ["x, dtype: float32, shape: [cols]"],
    ),
    "pieces of work that threads draw, and what the host clears for the kernel alone": (
        "#define T 128\n__global__ void f(const int *x, int *y, volatile unsigned long long *state, unsigned *ticket,"
        "int n) { __shared__ unsigned drawn; if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1); __syncthreads();"
        "unsigned tile = drawn; int i = tile * T + threadIdx.x; if (i < n) y[i] = x[i];"
        "if (threadIdx.x == 0) state[tile] = tile > 0 ? state[tile - 1] : 1; }"
        "\nvoid run(const int *x, int *y, int n) { int tiles = (n + T - 1) / T; unsigned long long *state;"
        "unsigned *ticket; cudaMalloc(&state, tiles * sizeof *state); cudaMalloc(&ticket, sizeof *ticket);"
        "cudaMemset(state, 0, tiles * sizeof *state); cudaMemset(ticket, 0, sizeof *ticket);"
        "f<<<tiles, T>>>(x, y, state, ticket, n); cudaFree(state); cudaFree(ticket); }",
        [
            "name: y, dtype: int32, shape: [n], role: out}\n", "reference:  # ? what must y hold?",
            'state, dtype: uint64, shape: ["ceil_div(n, T)"], role: scratch, zeroed: each}\n',
            "ticket, dtype: uint32, shape: [1], role: scratch, zeroed: each}\n",
        ],
    ),
    "a struct that begins in braces, and what a template always gets": (
        "struct Table { const float *knots; int count; float scale; };"
        "template <bool TOP> __global__ void f(const unsigned char *x, float *y, const Table t, int n) {"
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float v = x[i] * t.scale;"
        "int last = t.count - 1; while (last > 0 && t.knots[last] > v) last--; y[i] = TOP ? t.knots[last] : v; }"
        "\nvoid run(const unsigned char *x, float *y, const float *knots, int count, int n) {"
        "Table t{knots, count, 1.0f / 256}; f<true><<<(n + 255) / 256, 256>>>(x, y, t, n); }",
        [
            "name: knots, dtype: float32, shape: [count]", "{name: count, dtype: int32}\n", "value: 0.00390625}\n",
            "TOP: [true]  # as all launches have it: add false if it computes the same",
        ],
    ),
    "rows that a condition chooses, and numbers of conditions": (
        "__global__ void f(const float *x, float *y, int w, int h) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        "int r = blockIdx.y; if (i >= w || r >= h) return; int up = (r + h - 1) % h, down = (r + 1) % h;"
        "for (int k = 0; k < 3; k++) { int row = k == 0 ? up : k == 1 ? r : down; y[r * w + i] += x[row * w + i]; }"
        "\n#if TWICE > 1\n y[r * w + i] *= 2;\n#endif\n }",
        ["arguments:\n", "x, dtype: float32, shape: [h, w]", "TWICE: [0, 2]  # ? the source tests it by #if"],
    ),
    "an array that a function reads by a local pointer, beside a member of its name": (
        "struct State { unsigned char data[64]; int used; };"
        "__device__ void update(State *s, const unsigned char data[], int n) {"
        "for (int i = 0; i < n; i++) s->data[s->used++] = data[i]; }"
        "__device__ void finish(State *s, unsigned char *to) { for (int i = 0; i < 4; i++) to[i] = s->data[i]; }"
        "__global__ void f(unsigned char *x, unsigned char *y, int n, int rows) {"
        "int r = blockIdx.x * blockDim.x + threadIdx.x;"
        "if (r >= rows) return; unsigned char *in = x + r * n; unsigned char *out = y + r * 4; State s; s.used = 0;"
        "update(&s, in, n); finish(&s, out); }",
        ["role: in}\n    - {name: y", "role: out}\n    - {name: n,"],
    ),
    "planes of which one is read ahead, and images of a batch": (
        "#define BX 32\n#define K 3\n__global__ void f(const float *u, float *v, const float *w, int nx, int ny,"
        "int nz, int pad) { int i = blockIdx.x * BX + threadIdx.x, j = blockIdx.y, b = blockIdx.z, plane = nx * ny;"
        "if (i >= nx || j >= ny) return; float here = u[j * nx + i], above = u[plane + j * nx + i], sum = pad;"
        "for (int k = 0; k < nz; k++) sum += above * u[k * plane + j * nx + i];"
        "for (int k = 0; k < K; k++) sum += w[k]; v[(b * ny + j) * nx + i] = here + sum; }",
        ["arguments:\n", "u, dtype: float32, shape: [nz, ny, nx]", "v, dtype: float32, shape: [rows, ny, nx]"],
    ),
    "a power of two of elements": (
        "__global__ void f(float *x, unsigned bits) { unsigned i = blockIdx.x * blockDim.x + threadIdx.x;"
        "if (i >> bits) return; unsigned j = __brev(i) >> (32 - bits); if (i < j) x[i] = x[j]; }",
        ["bits: 20  # an exponent", "guess: x;", 'shape: ["2 ** bits"]', "grid: [ceil_div(2 ** bits, block_size_x)]\n"],
    ),
    "a comparison that does not leave": (
        "__global__ void f(float *y, int start, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        "if (i >= start && i < n) y[i] = 1; }",
        ["shape: [n]", "grid: [ceil_div(n, block_size_x)]\n"],
    ),
    "a constant of the host that is the number of another size": (
        "#define SIDE 4\n__global__ void f(int *y, int row) { y[threadIdx.x / 4 * row + threadIdx.x % 4] = row; }"
        "\nvoid run() { int *y; cudaMalloc(&y, SIDE * SIDE * sizeof(int)); f<<<1, 16>>>(y, 4); }",
        ["guess: y"],
    ),
    "a block without arrays": (
        "__global__ void f(int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 9) printf(\"%d\", n); }"
        "\nvoid run() { f<<<1, 9>>>(3); }",
        ["# ? how many blocks in x, y, z?"],
    ),
    "a block that host code computes": (
        "__global__ void f(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1; }"
        "void run(float *y, int n, int log) { int t = 1 << log; f<<<(n + t - 1) / t, 1 << log>>>(y, n); }",
        ["block: [block_size_x]  # ? how many threads in x, y, z? host code has others"],
    ),
    "variables that a macro declares": (
        "#define TURN(a) { int order[] = {1, 0}; for (int j = 0; j < 2; j++) a[j] = order[j]; }"
        "\n__global__ void f(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; float a[2]; TURN(a)"
        "if (i < n) y[i] = a[0]; }",
        ["parameters:\n  block_size_x: ["],
    ),
    "a launch of a part, where that of the whole is ambiguous": (
        "__global__ void f(float *y, int w, int h, int low, int high)"
        "{ y[(blockIdx.y * blockDim.y + threadIdx.y) * w + blockIdx.x * blockDim.x + threadIdx.x] = low + high; }"
        "void whole(int w, int h) { float *y; cudaMalloc(&y, w * h * sizeof(float));"
        "f<<<dim3(w / 32, h / 32), dim3(32, 32)>>>(y, w, h, 0, h); }"
        "void parts(int w, int h) { int k; count(&k); float *y; cudaMalloc(&y, w * (h / k) * sizeof(float));"
        "f<<<dim3(w / 32, h / k / 32), dim3(32, 32)>>>(y, w, h, 1, last()); }",
        ["guess: y"],
    ),
    "rows of blocks beside tiles of a macro": (
        "#define TILE 128\n__global__ void f(float *y, int w, int h) { int x = blockIdx.x * TILE + threadIdx.x;"
        "if (x < w) y[blockIdx.y * w + x] = 1; }"
        "\nvoid run(float *y, int w, int h) { f<<<dim3((w + TILE - 1) / TILE, h), TILE>>>(y, w, h); }",
        ["shape: [h, w]", "grid: [ceil_div(w, TILE), h]\nblock: [TILE]\n"],
    ),
    "macros for truth": (
        "#define TRUE 1\n#define FALSE 0\n__global__ void f(float *y, int n) { bool done = FALSE;"
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { y[i] = 1; done = TRUE; } if (done) y[i] = 2; }",
        ["parameters:\n  block_size_x: ["],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_draft_concludes_what_holds_for_all_sizes(what: str, tmp_path: Path, tune: Tune) -> None:
    code, lines = PROGRAMS[what]
    _, text = drafted(tmp_path, tune, code)
    assert [line for line in lines if line not in text] == []


def test_a_file_with_a_main_of_its_own_is_another_program(tmp_path: Path, tune: Tune) -> None:
    kernel = "__global__ void NAME(float *y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }"
    host = "void timing(float *y, int n) { NAME<<<n / 256, 256>>>(y); }"
    main = "int main() { float *y; cudaMalloc(&y, SIZE * sizeof(float)); timing(y, SIZE); }"
    (tmp_path / "other.cu").write_text("\n".join([kernel, host, main]).replace("NAME", "g").replace("SIZE", "512"))
    code = "\n".join(["#define SIZE 65536", kernel, host, main]).replace("NAME", "f")
    data, _ = drafted(tmp_path, tune, code)
    assert data["operation"]["sizes"] == {"SIZE": 65536}


def test_functions_that_all_call_each_other_are_followed_for_a_while(tmp_path: Path, tune: Tune) -> None:
    kernel = (
        "__global__ void f(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1; }"
    )
    calls = " ".join(f"get{number}(y);" for number in range(60))
    others = "\n".join(f"void get{number}(float *y) {{ cudaMalloc(&held, 4); {calls} }}" for number in range(60))
    launch = "void run(int n) { f<<<n / 256, 256>>>(held, n); }"
    _, text = drafted(tmp_path, tune, "\n".join([kernel, others, launch]))
    assert "grid: [ceil_div(n, block_size_x)]" in text


def test_a_variable_of_one_step_is_no_array_of_another(tmp_path: Path, tune: Tune) -> None:
    index = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
    code = f"""
    __global__ void a(float *k, int n) {{ {index} k[i] = 1; }}
    __global__ void b(float *y, int n) {{ {index} for (int k = 0; k < 4; k++) y[i] += k; }}
    __global__ void c(float *z, int n) {{ int j = blockIdx.y * blockDim.y + threadIdx.y; if (j < n) z[j] = 1; }}"""
    _, text = drafted(tmp_path, tune, code, "--entry", "a,b")
    assert "name: k, dtype: float32, shape: [n]" in text
    assert "shapes of these are guesses" not in text
    assert "block: [block_size_x]\n" in text  # c alone has two dimensions


def test_each_step_has_the_block_and_the_grid_of_its_own_launch(tmp_path: Path, tune: Tune) -> None:
    """Also where the number of threads is by chance that of another step's macro, or an array has another's name."""
    code = """
    #define BLOCK 256
    #define SIDE 16
    __global__ void count(int *counts, const unsigned char *x, int n) { __shared__ int s[BLOCK];
        int i = blockIdx.x * BLOCK + threadIdx.x; s[threadIdx.x] = 1; if (i < n) atomicAdd(&counts[x[i]], s[0]); }
    __global__ void sums(int *offsets, const int *counts) { int t = threadIdx.x; int s = 0;
        for (int i = 0; i < t; i++) s += counts[i]; offsets[t] = s; }
    __global__ void spread(float *y, const int *offsets, int h, int w) { extern __shared__ int s[];
        int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
        s[threadIdx.x] = offsets[threadIdx.x]; if (r < h && c < w) y[r * w + c] = s[threadIdx.x]; }
    void run(int *counts, int *offsets, float *y, const unsigned char *x, int n, int h, int w) {
        dim3 block(SIDE, SIDE / 2), grid((w + SIDE - 1) / SIDE, (h + SIDE / 2 - 1) / (SIDE / 2));
        count<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(counts, x, n);
        sums<<<1, 256>>>(offsets, counts);
        spread<<<grid, block, SIDE * sizeof(int)>>>(y, offsets, h, w); }"""
    data, text = drafted(tmp_path, tune, code, "--entry", "count,sums,spread")
    launches = [(step["grid"], step["block"], "shared_memory" in step) for step in data["steps"]]
    x, y = "spread_block_size_x", "block_size_y"
    assert launches == [
        (["ceil_div(n, BLOCK)"], ["BLOCK"], False),
        ([1], [256], False),
        ([f"ceil_div(w, {x})", f"ceil_div(h, {y})"], [x, y], True),
    ]
    assert (data["default"], text.count("how many blocks")) == ({"BLOCK": 256, x: 16, y: 8}, 0)
    assert "restrictions" not in data  # another kernel's shared array has the name


def test_names_that_only_the_host_defines_are_blocks_as_it_writes_them(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "main.c").write_text(
        "#ifdef GROUP\n#define SIDE GROUP\n#else\n#define SIDE 16\n#endif\n"
        'void run(cl_mem y, int n) { cl_kernel k = clCreateKernel(program, "f", &error);'
        "clSetKernelArg(k, 0, sizeof(cl_mem), &y); clSetKernelArg(k, 1, sizeof(int), &n);"
        "size_t all[1] = {2 * SIDE * (n / SIDE - 1)}, group[1] = {2 * SIDE};"
        "clEnqueueNDRangeKernel(queue, k, 1, NULL, all, group, 0, NULL, NULL); }"
    )
    code = (
        "__kernel void f(__global float *y, int n) { int t = get_local_id(0), b = get_group_id(0);"
        "if (t < SIDE) y[b * SIDE + t] = 1; else y[n + b * SIDE + t - SIDE] = 2; }"
    )
    _, text = drafted(tmp_path, tune, code, "--source", str(tmp_path / "main.c"), name="f.cl")
    assert "grid: [n // SIDE - 1]\nblock: [2 * SIDE]\n" in text
