"""What `tune new` reads from the host code around a kernel: sizes of arrays and of the problem, grids, blocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.drafts import guessed
from helpers.processes import Tune
from tuner.space.file.yamlfile import read

# Indices of no array tell its extent, and the grid follows from no bound.
KERNEL = """
__global__ void f(float *y, const float *x, const int *k, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = k[i]; j < k[i + 1]; j++) y[k[j] + 1] = x[3 * j + n % 5];
}
"""
# By the idiom: the host code; shapes of y, x and k; grid; default of the block; sizes that the draft has
SAID: dict[str, tuple[str, list[list[Any]], list[Any] | None, int, dict[str, int | None]]] = {
    "sizes in bytes": (
        "int main(int argc, char **argv) { int n = atoi(argv[1]); size_t bytes = n * sizeof(float);"
        " cudaMalloc((void **)&y, bytes); cudaMalloc(&x, 3 * bytes); cudaMallocManaged(&k, sizeof(int) * (n + 1));"
        " f<<<(n + 127) / 128, 128>>>(y, x, k, n); }",
        [["n"], ["3 * n"], ["n + 1"]], ["ceil_div(n, block_size_x)"], 128, {"n": None},
    ),
    "a name of its own for each": (
        "const int threads = 192;\nint main() { int rows = read(), cols = read();"
        " CHECK(cudaMalloc(&d_y, rows * cols * 4)); d_x = gpuMalloc<float>(rows);"
        " float *d_x; cudaMalloc(&d_x, rows * sizeof(*d_x)); int *d_k; cudaMalloc(&d_k, (rows + 1) * sizeof(int));"
        " dim3 block(threads), grid((rows + threads - 1) / threads); f<<<grid, block>>>(d_y, d_x, d_k, rows); }",
        [["cols * n"], ["n"], ["n + 1"]], ["ceil_div(n, block_size_x)"], 192, {"cols": None, "n": None},
    ),
    "a function that launches": (
        "void run(float *y, float *x, int *k, int m) { int blocks = m / 64; if (m % 64) blocks++;"
        " f<<<m / 64 + (m % 64 != 0), 64, 0, stream>>>(y, x, k, m); }\n"
        "int main() { int count = read(); float *a, *b; int *c; hipMalloc(&a, count * sizeof(float));"
        " hipMalloc(&b, 2 * count * sizeof(float)); hipMalloc(&c, sizeof(int) * (1 + count)); run(a, b, c, count); }",
        [["n"], ["2 * n"], ["n + 1"]], ["ceil_div(n, block_size_x)"], 64, {"n": None},
    ),
    "objects, vectors and members": (
        "struct Data { float *y; int n; }; void init(Data *d) { cudaMalloc(&d->y, d->n * sizeof(float)); }\n"
        "int up(int a, int b) { return (a + b - 1) / b; }\n"
        "void go(Data *d) { thrust::device_vector<float> v(d->n); std::vector<int> w(4 * d->n); init(d); dim3 grid(1);"
        " grid.x = up(d->n, 256);"
        " f<<<grid, dim3(256, 1, 1)>>>(d->y, thrust::raw_pointer_cast(v.data()), w.data(), d->n); }",
        [["n"], ["n"], ["4 * n"]], ["ceil_div(n, block_size_x)"], 256, {"n": None},
    ),
    "numbers with names": (
        "#define POINTS 4096\n#define BLOCK 96\nint main() { new_t *unused = 0; float *y = new float[POINTS];"
        " float *x = (float *)malloc(POINTS * sizeof(float)); int *k = (int *)calloc(POINTS + 1, sizeof(int));"
        " hipLaunchKernelGGL(f, dim3((int)ceil((float)POINTS / BLOCK)), dim3(BLOCK), 0, 0, y, x, k, 7); }",
        [["POINTS"], ["POINTS"], ["POINTS + 1"]], ["ceil_div(POINTS, block_size_x)"], 96, {"POINTS": 4096, "n": None},
    ),
    "a template's argument and a limited grid": (
        "int main() { int n = read(); int blocks = std::min((n - 1) / 32 + 1, 65535); alloc(&y, n * sizeof(float));"
        " cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&k, n * sizeof(int)); f<<<blocks, 32>>>(y, x, k, n); }",
        [["n"], ["n"], ["n"]], ["ceil_div(n, block_size_x)"], 32, {"n": None},
    ),
}  # fmt: skip


def drafted(folder: Path, tune: Tune, code: str, *options: str) -> tuple[dict[str, Any], str]:
    (folder / "f.cu").write_text(code)
    (folder / "f.yaml").unlink(missing_ok=True)
    done = tune("new", folder / "f.cu", *options)
    assert done.status == 0, done.err
    return read(folder / "f.yaml").data, (folder / "f.yaml").read_text()


@pytest.mark.parametrize("what", SAID)
def test_host_code_says_what_indices_do_not(what: str, tmp_path: Path, tune: Tune) -> None:
    host, shapes, grid, threads, sizes = SAID[what]
    data, text = drafted(tmp_path, tune, KERNEL + host)
    arrays = [a["shape"] for a in data["operation"]["arguments"] if "shape" in a]
    assert (arrays, data["grid"], guessed(text)) == (shapes, grid, [])
    assert data["default"] == {"block_size_x": threads}
    assert data["operation"]["sizes"] == sizes


# What the host code leaves open, and which arrays stay guesses
LEFT: dict[str, tuple[str, list[str]]] = {
    "two launches that disagree": (
        "void a() { int n = read(); cudaMalloc(&y, n * 4); f<<<n, 32>>>(y, 0, 0, n); }\n"
        "void b() { int n = read(); cudaMalloc(&z, n * 8); f<<<n, 32>>>(z, 0, 0, n); }", ["y", "x", "k"],
    ),
    "a part of an array": ("void a() { int n = read(); cudaMalloc(&y, n * 4); f<<<n, 32>>>(y + 8, 0, 0, n); }", ["y"]),
    "a size that is a pointer": (
        "void a(int *b, int *e) { cudaMalloc(&y, (e - b) * 4); f<<<8, 32>>>(y, 0, 0, 7); }", ["y"],
    ),
    "a size that changes in between": (
        "void a() { int n = read(); cudaMalloc(&y, n * 4); n = read(); f<<<n, 32>>>(y, 0, 0, n); }", [],
    ),
    "an array that is allocated twice": (
        "void a(int n) { cudaMalloc(&y, n * 4); cudaFree(y); cudaMalloc(&y, n * 8); f<<<n, 32>>>(y, 0, 0, n); }", ["y"],
    ),
    "one number for two sizes": (
        "void a() { cudaMalloc(&y, 100 * 4); f<<<8, 32>>>(y, 0, 0, 100); }", ["y"],
    ),
    "as many as the device has processors": (
        "void a(cudaDeviceProp p) { cudaMalloc(&y, p.multiProcessorCount * 4); f<<<1, 32>>>(y, 0, 0, 9); }", ["y"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_of_host_code_that_is_unclear_nothing_is_concluded(what: str, tmp_path: Path, tune: Tune) -> None:
    host, guesses = LEFT[what]
    data, text = drafted(tmp_path, tune, KERNEL + host)
    assert {*guesses} <= {*guessed(text)}
    if "changes" in what:
        shape = data["operation"]["arguments"][0]["shape"]
        assert shape != ["n"] or "y" in guessed(text), "the kernel gets another number than the allocation"


def test_blocks_that_a_called_function_reads_and_the_host_leaves_unclear_are_asked_for(
    tmp_path: Path, tune: Tune
) -> None:
    code = """
    __device__ void rows(float *y, const float *x, const int n, const int m) {
        for (auto i = blockIdx.y; i < n; i += gridDim.y)
            for (int j = threadIdx.x; j < m; j += blockDim.x) y[i * m + j] = 2 * x[i * m + j];
    }
    __global__ void f(float *y, const float *x, const int n, const int m) { rows(y, x, n, m); }
    void run(float *y, const float *x, int n, int m) {
        const unsigned long most = limit(device);
        const dim3 threads(32, 4, 1);
        const dim3 blocks(1, std::min((unsigned long)n, most), 1);
        f<<<blocks, threads>>>(y, x, n, m);
    }
    """
    _, text = drafted(tmp_path, tune, code)
    assert re.search(r"^grid: .*# \? how many blocks", text, re.MULTILINE), "one block in y would be a guess"


def test_where_indices_know_the_dimensions_host_code_only_completes_them(tmp_path: Path, tune: Tune) -> None:
    kernel = """
    #define TILE 16
    __global__ void f(float *y, const float *x, int cols) {
        int c = blockIdx.x * TILE + threadIdx.x, r = blockIdx.y;
        if (c < cols) y[r * cols + c] = x[r * cols + c];
    }
    """
    host = """
    void run(int height, int width) {
        float *a, *b;
        cudaMalloc(&a, width * height * sizeof(float));
        cudaMalloc(&b, width * height * sizeof(float));
        dim3 block(TILE, 1), grid;
        grid.x = (width + TILE - 1) / TILE;
        grid.y = height;
        f<<<grid, block>>>(a, b, width);
    }
    """
    data, text = drafted(tmp_path, tune, kernel + host)
    assert [a.get("shape") for a in data["operation"]["arguments"]] == [["height", "cols"], ["height", "cols"], None]
    assert data["operation"]["sizes"] == {"height": None, "cols": None}
    assert (data["grid"], data["block"]) == (["ceil_div(cols, TILE)", "height"], ["TILE"])
    assert "as in the host code; no kernel takes it" in text


def test_a_scalar_that_follows_from_sizes_gets_its_value(tmp_path: Path, tune: Tune) -> None:
    host = """
    void run(int count) {
        cudaMalloc(&y, count * sizeof(float));
        cudaMalloc(&x, count * sizeof(float));
        cudaMalloc(&k, count * sizeof(int));
        f<<<count / 64, 64>>>(y, x, k, count / 4);
    }
    """
    data, text = drafted(tmp_path, tune, KERNEL + host)
    assert data["operation"]["sizes"] == {"count": None}
    assert data["operation"]["arguments"][3] == {"name": "n", "dtype": "int32", "value": "count // 4"}
    (tmp_path / "f.yaml").write_text(re.sub(r"  # \? .*", "", text).replace("reference:\n", "reference: none\n", 1))
    assert tune("validate", tmp_path / "f.yaml").status == 0


def test_a_file_beside_the_kernel_may_launch_it(tmp_path: Path, tune: Tune) -> None:
    """Another program with a kernel of the same name says nothing."""
    host, shapes, *_ = SAID["sizes in bytes"]
    (tmp_path / "main.cpp").write_text(host)
    (tmp_path / "other.cu").write_text(KERNEL + host.replace("3 * bytes", "5 * bytes"))
    data, _ = drafted(tmp_path, tune, KERNEL)
    assert [a["shape"] for a in data["operation"]["arguments"] if "shape" in a] == shapes


def test_headers_in_another_folder_are_found_there_and_named_in_the_space(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common/tile.cuh").write_text("#pragma once\n#define TILE 64\n")
    (tmp_path / "common/run.cu").write_text(SAID["sizes in bytes"][0])
    code = '#include "tile.cuh"\n' + KERNEL.replace("n % 5", "n % TILE")
    data, text = drafted(tmp_path, tune, code, "--include", str(tmp_path / "common"))
    assert (data["include"], data["parameters"]["TILE"]) == (["common"], [16, 32, 64, 128, 256])
    assert [a["shape"] for a in data["operation"]["arguments"] if "shape" in a] == SAID["sizes in bytes"][1]
    (tmp_path / "f.yaml").write_text(re.sub(r"  # \? .*", "", text).replace("reference:\n", "reference: none\n", 1))
    assert tune("validate", tmp_path / "f.yaml").status == 0


OPENCL = "__kernel void f(__global float *y, int n) { int i = get_global_id(0); if (i < n) y[i] = 2; }"


@pytest.mark.parametrize(
    ("suffix", "code", "language"),
    [
        ("cuh", KERNEL, "cuda"), ("hip", KERNEL, "cuda"), ("h", KERNEL, "cuda"), ("opencl", OPENCL, "opencl"),
        ("clh", OPENCL, "opencl"), ("h", OPENCL, "opencl"),
    ],
)  # fmt: skip
def test_a_suffix_of_several_languages_is_declared(
    suffix: str, code: str, language: str, tmp_path: Path, tune: Tune
) -> None:
    (tmp_path / f"f.{suffix}").write_text(code)
    assert tune("new", tmp_path / f"f.{suffix}").status == 0
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    assert (data["source"], data["languages"]) == (f"f.{suffix}", [language])
    (tmp_path / "f.yaml").write_text(re.sub(r"  # \? .*", "", text).replace("reference:\n", "reference: none\n", 1))
    assert tune("validate", tmp_path / "f.yaml").status == 0


def test_a_block_beyond_every_device_is_drafted_smaller(tmp_path: Path, tune: Tune) -> None:
    code = """
    #define BX 64
    #define BY 64
    __global__ void f(float *y, int w, int h) {
        int i = blockIdx.x * BX + threadIdx.x, j = blockIdx.y * BY + threadIdx.y;
        if (i < w && j < h) y[j * w + i] = 1;
    }
    """
    data, text = drafted(tmp_path, tune, code)
    assert data["block"] == ["BX", "BY"]
    assert data["default"] == {"BX": 32, "BY": 32}
    assert "a block has at most 1024 threads, but with the source's numbers 4096: which are right?" in text


def test_an_array_of_structs_is_an_array_of_their_bytes(tmp_path: Path, tune: Tune) -> None:
    """As C lays them out, with the host's number of elements, and with code that makes inputs; one with a pointer is a
    question."""
    code = """
    #define K 3
    struct Point { char kind; double at[K]; float2 speed; };
    struct Cell { Point first; short count; };
    struct Node { Node *next; int key; };
    __global__ void f(Cell *cells, const Point *points, const Node *nodes, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) cells[i].count = points[i].kind + nodes[i].key;
    }
    """
    data, text = drafted(tmp_path, tune, code)
    arrays = [(a["dtype"], a["shape"]) for a in data["operation"]["arguments"] if "shape" in a]
    assert arrays == [("uint8", ["n", 48]), ("uint8", ["n", 40]), ("uint8", ["n"])]
    assert "its elements are of Point: which bytes? such as fill: {python: data.py:make}" in text
    assert "its elements are of Node, a struct with the pointer next: let a first step write them, as" in text
    names: dict[str, Any] = {}
    exec("\n".join(line[4:] for line in text.partition("# The beginning of data.py")[2].splitlines()[1:]), names)
    made = names["make"](None, n=5)
    assert {name: (array.dtype, array.shape) for name, array in made.items()} == {"points": ("uint8", (5, 40))}
    assert {name: names["Point"].fields[name][1] for name in names["Point"].names} == {"kind": 0, "at": 8, "speed": 32}
    (tmp_path / "f.yaml").write_text(re.sub(r"  # \? .*", "", text).replace("reference:\n", "reference: none\n", 1))
    assert tune("validate", tmp_path / "f.yaml").status == 0


@pytest.mark.parametrize(
    "host",
    [
        "Grid g; g.out = a; g.in = b; g.at = c; g.n = n; f<<<n / 128, 128>>>(g);",
        "Grid g = {a, b, c, n}; f<<<n / 128, 128>>>(g);",
    ],
)
def test_the_host_says_the_extents_of_arrays_in_a_struct(host: str, tmp_path: Path, tune: Tune) -> None:
    code = f"""
    struct Grid {{ float *out; const float *in; int *at; int n; }};
    __global__ void f(Grid g) {{ int i = blockIdx.x * 128 + threadIdx.x; if (i < g.n) g.out[i] = g.in[g.at[i]]; }}
    int main() {{
        int n = 1000, m = 50; float *a, *b; int *c;
        cudaMalloc(&a, n * sizeof(float)); cudaMalloc(&b, m * sizeof(float)); cudaMalloc(&c, n * sizeof(int));
        {host}
    }}
    """
    data, text = drafted(tmp_path, tune, code)
    arrays = {a["name"]: (a["shape"], a.get("fill")) for a in data["operation"]["arguments"] if "shape" in a}
    assert arrays == {"out": (["n"], None), "g_in": (["m"], None), "at": (["n"], {"integers": [0, "m - 1"]})}
    assert "guess" not in text


def test_buffers_and_arguments_of_opencl_say_extents(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.cl").write_text(
        "__kernel void f(__global float *y, __global const int *k, int n) { y[k[get_global_id(0)]] = n % 3; }"
    )
    (tmp_path / "host.c").write_text("""
    void run(cl_context c, cl_program p, cl_command_queue q, int rows, int cols) {
        cl_int error;
        cl_kernel kernel = clCreateKernel(p, "f", &error), other = clCreateKernel(p, "g", &error);
        cl_mem y = clCreateBuffer(c, CL_MEM_READ_WRITE, rows * cols * sizeof(cl_float), NULL, &error);
        cl_mem k = clCreateBuffer(c, CL_MEM_READ_ONLY, sizeof(int) * cols, NULL, &error);
        clSetKernelArg(other, 0, sizeof(cl_mem), &k);
        clSetKernelArg(kernel, 0, sizeof(cl_mem), (void *)&y);
        clSetKernelArg(kernel, 1, sizeof(cl_mem), &k);
        clSetKernelArg(kernel, 2, sizeof(int), &cols);
    }
    """)
    assert tune("new", tmp_path / "f.cl").status == 0
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    assert [a["shape"] for a in data["operation"]["arguments"] if "shape" in a] == [["n * rows"], ["n"]]
    assert (guessed(text), data["operation"]["sizes"]) == ([], {"rows": None, "n": None})


def test_a_number_in_the_kernel_is_no_extent_where_the_host_allocates_another(tmp_path: Path, tune: Tune) -> None:
    kernel = """
    __global__ void f(float *y, const float *x) {
        int i = blockIdx.x * 64 + threadIdx.x;
        if (i < 7) y[i] = x[0];
    }
    """
    host = """
    int main() {
        const int length = 4096;
        cudaMalloc(&y, length * sizeof(float));
        f<<<length / 64, 64>>>(y, x);
    }
    """
    data, _ = drafted(tmp_path, tune, kernel + host)
    assert data["operation"]["arguments"][0]["shape"] == ["length"]
    assert data["operation"]["sizes"]["length"] == 4096


def test_a_block_that_a_template_is_told_has_the_size_of_its_parameters(tmp_path: Path, tune: Tune) -> None:
    code = """
    template <int bx, int by> __global__ void f(float *y, const float *x, int w) {
        __shared__ float part[bx * by];
        part[threadIdx.y * bx + threadIdx.x] = x[threadIdx.x];
        y[blockIdx.y * w + blockIdx.x] = part[0];
    }
    void run(int w, int h) {
        dim3 blocks(w, h), threads(32, 6);
        f<32, 6><<<blocks, threads>>>(y, x, w);
    }
    """
    data, _ = drafted(tmp_path, tune, code)
    assert (data["block"], data["default"]) == (["bx", "by"], {"bx": 32, "by": 6})


def test_what_the_host_says_of_blocks_and_bytes_is_read_as_c_means_it(tmp_path: Path, tune: Tune) -> None:
    """A block by a macro that a dim3 reads, another block than strides seem to tell, the bytes of an array of the host,
    and a pointer that moves."""
    code = """
    #define THREADS 192
    __global__ void f(float *y, const float *x, const float *w, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[2 * i + threadIdx.y] = x[i % 7] + w[i % 5 - 1];
    }
    int main(int argc, char **argv) {
        int n = atoi(argv[1]);
        float rates[24], *y, *x, *w;
        dim3 grid((n + THREADS - 1) / THREADS);
        cudaMalloc(&y, 2 * n * sizeof(float));
        cudaMalloc(&x, sizeof(rates));
        cudaMalloc(&w, n * sizeof(float));
        w++;
        f<<<grid, THREADS>>>(y, x, w, n);
    }
    """
    data, text = drafted(tmp_path, tune, code)
    assert [a.get("shape") for a in data["operation"]["arguments"]][:2] == [["2 * n"], [24]]
    assert guessed(text) == ["w"]
    assert (data["grid"], data["block"]) == (["ceil_div(n, block_size_x)"], ["block_size_x"])
    assert data["default"] == {"block_size_x": 192}


def test_a_block_with_names_is_no_number_of_the_host(tmp_path: Path, tune: Tune) -> None:
    code = """
