"""Extents and grids that `tune new` reads from host code hold for all sizes and blocks, or are asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.drafts import guessed
from helpers.processes import Tune
from tuner.space.file.yamlfile import read

ASKED = "asked"
KERNEL = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
BLUR = f"__global__ void blur(float *image, int pixels) {{ {KERNEL} if (i < pixels) image[i] *= 0.5f; }}"
SPREAD = f"__global__ void spread(float *heat, int steps) {{ {KERNEL} heat[i] += steps; }}"
LATER = f"__global__ void spread(float *heat, const int *source, int cells) {{ {KERNEL} heat[i] = source[i % cells]; }}"

PROGRAMS: dict[str, tuple[str, dict[str, list[str | int] | str]]] = {
    "a grid whose axes are set in a condition": (
        """__global__ void spread(float *heat, int steps) { heat[blockIdx.x * blockDim.x + threadIdx.x] += steps; }
        void run(bool wide, int cells, float *heat) { cudaMalloc(&heat, cells * 4);
            dim3 grid(1, 1), block(64); if (wide) grid.x = cells / 64; spread<<<grid, block>>>(heat, 3); }""",
        {"grid": ASKED},
    ),
    "quotients of real numbers that are rounded up once": (
        f"""__global__ void spread(float *heat, int cells, int each) {{ {KERNEL} heat[i] = cells * each; }}
        void run(int cells, int each, float *heat) {{ size_t threads = 128;
            size_t blocks = ceil((double(cells) / double(each)) / double(threads));
            spread<<<blocks, threads>>>(heat, cells, each); }}""",
        {"grid": ["ceil_div(cells, block_size_x * each)"]},
    ),
    "integers that are divided before they are rounded up": (
        f"""__global__ void spread(float *heat, int cells) {{ {KERNEL} heat[i] = cells; }}
        void run(int cells, float *heat) {{ spread<<<ceil(cells / 128), 128>>>(heat, cells); }}""",
        {"grid": ["(cells // block_size_x)"]},
    ),
    "two products that one function returns": (
        f"""__global__ void spread(float *heat, int cells) {{ {KERNEL} heat[i / cells * cells] = i; }}
        int product(int from) {{ int all = 1; for (int k = from; k < 3; k++) all *= extent[k]; return all; }}
        void run(float *heat) {{ cudaMalloc(&heat, product(0) * sizeof(float));
            spread<<<product(1), 128>>>(heat, product(1)); }}""",
        {"heat": ASKED},
    ),
    "as many threads as a scalar says": (
        f"""constexpr int GROUPS = 24, EACH = 128; const int ALL = GROUPS * EACH;
        __global__ void spread(float *heat, int all) {{ {KERNEL} heat[i] += heat[all + i]; }}
        void run(float *heat) {{ cudaMalloc(&heat, 2 * ALL * sizeof(float)); spread<<<GROUPS, EACH>>>(heat, ALL); }}""",
        {"heat": ["2 * all"], "grid": ["ceil_div(all, block_size_x)"]},
    ),
    "an input with an element for each thread": (
        f"""__global__ void spread(float *heat, const float *source) {{ {KERNEL} heat[i] = source[i]; }}
        void run(float *heat, float *source) {{ const int groups = 24, each = 128;
            cudaMalloc(&heat, groups * each * 4); cudaMalloc(&source, groups * each * 4);
            spread<<<groups, each>>>(heat, source); }}""",
        {"source": ASKED},
    ),
    "a size that is made of the block": (
        f"""__global__ void spread(float *heat) {{ {KERNEL} heat[i] += 1; }}
        void run(int each, float *heat) {{ int cells = each * each * each; cudaMalloc(&heat, cells / 8 * 4);
            spread<<<cells / 8 / each, each>>>(heat); }}""",
        {"heat": ASKED, "grid": ASKED},
    ),
    "a divisor that may be the number of warps": (
        """__global__ void spread(float *heat, int rows) {
            int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; if (row < rows) heat[row] = rows; }
        void run(int rows, float *heat) { spread<<<(rows + 7) / 8, 256>>>(heat, rows); }""",
        {"grid": ASKED},
    ),
    "a divisor of the kernel's template": (
        """template <int each> __global__ void spread(float *heat, int cells) {
            for (int k = 0; k < each; k++) heat[blockIdx.x * each + k] = cells; }
        void run(int cells, float *heat) { const int per_block = 32;
            spread<per_block><<<(cells + per_block - 1) / per_block, 64>>>(heat, cells); }""",
        {"grid": ["ceil_div(cells, each)"]},
    ),
    "macros with casts and shifts": (
        f"""#define SIDE ((int)24)
        #define ALL ((int)SIDE * SIDE)
        #define SEEDS (1 << 12)
        __global__ void spread(float *heat, const int *seeds, int steps)
        {{ {KERNEL} heat[i % (SIDE * SIDE)] = seeds[(i * steps) & (SEEDS - 1)]; }}
        void run(float *heat, int *seeds, int steps) {{ cudaMalloc(&heat, ALL * sizeof(float));
            cudaMalloc(&seeds, SEEDS * sizeof(int)); spread<<<steps, 64>>>(heat, seeds, steps); }}""",
        {"heat": [576], "seeds": [4096]},
    ),
    "a variable of another function with the name of one that is passed": (
        f"""{SPREAD}
        void launch(float *heat, int units) {{ int pieces = read(units); spread<<<64, 64>>>(heat, pieces); }}
        void run(float *heat) {{ int pieces = count(); cudaMalloc(&heat, pieces * sizeof(float));
            launch(heat, 8); }}""",
        {"heat": ASKED},
    ),
    "an element for each block, where another launch has another number of blocks": (
        """__global__ void total(const float *heat, float *sums, int cells) { float sum = 0;
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += gridDim.x * blockDim.x) sum += heat[i];
            sums[blockIdx.x] = sum; }
        void run(float *heat, float *sums, int cells) { cudaMalloc(&sums, 96 * sizeof(float));
            total<<<96, 64>>>(heat, sums, cells); total<<<1, 64>>>(sums, heat + 1, 96); }""",
        {"sums": ["ceil_div(cells, block_size_x)"], "grid": ["ceil_div(cells, block_size_x)"]},
    ),
    "blocks that wait for each other": (
        """__global__ void settle(volatile int *state, int cells) {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += gridDim.x * blockDim.x)
                while (state[i] < 0) state[i] = state[(i + 1) % cells]; }
        void run(int *state, int cells) { cudaMalloc(&state, cells * 4); settle<<<24, 64>>>(state, cells); }""",
        {"state": ["cells"], "grid": [24]},
    ),
    "a number of blocks beside an unknown block": (
        f"""{SPREAD}
        void run(float *heat, const int *sides) {{ spread<<<256, sides[1] / 8>>>(heat, 3); }}""",
        {"grid": ASKED},
    ),
    "rows of a number of blocks": (
        """#define ROWS 16
        __global__ void sums(const float *heat, float *out, int width)
        { out[blockIdx.y * width + threadIdx.x] = heat[blockIdx.y * ROWS + threadIdx.x]; }
        void run(float *heat, float *out, int cells, int width) { int blocks = cells / ROWS;
            cudaMalloc(&heat, cells * 4); cudaMalloc(&out, blocks * ROWS * 4);
            dim3 grid(1, blocks), block(16); sums<<<grid, block>>>(heat, out, width); }""",
        {"out": ["(cells // 16) * 16"], "grid": [1, "(cells // 16)"]},
    ),
    "a number that is the threads of a block along another axis by chance": (
        """__global__ void relax(float *heat, float *rest) {
            int row = blockIdx.x * blockDim.x + threadIdx.x, at = blockIdx.y * blockDim.y + threadIdx.y;
            rest[row * CELLS / 2 + at] = heat[row * CELLS + at]; }
        #define CELLS 640
        void run(float *heat, float *rest) { cudaMalloc(&rest, (CELLS / 2 + 2) * CELLS * sizeof(float));
            dim3 block(64, 2), grid(CELLS / 64, CELLS / 2); relax<<<grid, block>>>(heat, rest); }""",
        {"rest": ["(CELLS // 2) * CELLS + 2 * CELLS"]},
    ),
    "an element for each block, where the host has others": (
        """__global__ void total(const float *heat, float *sums, int cells) {
            int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < cells) atomicAdd(&sums[blockIdx.x], heat[i]); }
        void run(float *heat, float *sums, int cells) { int blocks = (cells + 127) / 128;
            cudaMalloc(&sums, blocks * 128 / (4 * 128) * 4); total<<<blocks, 128>>>(heat, sums, cells); }""",
        {"sums": ["ceil_div(cells, block_size_x)"], "grid": ["ceil_div(cells, block_size_x)"]},
    ),
    "blocks that wait for each other, of an unknown number": (
        """__global__ void settle(volatile int *state, int cells) {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += gridDim.x * blockDim.x)
                while (state[i] < 0) state[i] = state[(i + 1) % cells]; }
        void run(int *state, int cells) { cudaMalloc(&state, cells * 4); settle<<<fitting(), 64>>>(state, cells); }""",
        {"state": ["cells"], "grid": ASKED},
    ),
    "a macro of the host's block, half of which is the block": (
        """#define ROWS 8
        __global__ void relax(float *heat, int cells) { int row = 2 * (blockIdx.y * blockDim.y + threadIdx.y);
            heat[row * cells + blockIdx.x * blockDim.x + threadIdx.x] += 1; }
        void run(float *heat, int cells) { dim3 block(32, ROWS / 2);
            dim3 grid((cells + 31) / 32, (cells + ROWS - 1) / (2 * ROWS)); relax<<<grid, block>>>(heat, cells); }""",
        {"grid": ASKED},
    ),
    "threads that go over two arrays, one after the other": (
        f"""__global__ void join(const float *heat, float *both, int firsts, int others) {{ {KERNEL}
            if (i >= firsts + others) return; if (i < firsts) both[i] = heat[i]; }}
        void run(float *heat, float *both, const int *sides) {{
            join<<<sides[3], 64>>>(heat, both, sides[0], sides[1]); }}""",
        {"grid": ASKED},
    ),
    "fewer elements than a size": (
        f"""__global__ void spread(float *heat, int cells, int halo) {{ {KERNEL}
            if (i < cells - halo + 1) heat[i] = cells; }}
        void run(float *heat, int cells, int halo) {{
            int each = 128, all = cells - halo + 1; spread<<<(all + each - 1) / each, each>>>(heat, cells, halo); }}""",
        {"grid": ["ceil_div(cells - halo + 1, block_size_x)"]},
    ),
    "fewer elements than a size by a constant, and more threads that load them": (
        """#define BLOCK 64
        #define HALO 4
        __global__ void spread(float *heat, const float *old, int cells) { __shared__ float tile[BLOCK];
            int i = blockIdx.x * BLOCK + threadIdx.x + HALO;
            if (i < cells) tile[threadIdx.x] = old[i];
            float sum = tile[threadIdx.x];
            if (i < cells - HALO) for (int r = -HALO; r <= HALO; r++) heat[i] = sum += old[i + r]; }
        void run(float *heat, const float *old, int cells) {
            spread<<<(cells - 2 * HALO + BLOCK - 1) / BLOCK, BLOCK>>>(heat, old, cells); }""",
        {"grid": ["ceil_div(cells - 2 * 4, BLOCK)"]},
    ),
    "as many rows as fit into what the host has": (
        """__global__ void relax(float *heat, int width, int step) { __shared__ float tile[256];
            int at = blockIdx.x * 256 + threadIdx.x; tile[threadIdx.x] = heat[at ^ step];
            if (tile[0] < width) heat[at] = tile[threadIdx.x ^ width]; }
        void run(float *heat, int step) { const unsigned ALL = 65536;
            for (unsigned width = 64; width <= ALL; width *= 2) { unsigned rows = ALL / width;
                relax<<<rows * width / 256, 256>>>(heat, width, step); } }""",
        {"grid": ASKED},
    ),
    "several elements for each block beside a grid-stride loop": (
        """__global__ void count(const int *seeds, int *parts, int cells) {
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += gridDim.x * blockDim.x)
                atomicAdd(&parts[blockIdx.x * 16 + seeds[i]], 1); }
        void run(int *seeds, int *parts, int cells, int blocks) { cudaMalloc(&parts, 96 * 16 * sizeof(int));
            count<<<blocks, 64>>>(seeds, parts, cells); }""",
        {"grid": ASKED},
    ),
    "one block that sums up, in a grid-stride loop": (
        """__global__ void total(const float *heat, float *sum, int cells) { float all = 0;
            for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cells; i += gridDim.x * blockDim.x) all += heat[i];
            sum[0] = all; }
        void run(float *heat, float *sum, int cells) { total<<<1, 64>>>(heat, sum, cells); }""",
        {"sum": [1], "grid": [1]},
    ),
    "an element for each thread of the host's blocks": (
        f"""__global__ void spread(int *heat) {{ {KERNEL} heat[i] = i; }}
        void run(int *heat) {{ int all = 96 * 64; cudaMalloc(&heat, all * sizeof(int)); spread<<<96, 64>>>(heat); }}""",
        {"grid": ASKED},
    ),
    "a macro of the kernel that is passed as a size": (
        """#define TILE 64
        __global__ void sort(float *keys, int length) { keys[blockIdx.x * TILE + threadIdx.x] += length; }
        void run(float *keys, int cells) { cudaMalloc(&keys, cells * sizeof(float));
            sort<<<cells / TILE, TILE>>>(keys, TILE); }""",
        {"grid": ["(cells // TILE)"]},
    ),
    "two blocks of the kernel's macro that are passed as a size": (
        """#define TILE 64
        __global__ void sort(float *keys, int length) { for (int k = 1; k < length; k *= 2)
            keys[blockIdx.x * 2 * TILE + threadIdx.x] += keys[blockIdx.x * 2 * TILE + threadIdx.x + TILE]; }
        void run(float *keys) { int length = 2 * TILE; cudaMalloc(&keys, length * sizeof(float));
            sort<<<(length + 2 * TILE - 1) / (2 * TILE), TILE>>>(keys, length); }""",
        {"grid": ASKED},
    ),
    "elements in types of OpenGL": (
        """__global__ void render(unsigned int *pixels, int width, int height) {
            pixels[(blockIdx.y * width + blockIdx.x) ^ 1] = height; }
        void run(unsigned int *pixels, int width, int height) {
            cudaMalloc(&pixels, width * height * sizeof(GLubyte) * 4);
            render<<<dim3(width, height), 1>>>(pixels, width, height); }""",
        {"pixels": ["height * width"]},
    ),
    "as many elements as only the host's problem has": (
        """__global__ void join(float *heat, int rows) { if (heat[blockIdx.x ^ 1] < rows) heat[2] = 1; }
        void run(float *heat, int rows) { const int ALL = 13 * 1048576 / 2; cudaMalloc(&heat, ALL * sizeof(float));
            join<<<rows, 64>>>(heat, rows); }""",
        {"heat": ASKED},
    ),
    "products of small numbers": (
        """__global__ void spread(float *heat, int width, int height) {
            int x = __umul24(blockIdx.x, blockDim.x) + threadIdx.x, y = __umul24(blockIdx.y, blockDim.y) + threadIdx.y;
            if (x < width && y < height) heat[__mul24(y, width) + x] = 1; }""",
        {
            "heat": ["height", "width"],
            "grid": ["ceil_div(width, block_size_x)", "ceil_div(height, block_size_y)"],
        },
    ),
    "a block more, in the host's number": (
        f"""__global__ void spread(float *heat, int cells) {{ {KERNEL} heat[(2 * i) ^ 1] = cells; }}
        void run(float *heat, int cells) {{ spread<<<(cells / 2 + 64) / 64, 64>>>(heat, cells); }}""",
        {"grid": ASKED},
    ),
}


def told(folder: Path) -> dict[str, list[str | int] | str]:
    """Of each array of a draft, its shape, and the grid; ASKED where the draft asks for it."""
    text, data = (folder / "f.yaml").read_text(), read(folder / "f.yaml").data
    arguments: list[dict[str, Any]] = data["operation"]["arguments"]
    found: dict[str, list[str | int] | str] = {a["name"]: a["shape"] for a in arguments if "shape" in a}
    found |= dict.fromkeys(guessed(text), ASKED)
    return found | {"grid": ASKED if re.search(r"^grid:.*# \?", text, re.MULTILINE) else data["grid"]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_host_code_tells_is_right_for_every_size_and_block(program: str, tmp_path: Path, tune: Tune) -> None:
    code, expected = PROGRAMS[program]
    (tmp_path / "f.cu").write_text(code)
    assert tune("new", tmp_path / "f.cu").status == 0
    found = told(tmp_path)
    assert {name: found[name] for name in expected} == expected


def test_a_parameter_hides_a_constant_of_its_name(tmp_path: Path, tune: Tune) -> None:
    code = """
    static const int EACH = 96, most = 128, all = EACH * 64;
    __global__ void spread(float *heat, const int *near, int all, int most) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < all) for (int k = 0; k < most; k++) heat[i] += near[k * all + i]; }
    """
    (tmp_path / "f.cu").write_text(code)
    assert tune("new", tmp_path / "f.cu").status == 0
    data: dict[str, Any] = read(tmp_path / "f.yaml").data
    assert (list(data["operation"]["sizes"]), list(data["parameters"])) == (["all", "most"], ["block_size_x"])


def test_a_number_that_only_another_file_of_the_program_defines_is_asked_of_nobody(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "f.cu").write_text(
        "__global__ void spread(float *heat) { heat[blockIdx.x * THREADS + threadIdx.x] += WEIGHT; }"
    )
    (tmp_path / "main.cu").write_text("""
    #define THREADS 64
    #define WEIGHT 13
    #include "f.cu"
    void run(float *heat, int cells) { spread<<<cells / THREADS, THREADS>>>(heat); }
    """)
    assert tune("new", tmp_path / "f.cu").status == 0
    data: dict[str, Any] = read(tmp_path / "f.yaml").data
    assert data["parameters"] == {"WEIGHT": [13], "THREADS": [16, 32, 64, 128, 256]}
    assert not re.search(r"^  (?:WEIGHT|THREADS):.*# \?", (tmp_path / "f.yaml").read_text(), re.MULTILINE)


def test_a_guessed_grid_has_blocks_of_the_tiles_that_locals_tell(tmp_path: Path, tune: Tune) -> None:
    file = tmp_path / "f.cu"
    file.write_text(
        """#define WIDTH 4096
