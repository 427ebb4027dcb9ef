"""`tune new` asks where what it reads holds for one block, one pass of a loop or one call only, and else says when."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.drafts import drafted
from helpers.processes import Tune

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
ASKED = "# ? how many blocks in x, y, z?"
ITEM = "int i = get_global_id(0);"

# CUDA programs, each with lines of its draft.
PROGRAMS = {
    "blocks that do something else": (
        "__global__ void f(float *y, int inner, int n) { int b = blockIdx.x; int from = 0;"
        "if (b < inner) { from = b * n; } else { from = (b - inner) * n; }"
        "y[b * n + threadIdx.x] = from; }",
        [ASKED, "guess: y"],
    ),
    "a step of a loop": (
        "#define T 16\n__global__ void f(float *y, int w, int h, int each) { int x = each * (blockIdx.x * T + "
        "threadIdx.x); int r = each * (blockIdx.y * T + threadIdx.y); if (x % 2 || r % 2) return; y[r * w + x] = h; }"
        "\nvoid run(float *y, int w, int h) { for (int i = 1; i < w; i = 2 * i) {"
        "dim3 grid((w + i * T - 1) / (i * T), (h + i * T - 1) / (i * T)), block(T, T);"
        "f<<<grid, block>>>(y, w, h, i); } }",
        ["grid: [ceil_div(w, T * each), ceil_div(h, T * each)]\n"],
    ),
    "one number of the host for two axes of the block": (
        "__global__ void f(float *y, int w) { int x = blockIdx.x * blockDim.x + threadIdx.x;"
        "int r = blockIdx.y * blockDim.y + threadIdx.y; y[r / 2 * w + x / 2] = 1; }"
        "void run(int w, int h, int side) { float *y; cudaMalloc(&y, w * h * 4); dim3 block(side, side);"
        "dim3 grid((w + 2 * side - 1) / (2 * side), (h + 2 * side - 1) / (2 * side)); f<<<grid, block>>>(y, w); }",
        ["grid: [ceil_div(w, 2 * block_size_x), ceil_div(h, 2 * block_size_y)]\n"],
    ),
    "a global variable that a function changes": (
        f"int WIDE = 1024; __global__ void f(float *y, float c) {{ {INDEX} y[i] = c; }}"
        "void parse(char **argv) { WIDE = atoi(argv[1]); }"
        "void run() { float *y; cudaMalloc(&y, WIDE * 4); f<<<WIDE / 256, 256>>>(y, 1.0f); }",
        ["WIDE:  # as in the host code", "grid: [(WIDE // block_size_x)]\n", "shape: [WIDE]"],
    ),
    "an extent of zero": (
        f"__global__ void f(float *y, int n) {{ {INDEX} y[i % n] = 1; }}"
        "void run(float *y, int n) { dim3 grid(1, 0, 0); f<<<grid, 64>>>(y, n); }",
        [ASKED],
    ),
    "a function that is called with two numbers": (
        "int parts(int n, int each) { return (n + each - 1) / each; } __global__ void f(float *y, int n, int turns) {"
        "for (int k = 0; k < turns; k++) y[blockIdx.x * 8 + threadIdx.x % 8] += n; }"
        "void run(float *y, int n) { f<<<parts(n, 8), 128>>>(y, n, parts(n, 128)); }",
        ["grid: [ceil_div(n, 8)]\n"],
    ),
    "a block that the arrays' extents follow": (
        f"__global__ void f(int *y) {{ {INDEX} y[i] = threadIdx.x; }}"
        "void run(int rows, int columns) { int *y; cudaMalloc(&y, rows * columns * sizeof(int));"
        "f<<<rows, columns>>>(y); }",
        ["guess: y", ASKED, "# ? how many threads in x, y, z? host code computes them from sizes"],
    ),
    "an output that is tested before it is written": (
        f"__global__ void f(const float *x, float *sums, int n) {{ {INDEX} if (i < n && sums) "
        "sums[blockIdx.x] = x[i]; } void run(float *x, int n) { float *sums; cudaMalloc(&sums, 512 * 4);"
        "f<<<(n + 255) / 256, 256>>>(x, sums, n); }",
        ['name: sums, dtype: float32, shape: ["ceil_div(n, block_size_x)"]'],
    ),
    "a pointer that moves from the first element": (
        f"__global__ void f(float *y, int n) {{ {INDEX} float *at = &y[0]; for (int k = 0; k < 9; k++) "
        "{ at[i] = 1; at += n; } }",
        ["guess: y"],
    ),
    "memory of a number beside a size that the host passes as a number": (
        "__device__ void sum(float *y, int w); __global__ void f(float *y, int w) { sum(y, w); }"
        "void run() { float *y; cudaMalloc(&y, 25 * sizeof(float)); f<<<1, 1>>>(y, 5); }",
        ["guess: y"],
    ),
    "a vector that gets another length": (
        f"__global__ void f(int *y, int n) {{ {INDEX} y[i] = n; }}"
        "void run(int n, int m) { thrust::device_vector<int> v(n); v.resize(m);"
        "int *y = thrust::raw_pointer_cast(v.data()); f<<<n / 32, 32>>>(y, m); }",
        ["guess: y"],
    ),
    "a macro that the kernel does not read and gets": (
        f"#define EACH 3\n__global__ void f(float *y, int n, int each) {{ {INDEX} if (i < n) y[i * each] = 1; }}"
        "\nvoid run(int n) { float *y; cudaMalloc(&y, n * EACH * sizeof(float));"
        "f<<<(n + 255) / 256, 256>>>(y, n, EACH); }",
        ["name: y, dtype: float32, shape: [n, each]"],
    ),
    "a block and a grid of the file": (
        f"const int N = 4096, EACH = 64; dim3 block(EACH), grid(N / EACH); __global__ void f(float *y) {{ {INDEX} "
        "y[i] = 1; } void run() { float *y; cudaMalloc(&y, N * 4); f<<<grid, block>>>(y); }",
        ["grid: [(N // block_size_x)]\n", '{that: "N % block_size_x == 0", because: the host launches whole blocks'],
    ),
    "whole blocks of a kernel whose indices nothing limits": (
        f"__global__ void f(float *y, const float *x, int n) {{ {INDEX} int left = i == 0 ? 0 : i - 1;"
        "int right = (i < n - 1) ? i + 1 : i; y[i] = x[left] + x[right]; }"
        "void run(int n, float *y, float *x) { f<<<n / 64, 64>>>(y, x, n); }",
        ['{that: "n % block_size_x == 0", because: the host launches whole blocks only}'],
    ),
    "whole blocks of a kernel that limits its indices": (
        f"__global__ void f(float *y, int n) {{ {INDEX} bool is_in = i < n; if (is_in && n > 1) y[i] = n; }}"
        "void run(int n, float *y) { f<<<n / 64, 64>>>(y, n); }",
        ["default: {block_size_x: 64}\ngrid: [ceil_div(n, block_size_x)]\n"],
    ),
    "as many blocks of one thread as elements": (
        f"__global__ void f(float *y, float c) {{ {INDEX} y[i] = c; }}"
        "void run(int n) { float *y; cudaMalloc(&y, n * 4); f<<<n, 1>>>(y, 1.0f); }",
        [ASKED],
    ),
    "a divisor that is the block's number by a macro of 1": (
        "#define T 32\n#define EACH 1\n__global__ void f(float *y, int n) { for (int k = 0; k < EACH; k++)"
        "y[(blockIdx.x * EACH + k) * T + threadIdx.x] = n; }"
        "\nvoid run(float *y, int n) { f<<<n / (T * EACH), T>>>(y, n); }",
        ["grid: [(n // (EACH * T))]\n"],
    ),
    "elements of each of the host's threads": (
        f"__global__ void f(float *y, int n, int each) {{ {INDEX} for (int k = i * each; k < (i + 1) * each; k++)"
        "if (k < n) y[k] = 1; } void run(float *y, int n) { int total = 80 * 256, each = (n + total - 1) / total;"
        "f<<<80, 256>>>(y, n, each); }",
        [ASKED],
    ),
    "launches that differ in one axis": (
        "__global__ void f(float *y, int w, int h) { int x = blockIdx.x * blockDim.x + threadIdx.x;"
        "int r = blockIdx.y * blockDim.y + threadIdx.y; if (r < h) y[x * h + r] = w; }"
        "void run(float *y, int w, int h) { f<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(y, w, h);"
        "f<<<dim3(w / 16, w / 16), dim3(16, 16)>>>(y, w, h); }",
        [ASKED],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_holds_in_one_case_only_is_asked_for(what: str, tmp_path: Path, tune: Tune) -> None:
    code, lines = PROGRAMS[what]
    _, text = drafted(tmp_path, tune, code)
    assert [line for line in lines if line not in text] == [], text


def test_an_only_work_item_is_no_block_of_several(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "host.c").write_text("""
    void run(int n) { cl_kernel k = clCreateKernel(p, "f", 0); cl_mem y = clCreateBuffer(c, 0, n * 4, 0, 0);
        size_t global[2] = {n, 1}; clSetKernelArg(k, 0, sizeof(y), &y);
        clEnqueueNDRangeKernel(q, k, 2, 0, global, 0, 0, 0, 0); }""")
    code = f"__kernel void f(__global float *y) {{ {ITEM} y[i + get_global_id(1) * get_global_size(0)] = 1; }}"
    _, text = drafted(tmp_path, tune, code, name="f.cl")
    assert ASKED in text
    assert '{that: "n % block_size_x == 0", because: the host launches whole blocks only}' in text


def test_a_kernel_is_enqueued_by_another_function_or_file(tmp_path: Path, tune: Tune) -> None:
    for folder in (".git", "kernels", "app"):
        (tmp_path / folder).mkdir()
    code = f"__kernel void f(__global float *y, int n) {{ {ITEM} y[i] = n; }}"
    lines = ["grid: [ceil_div(n, block_size_x)]\n", '{that: "n % block_size_x == 0", because: the host']
    (tmp_path / "app" / "make.c").write_text('void make(C *c) { c->kernels.fill = clCreateKernel(c->p, "f", 0); }')
    (tmp_path / "app" / "run.c").write_text("""
    void run(C *c, cl_mem y, int n) { clSetKernelArg(c->kernels.fill, 0, sizeof(y), &y);
        clSetKernelArg(c->kernels.fill, 1, sizeof(int), &n); size_t all = n;
        clEnqueueNDRangeKernel(c->q, c->kernels.fill, 1, 0, &all, 0, 0, 0, 0); }""")
    _, text = drafted(tmp_path / "kernels", tune, code, name="f.cl")
    assert [line for line in lines if line not in text] == [], text
    for file in (tmp_path / "app").iterdir():
        file.unlink()
    (tmp_path / "kernels" / "host.cpp").write_text("""
    void App::load(int count) { n = count; k = cl::Kernel(p, "f"); k.setArg(0, y); k.setArg(1, n); }
    void App::run() { q.enqueueNDRangeKernel(k, cl::NullRange, cl::NDRange(n), cl::NullRange); }""")
    (tmp_path / "kernels" / "f.yaml").unlink()
    _, text = drafted(tmp_path / "kernels", tune, code, name="f.cl")
    assert [line for line in lines if line not in text] == [], text