#define BX 32
#define BY 8
#ifndef SHARED
#define SHARED 1
#endif
__global__ void __launch_bounds__(BX *BY, 4) f(float *out, const float *in, int pitch, int w, int h) {
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
#if SHARED
    __syncthreads();
#endif
    if (x < w && y < h) out[(y + 2) * pitch + x + 2] = in[(y + 2) * pitch + x + 2];
}
int main() {
    int w = read(), h = read(), pitch = (w + 35) / 32 * 32;
    cudaMalloc(&out, pitch * (h + 4) * sizeof(float));
    cudaMalloc(&in, pitch * (h + 4) * sizeof(float));
    f<<<dim3((w + BX - 1) / BX, (h + BY - 1) / BY), dim3(BX, BY)>>>(out, in, pitch, w, h);
}
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["parameters"]["SHARED"] == [0, 1]  # only a condition
    assert text.count("  # ? ") == 1  # what is computed: no question about blocks or launch bounds
    shapes = [argument["shape"] for argument in data["operation"]["arguments"][:2]]
    assert "BX" not in str(shapes)
    assert [each["that"] for each in data["restrictions"]] == ["(BX * BY) * 4 <= 2048"], "or the bounds are ignored"


def test_fields_of_a_struct_have_the_numbers_that_the_host_assigns(tmp_path: Path, tune: Tune) -> None:
    """A real field that gets several numbers, or an expression, is an option; of another one, the draft asks."""
    code = """
struct Range { float low, high, weight; int n; };
__global__ void f(float *y, const float *x, Range r) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < r.n) y[i] = r.low + (r.high - r.low) * x[i] * r.weight;
}
void run(float *y, const float *x, int n) {
    Range r; r.low = -2.5f; r.high = 4.0f; r.weight = 3; r.n = n;
    f<<<(n + 255) / 256, 256>>>(y, x, r);
}
"""
    data, text = drafted(tmp_path, tune, code)
    fields = {field["name"]: field.get("value") for field in data["operation"]["arguments"][2]["fields"]}
    assert fields == {"low": -2.5, "high": 4.0, "weight": 3, "n": None}
    assert "# ? which value" not in text
    data, text = drafted(tmp_path, tune, code.replace("r.n = n;", "r.n = n; if (n > 9) r.weight = 4;"))
    assert [field.get("value") for field in data["operation"]["arguments"][2]["fields"]] == [-2.5, 4.0, None, None]
    assert (data["operation"]["options"], "# ? which value" in text) == ({"weight": 1.0}, False)
    data, text = drafted(tmp_path, tune, code.replace("r.weight = 3;", "if (n > 9) r.weight = 3;"))
    assert [field.get("value") for field in data["operation"]["arguments"][2]["fields"]] == [-2.5, 4.0, None, None]
    data, _ = drafted(tmp_path, tune, code.replace("r.n = n;", "r.n = 4096;"))
    assert data["operation"]["sizes"] == {"n": 4096}
    _, text = drafted(tmp_path, tune, code.replace("r.weight = 3;", "r.weight = 1;"))
    assert "# ? which value" not in text


