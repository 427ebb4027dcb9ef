"""What `tune new` reads from host code that launches by function calls: OpenCL in C and C++, cudaLaunchKernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.drafts import guessed
from helpers.processes import Tune
from tuner.space.file.yamlfile import read

# Indices of no array tell its extent, and the grid follows from no bound.
OPENCL = """
__kernel void f(__global float *y, __global const float *x, __global const int *k, int n) {
    int i = get_global_id(0);
    for (int j = k[i]; j < k[i + 1]; j++) y[k[j] + 1] = x[3 * j + n % 5];
}
"""
CUDA = OPENCL.replace("__kernel", "__global__").replace("__global ", "").replace(
    "get_global_id(0)", "blockIdx.x * blockDim.x + threadIdx.x"
)  # fmt: skip
BUFFERS = """
    cl_mem a = clCreateBuffer(c, CL_MEM_READ_WRITE, n * sizeof(cl_float), NULL, &error);
    cl_mem b = clCreateBuffer(c, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, 3 * n * sizeof(float), h, NULL);
    cl_mem d = clCreateBuffer(c, CL_MEM_READ_ONLY, sizeof(int) * (n + 1), NULL, NULL);
"""
SET = "".join(f"clSetKernelArg(k, {i}, sizeof(cl_mem), (void *)&{name}); " for i, name in enumerate("abdn"))
# By the idiom: the file of the host, its code, default of the block; all allocate n, 3 n and n + 1 elements, and have a
# work-item for each of n elements
SAID: dict[str, tuple[str, str, int]] = {
    "arrays of sizes": (
        "host.c", f"""
    void run(int n) {{ cl_kernel k = clCreateKernel(p, "f", &error); {BUFFERS} {SET}
        const size_t local[2] = {{64, 1}}, global[] = {{(size_t)((n + 63) / 64) * 64, 1}};
        clEnqueueNDRangeKernel(q, k, 1, NULL, global, local, 0, NULL, NULL); }}""", 64,
    ),
    "sizes by elements, rounded up by a function, and counted arguments": (
        "host.cpp", f"""
    size_t round_up(int group, int all) {{ int r = all % group; return r == 0 ? all : all + group - r; }}
    const char *name = "f";
    void run(int n) {{ int at = 0; cl_kernel k; k = clCreateKernel(p, name, &error); {BUFFERS}
        size_t local[1], global[1]; local[0] = 128; global[0] = round_up(local[0], n);
        check(clSetKernelArg(k, at++, sizeof(a), &a)); check(clSetKernelArg(k, at++, sizeof(a), &b));
        check(clSetKernelArg(k, at++, sizeof(a), &(d))); check(clSetKernelArg(k, at++, sizeof(n), &n));
        clEnqueueNDRangeKernel(q, k, 1, 0, &global[0], &local[0], 0, 0, 0); }}""", 128,
    ),
    "one number, and a block of the driver's choice": (
        "host.c", f"""
    cl_kernel k; cl_mem a, b, d;
    void prepare(void) {{ k = clCreateKernel(p, "f", NULL); }}
    void run(int n) {{ size_t items = n; {BUFFERS.replace("cl_mem ", "")} {SET}
        clEnqueueNDRangeKernel(q, k, 1, NULL, &items, NULL, 0, NULL, NULL); }}""", 256,
    ),
    "set in a loop, launched before": (
        "host.c", f"""
    void run(int n) {{ cl_kernel k = clCreateKernel(p, "f", &error); {BUFFERS}
        size_t global = n, local = 32;
        for (int t = 0; t < 9; t++) {{ if (t) clEnqueueNDRangeKernel(q, k, 1, 0, &global, &local, 0, 0, 0); {SET} }}
    }}""", 32,
    ),
    "objects of C++": (
        "host.cpp", """
    void run(int n) { cl::Kernel k(program, "f"); cl::Buffer a(c, CL_MEM_READ_WRITE, n * sizeof(float)), b, d;
        std::vector<float> h(3 * n); b = cl::Buffer(c, h.begin(), h.end(), true);
        d = cl::Buffer(c, CL_MEM_READ_ONLY, (n + 1) * sizeof(int));
        k.setArg(0, a); k.setArg(1, b); k.setArg(2, d); k.setArg(3, n);
        queue.enqueueNDRangeKernel(k, cl::NullRange, cl::NDRange(n), cl::NDRange(96)); }""", 96,
    ),
    "functors of C++": (
        "host.cpp", """
    void run(int n) { cl::make_kernel<cl::Buffer, cl::Buffer, cl::Buffer, int> step(cl::Program(c, text), "f");
        std::vector<float> h(3 * n); std::vector<int> s(n + 1); cl::Buffer a, b(c, h.begin(), h.end(), true);
        cl::Buffer d(c, CL_MEM_READ_ONLY, s.size() * sizeof(int)); a = cl::Buffer(c, 0, sizeof(float) * n);
        cl::NDRange global(n), local(160); step(cl::EnqueueArgs(queue, global, local), a, b, d, n); }""", 160,
    ),
    "cudaLaunchKernel": (
        "f.cu", """
    template <typename T> T *fresh(size_t count) { T *p; check(cudaMalloc((void **)&p, count * sizeof(T))); return p; }
    template <class T> void make(T **p, long count) { cudaMallocAsync(p, sizeof(T) * count, stream); }
    template <typename T> T *upload(const std::vector<T> &v) { T *p = fresh<T>(v.size()); put(p, v.data()); return p; }
    void run(int n) { std::vector<float> h(n); float *a = upload(h), *b; int *d; make(&b, 3 * n); make<int>(&d, n + 1);
        dim3 grid((n + 191) / 192), block(192); void *all[] = {&a, (void *)&b, &d, &n};
        cudaLaunchKernel((const void *)f, grid, block, all, 0, stream); }""", 192,
    ),
    "the driver's functions": (
        "host.cpp", """
    void run(int n) { CUfunction entry; cuModuleGetFunction(&entry, module, "f"); CUdeviceptr a, b, d;
        cuMemAlloc(&a, n * sizeof(float)); cuMemAlloc(&b, sizeof(float) * n * 3); cuMemAlloc(&d, 4 * (n + 1));
        void *all[4] = {&a, &b, &d, &n};
        cuLaunchKernel(entry, (n - 1) / 224 + 1, 1, 1, 224, 1, 1, 0, stream, all, NULL); }""", 224,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SAID)
def test_launches_by_functions_say_shapes_and_grids(what: str, tmp_path: Path, tune: Tune) -> None:
    host, code, threads = SAID[what]
    kernel = CUDA if "cu" in code else OPENCL
    source = tmp_path / ("f.cu" if kernel == CUDA else "f.cl")
    (tmp_path / host).write_text(code)
    source.write_text(kernel + code * (host == "f.cu"))
    assert tune("new", source).status == 0
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    shapes = [a["shape"] for a in data["operation"]["arguments"] if "shape" in a]
    assert (shapes, guessed(text)) == ([["n"], ["3 * n"], ["n + 1"]], [])
    assert (data["grid"], data["block"]) == (["ceil_div(n, block_size_x)"], ["block_size_x"])
    assert (data["default"], data["operation"]["sizes"]) == ({"block_size_x": threads}, {"n": None})
    assert "how many blocks" not in text


# What the host code leaves open
LEFT: dict[str, str] = {
    "launches of other arrays": f"""
    void run(int n) {{ cl_kernel k = clCreateKernel(p, "f", &error); {BUFFERS} {SET}
        clEnqueueNDRangeKernel(q, k, 1, NULL, &n, NULL, 0, NULL, NULL);
        clSetKernelArg(k, 0, sizeof(cl_mem), &b); clSetKernelArg(k, 1, sizeof(cl_mem), &a);
        clSetKernelArg(k, 2, sizeof(cl_mem), &a);
        clEnqueueNDRangeKernel(q, k, 1, NULL, &n, NULL, 0, NULL, NULL); }}""",
    "another kernel": f"""
    void run(int n) {{ cl_kernel k = clCreateKernel(p, "g", &error), f = clCreateKernel(p, "h", 0); {BUFFERS} {SET}
        clEnqueueNDRangeKernel(q, k, 1, NULL, &n, NULL, 0, NULL, NULL); }}""",
    "sizes that a condition changes": """
    void run(int n) { cl_kernel k = clCreateKernel(p, "f", &error); size_t items = n; if (n % 2) items = 4 * n;
        clSetKernelArg(k, 3, 4, &n); clEnqueueNDRangeKernel(q, k, 1, NULL, &items, NULL, 0, NULL, NULL); }""",
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_of_opencl_host_code_that_is_unclear_nothing_is_concluded(what: str, tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.cl").write_text(OPENCL)
    (tmp_path / "host.c").write_text(LEFT[what])
    assert tune("new", tmp_path / "f.cl").status == 0
    text = (tmp_path / "f.yaml").read_text()
    assert guessed(text) == ["y", "x", "k"]
    assert ("how many blocks in x, y, z?" in text) == ("other arrays" not in what)


def test_a_pitch_is_part_of_the_extent(tmp_path: Path, tune: Tune) -> None:
    code = """
    __global__ void f(float *y, int pitch, int rows) { y[blockIdx.x * pitch + threadIdx.x] = rows; }
    void run(int width, int rows) { float *y; size_t pitch;
        cudaMallocPitch(&y, &pitch, width * sizeof(float), rows);
        f<<<rows, 32>>>(y, pitch / sizeof(float), rows); }
    """
    (tmp_path / "f.cu").write_text(code)
    assert tune("new", tmp_path / "f.cu").status == 0
    data: dict[str, Any] = read(tmp_path / "f.yaml").data
    assert (data["operation"]["arguments"][0]["shape"], data["grid"]) == (["rows", "pitch"], ["rows"])


def test_an_output_with_an_element_for_each_thread_follows_the_block(tmp_path: Path, tune: Tune) -> None:
    """With more threads than the host's, it would else be written beyond its end; of inputs, the draft asks."""
    (tmp_path / "f.cl").write_text(
        "__kernel void f(__global float *y, __global const float *x) "
        "{ int i = get_global_id(0); y[i] = x[i % get_local_size(0)]; }"
    )
    (tmp_path / "host.c").write_text("""
    void run(int groups) {
        size_t local = 64, global = groups * local;
        cl_kernel k = clCreateKernel(p, "f", 0);
        cl_mem y = clCreateBuffer(c, 0, global * sizeof(float), 0, 0), x = clCreateBuffer(c, 0, local * 4, 0, 0);
        clSetKernelArg(k, 0, sizeof(y), &y);
        clSetKernelArg(k, 1, sizeof(x), &x);
        clEnqueueNDRangeKernel(q, k, 1, 0, &global, &local, 0, 0, 0);
    }
    """)
    assert tune("new", tmp_path / "f.cl").status == 0
    data: dict[str, Any] = read(tmp_path / "f.yaml").data
    assert data["operation"]["arguments"][0]["shape"] == ["block_size_x * groups"]
    assert guessed((tmp_path / "f.yaml").read_text()) == ["x"]
    assert (data["grid"], data["operation"]["derive"]) == (["groups"], {"y_total": "sum(y)"})
