"""`tune new` reads launches where programs have them: in methods, through members, under names that macros give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.drafts import guessed
from helpers.processes import Tune
from tuner.space.file.yamlfile import read

SCATTER = (
    "__global__ void f(float *y, const float *x, const int *k, int n) {{ {i} if (k[i]) y[k[i]] = x[k[i]] * n; }}\n"
)
KERNEL = SCATTER.format(i="int i = blockIdx.x * blockDim.x + threadIdx.x;")
BUFFERS = "cudaMalloc(&y, n * 4); cudaMalloc(&x, n * 4); cudaMalloc(&k, n * 4);"
LAUNCH = "f<<<(n + 127) / 128, 128>>>(y, x, k, n);"
MEMBERS = "struct Run { float *y, *x; int *k; int count; int blocks; dim3 grid;"


def drafted(
    folder: Path, tune: Tune, code: str, host: str = "", suffix: str = ".cu", entry: str = ""
) -> tuple[Any, str]:
    source = folder / f"f{suffix}"
    source.write_text(code)
    (folder / "host.cpp").write_text(host)
    assert tune("new", source, *(["--entry", entry] if entry else [])).status == 0
    return read(folder / "f.yaml").data, (folder / "f.yaml").read_text()


HOST = {
    "a constant method": f"{MEMBERS} void run(int n) const {{ {BUFFERS} {LAUNCH} }} }};",
    "one outside of its class": (
        f"{MEMBERS} void run(int) noexcept; }};\nvoid Run::run(int n) noexcept {{ {BUFFERS} {LAUNCH} }}"
    ),
    "a constructor": f"{MEMBERS} Run(int n) : y(nullptr), count{{n}} {{ {BUFFERS} {LAUNCH} }} }};",
    "one with a trailing type": f"{MEMBERS} auto run(int n) -> bool {{ {BUFFERS} {LAUNCH} return true; }} }};",
    "a member that another method sets": (
        f"{MEMBERS} void init(int n) {{ {BUFFERS} count = n; blocks = (n + 127) / 128; }}\n"
        "void run() { f<<<blocks, 128>>>(y, x, k, count); } };"
    ),
    "a grid that another method sets": (
        f"{MEMBERS} void init(int n) {{ {BUFFERS} count = n; grid = dim3((n + 127) / 128); }}\n"
        "void run() { f<<<grid, 128>>>(y, x, k, count); } };"
    ),
    "a struct that another method keeps": (
        f"struct Given {{ int n; }};\n{MEMBERS} Given given;\n"
        "void init(const Given &all) { given = all; make(all); }\n"
        f"void make(const Given &all) {{ const int n = all.n; {BUFFERS} }}\n"
        "void run() { f<<<(given.n + 127) / 128, 128>>>(y, x, k, given.n); } };"
    ),
    "a variable of the file": (
        f"int blocks;\nvoid run(int n) {{ {BUFFERS} blocks = (n + 127) / 128; f<<<blocks, 128>>>(y, x, k, n); }}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", HOST)
def test_methods_and_members_say_grids_and_shapes(where: str, tmp_path: Path, tune: Tune) -> None:
    data, text = drafted(tmp_path, tune, f"float *y, *x; int *k;\n{KERNEL}{HOST[where]}\n")
    assert (data["grid"], guessed(text)) == (["ceil_div(n, block_size_x)"], [])
    assert [each["shape"] for each in data["operation"]["arguments"] if "shape" in each] == [["n"]] * 3
    assert "how many blocks" not in text


DOUBTS = {
    "two methods set it": "void more() { blocks = 2 * count; }",
    "a call gets its address": "void more() { choose(&blocks, count); }",
    "another class has such a member": "}; struct Other { int blocks;",
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_member_that_others_may_set_says_nothing(doubt: str, tmp_path: Path, tune: Tune) -> None:
    host = (
        f"{MEMBERS} void init(int n) {{ {BUFFERS} count = n; blocks = (n + 127) / 128; }}\n"
        f"void run() {{ f<<<blocks, 128>>>(y, x, k, count); }}\n{DOUBTS[doubt]} }};"
    )
    _, text = drafted(tmp_path, tune, KERNEL + host)
    assert "how many blocks" in text


CL = """
__kernel void f(__global float *y, __global const float *x, __global const int *k, int n) {
    int i = get_global_id(0);
    if (k[i]) y[k[i]] = x[k[i]] * n;
}
"""
OPENCL = """
#define KERNEL_NAME "f"
void run(int n) {{
    cl_kernel kernel = clCreateKernel(program, KERNEL_NAME, &error);
    cl_mem y = clCreateBuffer(context, CL_MEM_READ_WRITE, n * sizeof(float), NULL, &error);
    cl_mem x = clCreateBuffer(context, CL_MEM_READ_ONLY, n * sizeof(float), NULL, &error);
    cl_mem k = clCreateBuffer(context, CL_MEM_READ_ONLY, n * sizeof(int), NULL, &error);
    clSetKernelArg(kernel, 0, sizeof(cl_mem), &y);
    clSetKernelArg(kernel, 1, sizeof(cl_mem), &x);
    clSetKernelArg(kernel, 2, sizeof(cl_mem), &k);
    clSetKernelArg(kernel, 3, sizeof(int), &n);
    size_t local = 64, global = {threads};
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
}}
"""


def test_a_macro_gives_the_name_and_a_condition_rounds_up(tmp_path: Path, tune: Tune) -> None:
    host = OPENCL.format(threads="n % local == 0 ? n : (n / local + 1) * local")
    data, text = drafted(tmp_path, tune, CL, host, ".cl")
    assert (data["grid"], guessed(text)) == (["ceil_div(n, block_size_x)"], [])
    assert data["default"] == {"block_size_x": 64}


@pytest.mark.parametrize(("threads", "grid"), [
    ("points", "[ceil_div(points, block_size_x)]"),
    ("2 * points", "[ceil_div(2 * points, block_size_x)]"),
    ("groups * 256", None), # what follows from the block that the draft varies
])  # fmt: skip
def test_the_host_alone_has_the_number_of_threads(threads: str, grid: str | None, tmp_path: Path, tune: Tune) -> None:
    host = (
        OPENCL.format(threads=threads).replace("int n)", "int n, int points, int groups)").replace("local = 64, ", "")
    )
    data, text = drafted(tmp_path, tune, CL, host.replace("&local", "NULL"), ".cl")
    (line,) = [each for each in text.splitlines() if each.startswith("grid:")]
    assert ("how many blocks" in line) if grid is None else line == f"grid: {grid}"
    assert grid is None or "points" in data["operation"]["sizes"]


def test_padding_of_the_host_is_part_of_what_it_passes(tmp_path: Path, tune: Tune) -> None:
    """The kernel's n is the host's inner + 2, so 17 + inner is n + 15."""
    host = "void run(Domain d) { f<<<(d.inner + 2 + 16 - 1) / 16, 16>>>(y, x, k, d.inner + 2); }"
    data, _ = drafted(tmp_path, tune, KERNEL + host)
    assert data["grid"] == ["ceil_div(n, block_size_x)"]


HALVES = """
__kernel void f(__global const float *x, __global const int *k, __global float *y, int n) {
    int i = get_global_id(0);
    if (i < n) y[i] = x[i];
    else y[i] = k[i - n];
}
"""


def test_a_condition_with_a_second_half_bounds_no_threads(tmp_path: Path, tune: Tune) -> None:
    _, text = drafted(tmp_path, tune, HALVES, "", ".cl")
    assert "# ? how many blocks" in text
    host = 'void run(cl::Kernel *kernel, int n) { *kernel = cl::Kernel(program, "f");\n'
    host += "int all = 2 * n; kernel->setArg(0, x); kernel->setArg(1, k); kernel->setArg(2, y); kernel->setArg(3, n);\n"
    host += "queue.enqueueNDRangeKernel(*kernel, cl::NullRange, cl::NDRange(all), cl::NullRange); }"
    (tmp_path / "f.yaml").unlink()
    data, text = drafted(tmp_path, tune, HALVES, host, ".cl")
    assert (data["grid"], "how many blocks" in text) == (["ceil_div(2 * n, block_size_x)"], False)


def test_a_number_whose_address_a_call_gets_is_no_longer_known(tmp_path: Path, tune: Tune) -> None:
    host = OPENCL.format(threads="points").replace(
        "size_t local", "int points = 512; read(file, &points); size_t local"
    )
    data, _ = drafted(tmp_path, tune, CL, host, ".cl")
    assert (data["grid"], data["operation"]["sizes"]["points"]) == (["ceil_div(points, block_size_x)"], None)


def test_a_pitch_counts_vectors(tmp_path: Path, tune: Tune) -> None:
    kernel = KERNEL.replace("float *y", "uchar4 *y").replace("const float *x", "const uchar4 *x").replace("* n;", ";")
    host = """
    void run(int w, int h) {
        uchar4 *y, *x;
        size_t pitch{};
        cudaMallocPitch(&y, &pitch, w * 4, h);
        cudaMallocPitch(&x, &pitch, w * 4, h);
        f<<<(pitch * h + 255) / 256, 256>>>(y, x, k, h, pitch);
    }
    """
    data, _ = drafted(tmp_path, tune, kernel.replace("int n)", "int n, int pitch)"), host)
    assert data["operation"]["arguments"][0]["shape"] == ["(pitch // 4) * n", 4]


def test_a_size_of_the_draft_has_no_name_of_a_parameter(tmp_path: Path, tune: Tune) -> None:
    code = "template <int n> __global__ void f(float *y) { for (int i = 0; i < n; i++) y[blockIdx.x] += i; }"
    data, _ = drafted(tmp_path, tune, code)
    assert ([*data["operation"]["sizes"]], [*data["parameters"]][:1]) == (["count"], ["n"])


def test_a_macro_that_only_other_kernels_read_is_no_block(tmp_path: Path, tune: Tune) -> None:
    kernel = CL.replace("void f(", "void g(").replace("y[k[i]] = x[k[i]] * n;", "y[i / SIDE] = blockSize;")
    kernel = kernel.replace("if (k[i])", "if (EVEN || i < n)")
    data, _ = drafted(tmp_path, tune, CL + kernel, "", ".cl", "f")
    assert data["block"] == ["block_size_x"]
    assert {name: data["parameters"][name] for name in ("blockSize", "EVEN")} == {"blockSize": [1], "EVEN": [1]}


def test_blocks_bounds_and_buffers_of_a_class_leave_no_question(tmp_path: Path, tune: Tune) -> None:
    """The block of a host that launches one row of threads, launch bounds in other words than the block, and a member
    whose name is that of a local variable of another function."""
    code = """
    #define WARP_SIZE 32
    #define ROWS 4
    #define BX 128
    #define BY 1
    __global__ void f(float *y, const float *part, int w, int h) {
        int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
        if (i < w && j < h) y[j * w + i] = part[(j * w + i) / WARP_SIZE];
    }
    __global__ void __launch_bounds__(ROWS * WARP_SIZE) g(float *part, const float *x, int w, int h) {
        int j = blockIdx.x * ROWS + threadIdx.y;
        for (int i = threadIdx.x; i < w; i += WARP_SIZE)
            if (j < h) atomicAdd(&part[(j * w + i) / WARP_SIZE], x[j * w + i]);
    }
    struct Run {
        float *y, *x, *part;
        int w, h;
        Run(int w_, int h_) : w(w_), h(h_) {
            cudaMalloc(&y, w * h * sizeof(float));
            cudaMalloc(&x, w * h * sizeof(float));
            cudaMalloc(&part, w * h / WARP_SIZE * sizeof(float));
        }
        void run() {
            g<<<(h + ROWS - 1) / ROWS, dim3(WARP_SIZE, ROWS)>>>(part, x, w, h);
            f<<<dim3((w + BX - 1) / BX, (h + BY - 1) / BY), dim3(BX, BY)>>>(y, part, w, h);
        }
    };
    int main() {
        std::vector<float> part(7);
        Run(640, 480).run();
    }
    """
    data, text = drafted(tmp_path, tune, code, entry="f")
    assert (data["block"], data["parameters"]) == (
        ["block_size_x", "block_size_y"], {"block_size_x": [32, 64, 128, 256, 512], "block_size_y": [1, 2, 4]},
    )  # fmt: skip
    (tmp_path / "f.yaml").unlink()
    data, text = drafted(tmp_path, tune, code, entry="g")
    assert (data["block"], "how many threads" in text) == ([32, "ROWS"], False)
    (tmp_path / "f.yaml").unlink()
    code = code.replace("(ROWS * WARP_SIZE) g", "(MOST) g").replace(
        "#define BX", "#define MOST (ROWS * WARP_SIZE)\n    #define BX"
    )
    assert "how many threads" not in drafted(tmp_path, tune, code, entry="g")[1]
    part = data["operation"]["arguments"][0]
    assert (part["shape"], guessed(text)) == (["((h * w) // 32)"], [])