def test_a_loop_that_swaps_the_arrays_of_a_struct_is_no_repetition(tmp_path: Path, tune: Tune) -> None:
    code = """
    struct Grid { float *next, *now; int n; };
    __global__ void f(Grid g) {
        int i = blockIdx.x * 128 + threadIdx.x;
        if (i > 0 && i < g.n - 1) g.next[i] = g.now[i - 1] + g.now[i + 1];
    }
    int main() {
        Grid g;
        for (int t = 0; t < 100; t++) { f<<<8, 128>>>(g); std::swap(g.next, g.now); }
    }
    """
    _, text = drafted(tmp_path, tune, code)
    assert "# ? the host launches it in a loop, `for (int t = 0; t < 100; t++)`: is the whole loop the" in text
    assert "#     swap: [next, now]" in text


@pytest.mark.parametrize("is_apart", [False, True])
def test_calls_of_a_kernel_in_c_say_what_the_host_passes(is_apart: bool, tmp_path: Path, tune: Tune) -> None:
    """Also from a function in another file. `TILE`, which the kernel's function reads, is no number of the host."""
    kernel = """
#define TILE 64
typedef struct { double rate, decay; int mode; } rule;
static double part(const double *x, int i) { return TILE > 1 ? x[i] : 0; }
void spread(double *restrict y, const double *restrict x, int rows, int cols, rule r, double scale) {
    for (int jj = 1; jj < cols - 1; jj += TILE)
        for (int i = 1; i < rows - 1; i++)
            for (int j = jj; j < jj + TILE && j < cols - 1; j++)
                y[i * cols + j] = scale * (part(x, i * cols + j - 1) + r.rate * x[i * cols + j + 1]) - r.decay;
}
"""
    host = """
static void step(double *y, const double *x, int n, double by) {
    rule r = {.decay = 0.125, .rate = -1.5};
    for (int t = 0; t < 5; t++) spread(y, x, n, n, r, by);
}
int main(void) { int n = 512; double *x = malloc(n * n * 8), *y = calloc(n * n, 8); step(y, x, n, 0.25); }
"""
    (tmp_path / "main.c").write_text(host if is_apart else "")
    (tmp_path / "f.c").write_text(kernel if is_apart else kernel + host)
    assert tune("new", tmp_path / "f.c").status == 0
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    assert data["operation"]["options"] == {"scale": 0.25}
    assert {"name: rate, dtype: float64, value: -1.5", "name: decay, dtype: float64, value: 0.125"} <= {
        *re.findall(r"name: \w+, dtype: float64, value: [-.\d]+", text)
    }
    assert data["parameters"] == {"TILE": [16, 32, 64, 128, 256]}
    assert "the host calls it in `for (int t = 0; t < 5; t++)`, which repeats the same" in text


