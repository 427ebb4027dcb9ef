"""What `tune new` reads from how a program builds and launches OpenCL: flags of the build, local memory, one block."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.drafts import compiled, drafted, guessed
from helpers.processes import Tune

# A scan in three steps, in a type that the build chooses.
STEPS = """
#ifdef SINGLE
#define REAL float
#define REAL4 float4
#elif DOUBLE
#define REAL double
#define REAL4 double4
#endif
__kernel void totals(__global const REAL *x, __global REAL *sums, int n, __local REAL *part) {
    int t = get_local_id(0), from = n / get_num_groups(0) * get_group_id(0);
    part[t] = 0;
    for (int i = t; i < n / get_num_groups(0); i += get_local_size(0)) part[t] += x[from + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t == 0) { for (int i = 1; i < get_local_size(0); i++) part[0] += part[i]; sums[get_group_id(0)] = part[0]; }
}
__kernel void before(__global REAL *sums, int groups, __local REAL *part) {
    int t = get_local_id(0);
    part[t + get_local_size(0)] = t < groups ? sums[t] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    REAL sum = 0;
    for (int i = 0; i < t; i++) sum += part[i + get_local_size(0)];
    if (t < groups) sums[t] = sum;
}
__kernel void spread(__global const REAL *x, __global const REAL *sums, __global REAL *y, int n) {
    __global REAL4 *wide = (__global REAL4 *)y;
    for (int i = get_global_id(0); i < n / 4; i += get_global_size(0)) wide[i] = x[4 * i] + sums[get_group_id(0)];
}
"""
HOST = """
template <typename T> void run(int n, string flags) {
    clBuildProgram(p, 1, &device, flags.c_str(), NULL, NULL);
    cl_kernel first = clCreateKernel(p, "totals", 0), second = clCreateKernel(p, "before", 0);
    cl_kernel third = clCreateKernel(p, "spread", 0);
    const size_t local = 128, items = 8192, groups = items / local;
    cl_mem in = clCreateBuffer(c, 0, n * sizeof(T), NULL, 0), out = clCreateBuffer(c, 0, n * sizeof(T), NULL, 0);
    cl_mem sums = clCreateBuffer(c, 0, groups * sizeof(T), NULL, 0);
    clSetKernelArg(first, 0, sizeof(cl_mem), &in); clSetKernelArg(first, 1, sizeof(cl_mem), &sums);
    clSetKernelArg(first, 2, sizeof(int), &n); clSetKernelArg(first, 3, local * sizeof(T), NULL);
    clSetKernelArg(second, 0, sizeof(cl_mem), &sums); clSetKernelArg(second, 1, sizeof(int), &groups);
    clSetKernelArg(second, 2, 2 * local * sizeof(T), NULL);
    clSetKernelArg(third, 0, sizeof(cl_mem), &in); clSetKernelArg(third, 1, sizeof(cl_mem), &sums);
    clSetKernelArg(third, 2, sizeof(cl_mem), &out); clSetKernelArg(third, 3, sizeof(int), &n);
    for (int pass = 0; pass < passes; pass++) {
        clEnqueueNDRangeKernel(q, first, 1, NULL, &items, &local, 0, 0, 0);
        clEnqueueNDRangeKernel(q, second, 1, NULL, &local, &local, 0, 0, 0);
        clEnqueueNDRangeKernel(q, third, 1, NULL, &items, &local, 0, 0, 0);
    }
}
void main() { string one = "-cl-mad-enable -D SINGLE"; run<float>(n, one); if (two) run<double>(n, "-DDOUBLE"); }
"""


@pytest.mark.slow
def test_a_program_of_three_kernels_leaves_two_questions_and_compiles(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "host.cpp").write_text(HOST)
    data, text = drafted(tmp_path, tune, STEPS, "--entry", "totals,before,spread", name="f.cl")
    arguments = {each["name"]: each for each in data["operation"]["arguments"]}
    assert {each["dtype"] for name, each in arguments.items() if name not in ("n", "groups")} == {"float32"}
    assert (data["parameters"]["SINGLE"], data["operation"]["sizes"], guessed(text)) == ([True], {"n": None}, [])
    blocks = "ceil_div(8192, block_size_x)"
    assert (arguments["part"]["shape"], arguments["sums"]["shape"]) == (["2 * block_size_x"], [blocks])
    assert arguments["groups"]["value"] == blocks
    assert [step["grid"] for step in data["steps"]] == [[blocks], [1], [blocks]]
    assert [each["that"] for each in data["restrictions"]] == [f"block_size_x >= {blocks}"]
    asked = [line for line in text.splitlines()[2:] if "# ?" in line]
    assert len(asked) == 2
    assert "does the caller need it" in asked[0]
    assert "reference:" in asked[1]
    assert "# reference: {config: default}" in text
    compiled(tmp_path, tune, text)


BY_OTHER_NAMES = """
#define WG 64
#define OUTPUTS 4
__kernel void f(__global float *y, __global const float *x, int n) {
    int first = (get_group_id(0) * WG + get_local_id(0)) * OUTPUTS;
    for (int k = 0; k < OUTPUTS; k++) if (first + k < n) y[first + k] = x[first + k];
}
"""
HOST_OF_OTHER_NAMES = """
void run(cl_mem y, cl_mem x, int n) {{
    const int threads = 64, each = 4;
    {build};
    cl_kernel k = clCreateKernel(program, "f", &error);
    clSetKernelArg(k, 0, sizeof y, &y); clSetKernelArg(k, 1, sizeof x, &x); clSetKernelArg(k, 2, sizeof n, &n);
    size_t local = threads, all = (n + threads * each - 1) / (threads * each) * threads;
    clEnqueueNDRangeKernel(queue, k, 1, NULL, &all, &local, 0, NULL, NULL);
}}
"""

# By what a build or a host says: the kernels, the host's code, and lines of the draft.
SAID = {
    "a loop over the grid that ends after a fixed number of passes": (
        "__kernel void f(__global float *y, int n) { int i = get_global_id(0), step = get_global_size(0);"
        "for (int k = 0; k < EACH; k++, i += step) if (i < n) y[i] = 2; }", "",
        ["grid: [ceil_div(n, block_size_x * EACH)]\n"],
    ),
    "a loop over the grid that may also end before": (
        "__kernel void f(__global float *y, int n) { int i = get_global_id(0), step = get_global_size(0);"
        "for (int k = 0; k < n; k++, i += step) { if (i >= n) break; y[i] = 2; } }", "",
        ["# any number works with a grid-stride loop\n"],
    ),
    "a macro that is a type": (
        "#define REAL double\n__kernel void f(__global REAL *y, int n, REAL a) { y[get_global_id(0)] = a; }", "",
        ["name: y, dtype: float64", "name: a, dtype: float64"],
    ),
    "the first flag without which a type is unknown, if no host code names one": (
        "#ifdef HALF\n#define REAL float\n#elif FULL\n#define REAL double\n#endif\n"
        "__kernel void f(__global REAL *y) { y[get_global_id(0)] = 1; }", "",
        ["name: y, dtype: float32", "HALF: [true]  # "],
    ),
    "a macro for a type that a build may set": (
        "#ifndef REAL\n#define REAL double\n#endif\n"
        "__kernel void f(__global REAL *y) { y[get_global_id(0)] = 1; }", "", ["name: y, dtype: float64"],
    ),
    "a flag that chooses the type of the arguments": (
        "#ifdef DOUBLES\ntypedef double real;\n#else\ntypedef float real;\n#endif\n"
        "__kernel void f(__global real *y) { y[get_global_id(0)] = 1; }", "",
        ["name: y, dtype: float32", "# DOUBLES: [false]    # no knob: the kernel's arguments depend on it"],
    ),
    "a flag on which the arguments depend": (
        "__kernel void f(__global float *y,\n#ifdef IMAGE\nimage2d_t x\n#else\n__global const float *x\n#endif\n) "
        "{ int i = get_global_id(0);\n#ifdef IMAGE\ny[i] = read_imagef(x, s, WIDTH).x;\n#else\ny[i] = x[i];\n#endif\n}",
        'void run() { if (images) sprintf(flags, "-DIMAGE -DWIDTH=%d", w); cl_kernel k = clCreateKernel(p, "f", 0);'
        'clSetKernelArg(k, 0, 8, &a); clSetKernelArg(k, 1, 8, &b); }',
        ["name: x, dtype: float32, shape", "# IMAGE: [false]    # no knob: the kernel's arguments depend on it"],
    ),
    "a number of the source on which the arguments depend": (
        "#ifndef CACHED\n#define CACHED 1\n#endif\n__kernel void f(__global float *y, __global const float *x,"
        "int n, int k\n#if CACHED\n, __local float *part\n#endif\n) { int i = get_global_id(0);\n#if CACHED\n"
        "part[i % k] = x[i % k];\n#endif\nif (i < n) y[i] = x[i % k]; }",
        'void run(int n, int k) { cl_kernel c = clCreateKernel(p, "f", 0); clSetKernelArg(c, 2, 4, &n);'
        "clSetKernelArg(c, 3, 4, &k); clSetKernelArg(c, 4, k * sizeof(float), NULL);"
        "clEnqueueNDRangeKernel(q, c, 1, 0, &n, 0, 0, 0, 0); }",
        [
            "name: part, dtype: float32, kind: local, shape: [k]}\n",
            "# CACHED: [1]    # no knob: the kernel's arguments depend on it",
        ],
    ),
    "two callers that pass different sizes": (
        "__kernel void f(__global float *y, __global const float *x, __global const int *at, int n) "
        "{ int i = get_global_id(0); if (i < n) y[i] = x[at[i]]; }",
        "void sum(int rows, int all) { cl_kernel k = clCreateKernel(p, \"f\", 0);"
        "cl_mem x = clCreateBuffer(c, 0, all * sizeof(float), 0, 0); clSetKernelArg(k, 0, 8, &y);"
        "clSetKernelArg(k, 1, 8, &x); clSetKernelArg(k, 2, 8, &at); clSetKernelArg(k, 3, 4, &rows); }"
        "void main() { int plain = read(), padded = read(), n = read(); sum(n, plain); sum(n, padded); }",
        ["name: x, dtype: float32, shape: [all]", "fill: {integers: [0, all - 1]}"],
    ),
    "local memory in numbers, which is that of another block": (
        "__kernel void f(__global float *y, __local float *s) "
        "{ s[get_local_id(0)] = 1; y[get_global_id(0)] = s[get_local_id(0)]; }",
        'void run(int n) { cl_kernel k = clCreateKernel(p, "f", 0); clSetKernelArg(k, 0, 8, &a);'
        "clSetKernelArg(k, 1, 64 * sizeof(float), NULL); }",
        ["kind: local, shape: [block_size_x]}\n"],
    ),
    "local memory as its stores tell it: tiles with borders, warps, a part of a tree": (
        "#define TILE 16\n#define R 3\n__kernel void f(__global float *y, __global const float *x, int w, int h, "
        "__local float *tile, __local float *sums, __local float *parts) { "
        "int t = get_local_id(0), span = TILE + 2 * R; for (int i = get_local_id(1); i < span; i += TILE) "
        "for (int j = get_local_id(0); j < span; j += TILE) tile[i * span + j] = x[j];"
        "parts[get_local_id(1) * TILE + t] = 1; for (int d = 8; d > 0; d /= 2) if (t < d) parts[t] += parts[t + d];"
        "if (t % 32 == 0) sums[t / 32] = tile[t + R]; "
        "int c = get_group_id(0) * TILE + t, r = get_group_id(1) * TILE + get_local_id(1);"
        "if (c < w && r < h) y[r * w + c] = parts[0] + sums[0]; }", "",
        ['name: tile, dtype: float32, kind: local, shape: ["TILE * TILE + 12 * TILE + 36"]}\n',
         'name: sums, dtype: float32, kind: local, shape: ["ceil_div(TILE, 32)"]}\n',
         'name: parts, dtype: float32, kind: local, shape: ["TILE * TILE"]}\n', "block: [TILE, TILE]\n"],
    ),
    "blocks that index the local memory of the source": (
        "#define TX 18\n#define TY 8\n__kernel void f(__global float *y, __global const float *x, int w, int h) {"
        "__local float t[TY][TX]; int i = get_global_id(0), k = get_global_id(1), at = get_local_id(0) + 1;"
        "int row = get_local_id(1); if (i < w - 2 && k < h) { t[row][at] = x[k * w + i + 1];"
        "if (at == 1) { t[row][0] = x[k * w + i]; t[row][TX - 1] = x[k * w + i + TX - 1]; } }"
        "barrier(CLK_LOCAL_MEM_FENCE); if (i < w - 2 && k < h) y[k * w + i] = t[row][at - 1] + t[row][at + 1]; }",
        'void run(cl_mem y, cl_mem x, int w, int h) { cl_kernel k = clCreateKernel(program, "f", &error);'
        "clSetKernelArg(k, 0, sizeof(cl_mem), &y); clSetKernelArg(k, 1, sizeof(cl_mem), &x);"
        "clSetKernelArg(k, 2, sizeof(int), &w); clSetKernelArg(k, 3, sizeof(int), &h); size_t local[2] = {16, 8};"
        "size_t all[2] = {(w - 2 + local[0] - 1) / local[0] * local[0], (h + local[1] - 1) / local[1] * local[1]};"
        "clEnqueueNDRangeKernel(queue, k, 2, NULL, all, local, 0, NULL, NULL); }",
        ['- {that: "block_size_x <= 16", because: shared memory has an element for each thread}\n',
         '- {that: "block_size_y <= TY", because: shared memory has an element for each thread}\n',
         "# TX: [18]    # no knob: it is an offset in indices\n", "block_size_x: 16, block_size_y: 8}\n"],
    ),
    "blocks with a margin in local memory": (
        "#define BX 16\n#define R 2\n#define BY 8\n"
        "__kernel void f(__global float *y, __global const float *x, int w, int h) {"
        "__local float t[BY + 2][BX + 2 * R]; int i = get_global_id(0), k = get_global_id(1);"
        "int at = get_local_id(0) + R, row = get_local_id(1) + 1; if (i < w && k < h) { t[row][at] = x[k * w + i];"
        "if (at == BX + R - 1) t[row][at + 1] = 0; if (row == BY) t[row + 1][at] = 0; }"
        "barrier(CLK_LOCAL_MEM_FENCE); if (i < w && k < h) y[k * w + i] = t[row][at - 1] + t[row][at + 1]; }", "",
        ["grid: [ceil_div(w, BX), ceil_div(h, BY)]\nblock: [BX, BY]\n"],
    ),
    "macros that the host has by other names": (BY_OTHER_NAMES, HOST_OF_OTHER_NAMES.format(
        build='"-DWG=" + std::to_string(threads) + " -DOUTPUTS=" + std::to_string(each)'),
        ["grid: [ceil_div(n, OUTPUTS * WG)]\nblock: [WG]\n"],
    ),
    "macros that the host prints into its options": (BY_OTHER_NAMES, HOST_OF_OTHER_NAMES.format(
        build='sprintf(options, "-DWG=%d -DOUTPUTS=%d", threads, each);'),
        ["grid: [ceil_div(n, OUTPUTS * WG)]\nblock: [WG]\n"],
    ),
    "the width of vectors": (
        "#define WIDTH 4\n__kernel void f(__global int4 *y, __global const int4 *x, int n) { int wide = n / WIDTH;"
        "int i = get_global_id(0); if (i < wide) y[i] = x[i]; if (i < n / WIDTH) y[i] += 1; }", "",
        ["  # WIDTH: [4]    # no knob: it is the width of accesses: bounds are divided by it\n"],
    ),
    "a size that is a shift": (
        "#define PART 16\n__kernel void f(__global const int *x, __global int *sums, int n) "
        "{ int g = get_global_id(0), s = 0; for (int k = 0; k < PART; k++) if (g * PART + k < n) s += x[g * PART + k];"
        "if (g * PART < n) sums[g] = s; }",
        'const int n = 1 << 20;\nstatic const int part = 16;\nvoid run() { sprintf(options, "-DPART=%d", part);'
        'cl_kernel k = clCreateKernel(p, "f", 0); cl_mem x = clCreateBuffer(c, 0, n * sizeof(int), 0, 0);'
        "cl_mem s = clCreateBuffer(c, 0, n / part * sizeof(int), 0, 0); clSetKernelArg(k, 0, 8, &x);"
        "clSetKernelArg(k, 1, 8, &s); clSetKernelArg(k, 2, 4, &n); size_t local = 64, all = n / part;"
        "clEnqueueNDRangeKernel(q, k, 1, NULL, &all, &local, 0, 0, 0); }",
        ['name: sums, dtype: int32, shape: ["(n // PART)"]', "  PART: [4, 8, 16, 32, 64]\n"],
    ),
    "local memory of vectors, stored by components and added to atomically": (
        "__kernel void f(__global float *y, __local float4 *part, __local int *counts) { int t = get_local_id(0);"
        "part[t].x = y[t]; if (t && part[t + 1].x == 1) atomic_inc(&counts[2 * t]); y[t] = part[0].y; }", "",
        ['name: part, dtype: float32, kind: local, shape: [block_size_x, 4]}\n',
         'name: counts, dtype: int32, kind: local, shape: ["2 * block_size_x - 1"]}\n'],
    ),
    "local memory whose stores are wider than an element": (
        "__kernel void f(__global float4 *y, __local float *a, __local float *b) { int t = get_local_id(0);"
        "*(__local float4 *)&a[4 * t] = y[t]; __local float *at = &b[4 * t]; *(__local float4 *)&at[0] = y[t]; "
        "y[t] = a[t] + b[t]; }", "",
        [f"name: {name}, dtype: float32, kind: local, shape: [block_size_x]}}  # ? how many elements" for name in "ab"],
    ),
    "planes of a volume": (
        "#define FIRST 1\n#define LAST (FIRST + 3)\n__kernel void f(__global float *y, __global const float *x, int n, "
        "__constant float *w, __global const int *near) { int i = get_global_id(0); if (i >= n) return; float s = 0;"
        "for (int j = 0; j < 3; j++) { int other = near[i + j * n]; s += w[j] * x[other + LAST * n]; }"
        "y[i] = s + x[i] + x[i + FIRST * n]; }", "",
        ["name: x, dtype: float32, shape: [5, n]", "name: near, dtype: int32, shape: [3, n]",
         "name: w, dtype: float32, shape: [3]"],
    ),
    "a counter of time steps": (
        "__kernel void f(__global float *y, int n, int step) "
        "{ int i = get_global_id(0); if (i < n) y[i] = 1.0f / (float)(4 - step); }", "",
        ["options: {step: 1}", "grid: [ceil_div(n, block_size_x)]\n"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SAID)
def test_a_draft_follows_the_build_and_the_launch(what: str, tmp_path: Path, tune: Tune) -> None:
    code, host, lines = SAID[what]
    (tmp_path / "host.c").write_text(host)
    _, text = drafted(tmp_path, tune, code, name="f.cl")
    assert [line for line in lines if line not in text] == []


# By the body: block and restriction of a draft whose host launches one block of 96 threads.
SINGLE = {
    "a thread for each of n elements": ("if (t < n) y[t] = x[t];", "[block_size_x]", "block_size_x >= n"),
    "threads that step by their number": ("for (int i = t; i < n; i += blockDim.x) y[i] = x[i];", "[block_size_x]", ""),
    "as many elements as threads": ("y[t] = x[t] * n;", "[96]", ""),
    "a quotient of the thread": ("y[t / 32] = x[t % 32 * n];", "[96]", ""),
}


@pytest.mark.parametrize("what", SINGLE)
def test_a_single_block_has_the_threads_that_its_body_needs(what: str, tmp_path: Path, tune: Tune) -> None:
    body, block, restriction = SINGLE[what]
    host = "void run(float *y, float *x, int n) { f<<<1, 96>>>(y, x, n); }"
    code = f"__global__ void f(float *y, const float *x, int n) {{ int t = threadIdx.x; {body} __syncthreads(); }}"
    data, text = drafted(tmp_path, tune, code + host)
    assert (f"grid: [1]\nblock: {block}\n" in text) == (restriction != "" or block == "[96]" or "blockDim" in body)
    assert [each["that"] for each in data.get("restrictions", [])] == [restriction] * bool(restriction)


ROLES = {
    "a function that writes": ("write(y, i);", "out"),
    "a function that adds": ("more(y + 1, i);", "inout"),
    "a function that adds to an array with an extent": ("many(y, i);", "inout"),
    "a function that calls one that reads": ("z[i] = twice(&y[i], i);", "in"),
    "written before it is read": ("y[i] = 1; if (n) y[i] = 2 * y[i];", "out"),
}


@pytest.mark.parametrize("what", ROLES)
def test_the_role_of_an_array_follows_it_into_functions(what: str, tmp_path: Path, tune: Tune) -> None:
    body, role = ROLES[what]
    code = f"""
    void write(__global float *a, int i) {{ a[i] = 1; }}
    void more(__global float *a, int i) {{ a[i] += 1; }}
    void many(__global float a[COUNT], int i) {{ a[i] += 1; }}
    float one(__global float *a, int i) {{ return a[i]; }}
    float twice(__global float *b, int i) {{ return 2 * one(b, i); }}
    __kernel void f(__global float *y, __global float *z, int n) {{ int i = get_global_id(0); {body} }}"""
    data, text = drafted(tmp_path, tune, code, name="f.cl")
    assert {a["name"]: a["role"] for a in data["operation"]["arguments"] if "role" in a}["y"] == role
    assert not any("name: y," in line and "inout?" in line for line in text.splitlines())
    made = code.replace("float *a, int i) { a[i] += 1", "float POINTER(a, float), int i) { a[i] += 1")
    is_asked = (
        "name: y, dtype: float32, shape: [n], role: out}  # ? in, out or inout?"
        in drafted(tmp_path, tune, made, name="f.cl")[1]
    )
    assert is_asked == body.startswith("more"), "a macro makes the parameter"


# By what the host does: the file, and lines of its draft.
HOSTS = {
    "records, of which the host knows only the numbers": (
        "__global__ void f(float *path, const float *at, int n, int steps) "
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
        "for (int t = 0; t < steps; t++) { path[(i * steps + t) * 2] = at[3 * i] + at[i * 3 + 1];"
        "path[i * steps * 2 + t * 2 + 1] = at[i * 3 + 2]; } }"
        "void run(int n, int steps, int all) { float *p, *a; cudaMalloc(&p, n * all * 4); cudaMalloc(&a, n * 12);"
        "f<<<(n + 255) / 256, 256>>>(p, a, n, steps); }",
        ["name: path, dtype: float32, shape: [n, steps, 2]", "name: at, dtype: float32, shape: [n, 3]"],
    ),
    "an array that a call fills": (
        "__global__ void f(int *y, int n, int least, int most) "
        "{ if (blockIdx.x * 64 < n) atomicAdd(&y[0], blockIdx.y + least + most); }"
        "void run(int n) { unsigned range[2] = {7, 0}; cudaMemcpy(range, found, 8, cudaMemcpyDeviceToHost);"
        "f<<<dim3(n / 64, range[1] - range[0] + 1), 64>>>(y, n, range[0], range[1]); }",
        [", most - least + 1]"],
    ),
    "a macro that is the host's block": (
        "#define WIDE 64\n#define PER 4\n__global__ void f(float *y, int n) { __shared__ float s[WIDE];"
        "int t = threadIdx.x; s[t] = t;"
        "for (int i = blockIdx.x * blockDim.x * PER + t; i < n; i += blockDim.x) y[i] = s[t]; }"
        "void run(float *y, int n) { f<<<n / (WIDE * PER), WIDE>>>(y, n); }",
        ["block: [WIDE]\n"],
    ),
    "half of a macro": (
        "#define BLOCK_SIZE 512\n__global__ void f(float *y, int n) { __shared__ float s[BLOCK_SIZE];"
        "int t = threadIdx.x, i = blockIdx.x * 2 * blockDim.x + t; s[t] = s[t + blockDim.x] = i;"
        "if (i < n) y[i] = s[t]; }"
        "void run(float *y, int n) { f<<<(n + BLOCK_SIZE - 1) / BLOCK_SIZE, BLOCK_SIZE / 2>>>(y, n); }",
        ["block: [BLOCK_SIZE // 2]\n", "default: {BLOCK_SIZE: 512}", '{that: "BLOCK_SIZE % 2 == 0", because: '],
    ),
    "a number that is another size's": (
        "#define STEPS 50\n__global__ void f(float *y, const float *path, int n, int dim) { float seen[STEPS];"
        "for (int i = 0; i < n; i++) seen[i] = path[i * dim] + path[(n - 1) * dim + 1]; y[blockIdx.x] = seen[0]; }"
        "void run(float *y, int dim) { float *p; cudaMalloc(&p, STEPS * dim * sizeof(float));"
        "f<<<9, 32>>>(y, p, STEPS, dim); }",
        ["guess: path"],
    ),
    "a block that follows from a size": (
        "__global__ void f(float *y, int w) "
        "{ y[blockIdx.x * w + threadIdx.x] = y[blockIdx.x * w + threadIdx.x + blockDim.x]; }"
        "void run(float *y, int h, int w) { f<<<h, (w + 1) / 2>>>(y, w); }",
        ["# ? how many threads in x, y, z? host code computes them from sizes"],
    ),
    "fields of a struct by value": (
        "struct Params { int count; float dt; int width, mode; };"
        "__global__ void f(float *x, const float *map, Params p) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        "if (i >= p.count) return; for (int j = 0; j < p.width; j++) x[i] += p.dt * map[i * p.width + j] * p.mode; }"
        "void run(float *map, int n, int w) { Params q; q.count = n; q.width = w; float *x; cudaMalloc(&x, n * 4);"
        "f<<<(n + 255) / 256, 256>>>(x, map, q); }",
        ["name: x, dtype: float32, shape: [count]", "name: map, dtype: float32, shape: [count, width]",
         "grid: [ceil_div(count, block_size_x)]\n", "{name: count, dtype: int32}",
         "{name: mode, dtype: int32, value: 1}"],
    ),
    "a struct that is made where it is passed": (
        "struct Params { float dt; int count; float3 wind; int low[2]; };"
        "__global__ void f(float *x, const float *y, const int *at, Params p) "
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < p.count) x[i] = p.dt * y[at[i] * 2]; }"
        "void run(float *x, int *at, int n) { float *y; cudaMalloc(&y, (n + 1) * sizeof(float));"
        "f<<<(n + 255) / 256, 256>>>(x, y, at, Params{0.5f, n, make_float3(1, 2, -3), {n, 4}}); }",
        ['name: y, dtype: float32, shape: ["count + 1"]', "{name: dt, dtype: float32, value: 0.5}",
         "{name: wind, dtype: float3, value: [1, 2, -3]}", "shape: [2], value: [1, 1]}"],
    ),
    "a struct that begins in braces": (
        "struct Params { int low[2]; float dt; };"
        "__global__ void f(float *x, Params p) { x[blockIdx.x] = p.low[0] * p.dt; }"
        "void run(float *x) { const float step = 0.25f; Params q = {{5, 6}, step};"
        "f<<<9, 32>>>(x, q); f<<<9, 32>>>(x, q); }",
        ["shape: [2], value: [5, 6]}", "{name: dt, dtype: float32, value: 0.25}"],
    ),
    "a struct that a function may change": (
        "struct Params { int low[2]; float dt; };"
        "__global__ void f(float *x, Params p) { x[blockIdx.x] = p.low[0] * p.dt; }"
        "void run(float *x) { Params q = {{5, 6}, 0.25f}; refine(q, 3); f<<<9, 32>>>(x, q); }",
        ["shape: [2], value: [1, 1]}", "{name: dt, dtype: float32}", "options: {dt: 1.0}"],
    ),
    "a struct without the braces of its array": (
        "struct Params { int low[2]; float dt; };"
        "__global__ void f(float *x, Params p) { x[blockIdx.x] = p.low[0] * p.dt; }"
        "void run(float *x) { f<<<9, 32>>>(x, Params{5, 6}); }",
        ["shape: [2], value: [1, 1]}", "{name: dt, dtype: float32}", "options: {dt: 1.0}"],
    ),
    "a template parameter that is an extent": (
        "template <int DIM, int ROWS> __global__ void f(float *o, const float *q, int length) "
        "{ int row = blockIdx.x * ROWS + threadIdx.y, head = blockIdx.y; if (row >= length) return;"
        "const float *mine = q + ((size_t)head * length + row) * DIM;"
        "for (int d = threadIdx.x; d < DIM; d += 32) o[((size_t)head * length + row) * DIM + d] = mine[d]; }"
        "void run(float *o, float *q, int heads, int length) "
        "{ f<64, 4><<<dim3((length + 3) / 4, heads), dim3(32, 4)>>>(o, q, length); }",
        ["name: o, dtype: float32, shape: [heads, length, 64]", "name: q, dtype: float32, shape: [heads, length, 64]",
         "  DIM: [64]  # no knob: an extent of an argument\n  ROWS: [1, 2, 4, 8, 16]\n",
         "grid: [ceil_div(length, ROWS), heads]\n"],
    ),
    "an array of one instance, of which there are others": (
        "template <int R> __global__ void f(float *y, const float *w, int n) { float s = 0;"
        "for (int i = 0; i < R; i++) s += w[i]; y[blockIdx.x] = s; }"
        "void run(float *y, int n) { float *w; cudaMalloc(&w, 5 * sizeof(float));"
        "f<5><<<n, 32>>>(y, w, n); f<7><<<n, 32>>>(y, unknown, n); }",
        ["guess: w"],
    ),
    "an array of the blocks that one of them adds up": (
        "__global__ void f(float *y, const float *x, float *part, int n) "
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) part[blockIdx.x] = x[i];"
        "if (last()) for (int k = 0; k < gridDim.x; k++) *y += part[k]; }"
        "void run(float *y) { float *x, *p; cudaMalloc(&x, 4096); cudaMalloc(&p, 256 * sizeof(float));"
        "f<<<4, 256>>>(y, x, p, 1024); }",
        ['name: part, dtype: float32, shape: ["ceil_div(n, block_size_x)"]'],
    ),
    "a size of the host's own numbers": (
        "#define TILE 16\n__global__ void f(float *y, int w) "
        "{ y[(blockIdx.y * TILE + threadIdx.y) * w + blockIdx.x * TILE + threadIdx.x] = TILE; }"
        "void run(int w) { float *y; cudaMalloc(&y, 20 * TILE * TILE * sizeof(float));"
        "f<<<dim3(5, 4), dim3(TILE, TILE)>>>(y, w); }",
        ["guess: y"],
    ),
    "one block of two axes, whose product a size bounds": (
        "__global__ void f(int *y, int w, int h) "
        "{ int i = threadIdx.y * blockDim.x + threadIdx.x; if (i < w * h) y[i] = i; }"
        "void run(int *y) { f<<<1, dim3(8, 8)>>>(y, 8, 8); }",
        ["# ? how many blocks in x, y, z?", "block: [block_size_x, 8]"],
    ),
    "one block of a fixed number of elements": (
        "#define N 10\n__global__ void f(int *y, int *x) { int t = threadIdx.x; if (t < N) y[t] = x[t]; }"
        "void run(int *y, int *x) { f<<<1, N>>>(y, x); }",
        ["grid: [1]\nblock: [10]\n", "name: x, dtype: int32, shape: [10]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTS)
def test_a_draft_of_a_file_with_its_host(what: str, tmp_path: Path, tune: Tune) -> None:
    code, lines = HOSTS[what]
    _, text = drafted(tmp_path, tune, code)
    assert [line for line in lines if line not in text] == []


def test_the_dynamic_memory_of_one_kernel_is_not_that_of_another(tmp_path: Path, tune: Tune) -> None:
    index = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)"
    code = f"""
    __device__ float *own() {{ extern __shared__ float whole[]; return whole; }}
    __global__ void a(float *y, int n) {{ extern __shared__ float part[]; part[0] = n; {index} y[i] = part[0]; }}
    __global__ void b(float *y, int n) {{ {index} y[i] = n; }}"""
    assert "shared_memory" in drafted(tmp_path, tune, code, "--entry", "a")[1]
    without = code.replace(code.splitlines()[1], "")
    assert "shared_memory" not in drafted(tmp_path, tune, without, "--entry", "b")[1]
    called = code.replace("y[i] = n", "y[i] = own()[0]")
    assert "shared_memory" in drafted(tmp_path, tune, called, "--entry", "b")[1]


def test_a_type_is_that_of_the_branch_that_a_plain_build_has(tmp_path: Path, tune: Tune) -> None:
    code = """
    #ifndef SINGLE
    #ifndef DOUBLE
    #define SINGLE
    #endif
    #endif
    #ifdef SINGLE
    typedef float real;
    #else
    typedef double real;
    #endif
    __global__ void f(real *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = i; }
    """.replace("\n    ", "\n")
    assert "dtype: float32" in drafted(tmp_path, tune, code)[1]
    assert "dtype: float64" in drafted(tmp_path, tune, code.replace("#ifdef SINGLE", "#if !defined(SINGLE)"))[1]
    of_compiler = code.replace("#ifdef SINGLE", "#if MAXIMUM(3) > 2")
    assert "its type is real: which dtype is it?" in drafted(tmp_path, tune, of_compiler)[1]


def test_types_of_cuda_for_complex_numbers_are_known(tmp_path: Path, tune: Tune) -> None:
    code = "__global__ void f(cuDoubleComplex *y) { y[blockIdx.x * blockDim.x + threadIdx.x].x = 1; }"
    assert "complex128" in drafted(tmp_path, tune, code)[1]


def test_of_several_numbers_and_types_of_a_header_those_of_a_plain_build_count(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "sets.h").write_text("""
#if !defined(MINI) && !defined(LARGE)
#  define STANDARD
#endif
#ifndef N
#  ifdef MINI
#define N 100
#  endif
#  ifdef STANDARD
#define N 4000
#  endif
#  ifdef LARGE
#define N 64000
#  endif
#endif
#ifndef REAL
#  define REAL double
#  define FORMAT "%lf"
#endif
""")
    head = '#include "sets.h"\n__global__ void f(REAL *y)'
    data, text = drafted(tmp_path, tune, f"{head} {{ int i = blockIdx.x * 64 + threadIdx.x; if (i < N) y[i] = 1; }}")
    assert (data["operation"]["sizes"], data["operation"]["arguments"][0]["dtype"]) == ({"N": 4000}, "float64")
    assert "which dtype" not in text


def test_what_a_build_gives_to_a_file_in_opencl_is_in_the_draft(tmp_path: Path, tune: Tune) -> None:
    """A type that nothing defines, and a number that another kernel alone reads: the whole file is compiled."""
    code = """
    __kernel void f(__global real *y, real c, int n) { int i = get_global_id(0); if (i < n) y[i] = c; }
    __kernel void g(__global float *y) {
        float a[EACH];
        Log *log = 0;
        for (int i = 0; STEP * i < 8; i++) y[get_global_id(0)] = a[0];
    }
    """
    data, text = drafted(tmp_path, tune, code, "--entry", "f", name="f.cl")
    assert data["operation"]["types"] == {"real": ["float32", "float64"]}
    assert "dtype: real, shape: [n]" in text
    assert "which dtype" not in text
    for name in ("EACH", "STEP"):
        assert f"{name}: [1]  # no knob: only other kernels of the file read it" in text
    known = code.replace("__kernel void f", "typedef struct { int a; } real;\n__kernel void f")
    assert "types:" not in drafted(tmp_path, tune, known, "--entry", "f", name="f.cl")[1]