#define BX 16
#define BY 8
#define TX 2
#define TY 4
__global__ void f(float *y, const float *x) {
    int i = blockIdx.x * BX * TX + threadIdx.x, j = blockIdx.y * BY * TY;
    for (int b = 0; b < TY; b++)
        for (int a = 0; a < TX; a++) {
            int at = (j + threadIdx.y + b * BY) * WIDTH + i + a * BX;
            y[at] = x[at];
        }
}
"""
    )
    assert tune("new", file).status == 0
    (line,) = [line for line in (tmp_path / "f.yaml").read_text().splitlines() if line.startswith("grid: ")]
    assert re.match(r"grid: \[ceil_div\(WIDTH, BX \* TX\), .*  # \? ", line), line


@pytest.mark.parametrize(
    ("name", "code", "shapes"),
    [
        (
            "f.c",
            "#define TILE 8\nvoid f(int ni, int nj, double C[ni][nj], const double *restrict A) {"
            " for (int t = 0; t < ni; t += TILE) for (int i = t; i < t + TILE && i < ni; i++)"
            " for (int j = 0; j < nj; j++) C[i][j] += A[i]; }",
            [["ni", "nj"], ["ni"]],
        ),
        (
            "f.c",
            "#define AT(i, j) ((i) * (m + 2) + (j))\nvoid f(double *y, const double *x, const double *z, int n, int m)"
            "{ for (int i = 1; i <= n; i++) for (int j = 1; j < (4 < m + 1 ? 4 : m + 1); j++) y[AT(i, j)] = z[AT(i, j)]"
            " + x[AT(i - 1, j)] + x[AT(i + 1, j)] + x[AT(i, j + 1)]; }\n"
            'int main() { int n = 9, m = atoi("9"); size_t bytes = (size_t)(n + 2) * (m + 2) * sizeof(double);'
            " double *x = malloc(bytes), *y = malloc(bytes), *z = malloc(bytes); f(y, x, z, n, m); }",
            [["n + 2", "m + 2"]] * 3,
        ),
        (
            "f.cu",
            "#define N 128\n__global__ void f(float C[N][32], const float (*A)[N / 4], int n) {"
            " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) C[i][3] = A[i][4]; }",
            [[128, 32], ["n", 32]],
        ),
    ],
)
def test_arrays_of_several_axes_have_the_extents_of_their_types_and_of_their_rows(
    name: str, code: str, shapes: list[list[str | int]], tmp_path: Path, tune: Tune
) -> None:
    (tmp_path / name).write_text(code)
    assert tune("new", tmp_path / name).status == 0
    arguments = read(tmp_path / "f.yaml").data["operation"]["arguments"]
    assert [each["shape"] for each in arguments if "shape" in each] == shapes


@pytest.mark.parametrize(("tile", "size"), [("BN", "N"), ("T", "cols"), ("W", "n"), ("A", "B"), ("B", "A"), ("K", "J")])
def test_a_tile_bounds_no_other_extent_whatever_the_names(tile: str, size: str, tmp_path: Path, tune: Tune) -> None:
    """The stride of blocks and that of rows are products of the same length, neither of which divides the other."""
    (tmp_path / "f.cu").write_text(
        f"""constexpr int {tile} = 128;
__global__ void f(float *y, const float *w, int rows, int {size}, int depth) {{
    float sum = 0;
    for (int r = threadIdx.x; r < {tile}; r += blockDim.x)
        for (int d = 0; d < depth; d++) sum += w[(blockIdx.x * {tile} + r) * depth + d];
    for (int c = threadIdx.x; c < {tile}; c += blockDim.x)
        if (blockIdx.y < rows) y[blockIdx.y * {size} + blockIdx.x * {tile} + c] = sum;
}}
"""
    )
    assert tune("new", tmp_path / "f.cu").status == 0
    (line,) = [line for line in (tmp_path / "f.yaml").read_text().splitlines() if line.startswith("grid: ")]
    assert line == "grid: [batch, rows]"