@pytest.mark.parametrize(
    ("made", "loop", "is_kept"),
    [
        ("calloc(n, 4)", "for (int i = 1; i < n - 1; i++) y[i] = x[i];", True),
        ("malloc(4 * n); memset(y, 0, 4 * n)", "for (int i = 1; i < n - 1; i++) { int c = i; y[c] = x[i]; }", True),
        ("malloc(4 * n)", "for (int i = 0; i < n; i++) { if (i == 0 || i > n - 2) continue; y[i] = x[i]; }", True),
        ("malloc(4 * n)", "for (int i = 0; i < n; i++) if (1 <= i && i < n - 1) y[i] = x[i];", True),
        ("malloc(4 * n)", "for (int i = 0; i < n; i++) if (0 <= i && i < n) y[i] = x[i];", False),
        ("malloc(4 * n)", "for (int i = 1; i <= n; i++) y[i - 1] = x[i - 1];", False),
        ("malloc(4 * n)", "for (int i = 1; i <= n; i++) { int k = i - 1; y[k] = x[k]; }", False),
        ("malloc(4 * n)", "for (int i = 1; i <= n; i++) y[n - i] = x[i - 1];", False),
        ("malloc(4 * n)", "for (int d = 1; d < n; d *= 2) for (int k = 0; k < n / d; k++) y[k * d] = x[k];", False),
        ("malloc(4 * n)", "y[0] = x[0]; for (int i = 1; i < n; i++) y[i] = x[i];", False),
        ("malloc(4 * n)", "for (int i = 0; i < n; i++) if (i > 0) y[i] = x[i]; else y[i] = x[n - 1];", False),
        ("malloc(4 * n)", "for (int i = 0; i < n; i++) { y[i] = 0; for (int k = 1; k < 9; k++) y[i] = x[i]; }", False),
    ],
)  # fmt: skip
def test_a_border_that_a_loop_leaves_keeps_zeros(
    made: str, loop: str, is_kept: bool, tmp_path: Path, tune: Tune
) -> None:
    (tmp_path / "f.c").write_text(
        f"void f(float *y, const float *x, int n, int tile) {{ {loop} }}\n"
        f"int main() {{ int n = read(); float *x = load(n), *y = {made}; f(y, x, n, 8); }}"
    )
    assert tune("new", tmp_path / "f.c").status == 0
    assert ("role: inout, fill: zeros" in (tmp_path / "f.yaml").read_text()) == is_kept
