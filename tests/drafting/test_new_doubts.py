"""What `tune new` asks about where the text of a kernel leaves more than one reading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.drafts import guessed
from helpers.processes import Tune
from tuner.space.file.yamlfile import read

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
SHAPE = "a guess"
ROLE = "in, out or inout?"
DECIDED = "elements of x decide where it is written: does it keep others? then role: inout"


def drafted(folder: Path, tune: Tune, code: str, name: str = "f.cu") -> dict[str, tuple[list[str | int], str, str]]:
    """Of each array of a draft: its shape, its role, and what it asks, SHAPE last."""
    (folder / name).write_text(code)
    assert tune("new", folder / name).status == 0
    arguments = read(folder / "f.yaml").data["operation"]["arguments"]
    text = (folder / "f.yaml").read_text()
    asks = dict(re.findall(r"    - \{name: (\w+),[^#\n]*(?:# \? (.*))?", text))
    for name in guessed(text):
        asks[name] = "; ".join(filter(None, [asks[name], SHAPE]))
    return {a["name"]: (a["shape"], a["role"], asks[a["name"]]) for a in arguments if "shape" in a}


ROLES = {
    "bins[x[i]]++;": ("inout", ""),
    "if (x[i]) ++bins[x[i]];": ("inout", ""),
    "int last = --bins[i] - 1;": ("inout", ""),
    "if (i) i = 1; else bins[i]--;": ("inout", ""),
    "bins[i].x += x[i];": ("inout", ""),
    "bins[i].v[2] <<= 1;": ("inout", ""),
    "bins[i] %= 7;": ("inout", ""),
    "bins[i].x = x[i];": ("out", ""),
    "if (x[i]) bins[i] = 1; else if (n > 9) bins[i] = 2 * bins[i];": ("inout", ""),
    "if (x[i]) { bins[i] = 1; return; } bins[i] = bins[i] + 1;": ("inout", ""),
    "if (x[i]) bins[i] = 1; else bins[i] = 2; n = bins[i];": ("out", ""),
    "if (x[i]) bins[i] = 1; n = bins[i];": ("out", DECIDED),
    "const int v = 2 * x[i]; if (n > 9) { if (v < 7) *bins = v; }": ("out", DECIDED),
    "if (!x[i]) return; if (n > 9) bins[i] = 1; else bins[i] = 2;": ("out", DECIDED),
    "for (int k = 0; k < 3; k++) { if (x[i + k] < 0) continue; bins[i + k] = 1; }": ("out", DECIDED),
    "for (int k = 0; k < 3; k++) { if (x[i + k] < 0) break; n += k; } bins[i] = n;": ("out", ""),
    "if (x[i]) bins[i] = 1; else { bins[i] = 2; int m = x[i] + 1; if (m) m = 0; }": ("out", ""),
    "int k = i; int v = x[k]; if (k > 3) bins[k] = v;": ("out", ""),
    "if (i < x[0]) bins[i] = x[i];": ("out", ""),
    "bins[x[i]] = 1;": ("out", DECIDED),
    "int m = x[i]; for (int k = 0; k < m; k++) bins[i + k] = 1;": ("out", DECIDED),
    "for (int k = 0; k < x[i]; k++) n += k; bins[i] = n;": ("out", ""),
    "switch (x[i]) { case 0: bins[i] = 1; break; case 1: bins[i] = 2; }": ("out", DECIDED),
    "switch (x[i]) { case 0: bins[i] = 1; break; case 1: { n = 2; break; } default: bins[i] = 2; }": ("out", DECIDED),
    "switch (x[i]) { case 0: case 1: { bins[i] = 1; break; } default: if (n) bins[i] = 2; }": ("out", ""),
    "switch (n) { case 0: bins[i] = 1; break; default: bins[i] = x[i]; }": ("out", ""),
    "n = x[i];": ("in", ""),
    "swap(bins[i], bins[i + 1]);": ("out", ROLE),
    "other::put<int>(i, (bins[i].x));": ("out", ROLE),
    "auto &bin = bins[i]; bin = 1;": ("out", ROLE),
    "(bins[i]) = 1;": ("out", ROLE),
    'asm("mov.u32 %0, 1;" : "=r"(bins[i]));': ("out", ROLE),
    "put(x[i], bins[i]);": ("out", ROLE),
    "int a = get(bins[i], x[i]) + fmaxf(1, bins[i]) + (int)(bins[i]);": ("in", ""),
    "int a = x[i] - bins[i], b = x[i] + static_cast<int>(bins[i]);": ("in", ""),
}
HELPERS = """
__device__ int get(int a, const int &b) { return a + b; }
__device__ void put(int a, int &b) { b = a; }
"""


@pytest.mark.parametrize("body", ROLES)
def test_an_array_that_may_be_written_is_no_input_without_a_question(body: str, tmp_path: Path, tune: Tune) -> None:
    code = f"{HELPERS} __global__ void f(int *bins, const int *x, int n) {{ {INDEX} if (i < n) {{ {body} }} }}"
    found = drafted(tmp_path, tune, code)["bins"]
    assert (found[1], found[2].replace(f"; {SHAPE}", "").replace(SHAPE, "")) == ROLES[body]


@pytest.mark.parametrize(("line", "asks"), [("", ""), ("#define put(a, ...) a = 0\n", ROLE)])
def test_functions_of_c_take_numbers_by_value_but_macros_may_not(
    line: str, asks: str, tmp_path: Path, tune: Tune
) -> None:
    code = f"{line}void f(int *y, const int *x, int n) {{ for (int i = 0; i < n; i++) put(y[i], x[i]); }}"
    assert drafted(tmp_path, tune, code, "f.c")["y"][1:] == ("out" if asks else "in", asks)


SHAPES: dict[str, tuple[str, list[str | int] | None]] = {
    "an offset in a loop": ("if (i < n) for (int r = 0; r < k; r++) s += x[i + r];", None),
    "every second element": ("for (int r = 0; r < k; r++) s += x[2 * i];", None),
    "a size that is read otherwise": ("for (int r = 0; r < k; r++) s += x[i];", None),
    "a size that nothing reads": ("s = x[i];", ["k"]),
    "a tile for each block": ("s = x[blockIdx.x * TILE + threadIdx.x];", ["k"]),
    "a tile and its border": ("s = x[blockIdx.x * TILE + threadIdx.x + 2];", None),
    "two elements each": ("s = x[2 * i] + x[2 * i + 1];", None),
    "two halves": ("if (i < n) s = x[i] * x[i + n];", None),
    "two halves of a row": (
        "if (i < n) s = x[blockIdx.y * 2 * n + i] * x[blockIdx.y * 2 * n + n + i];", ["k", 2, "n"]
    ),
    "taps of a filter": ("if (i < n) for (int r = 0; r <= 2; r++) s += x[i + r];", ["n + 2"]),
    "taps of a filter within the rows": ("if (i < n) for (int r = 0; r < 3; r++) if (i + r < n) s += x[i + r];", ["n"]),
    "rows with a margin": ("if (i < n && blockIdx.y < k) s = x[blockIdx.y * (n + 2) + i + 1];", ["k", "n + 2"]),
    "rows less a margin": ("int w = n - 3; if (i < w && blockIdx.y < k) s = x[blockIdx.y * w + i];", ["k", "n - 3"]),
    "margins": ("if (i < n && blockIdx.y < k) s = x[(blockIdx.y + 2) * (n + 4) + i];", ["k + 2", "n + 4"]),
    "margins of a volume": (
        "if (i < n && blockIdx.y < k && blockIdx.z < n) s = x[(blockIdx.z * (k + 2) + blockIdx.y) * (n + 2) + i];",
        ["n", "k + 2", "n + 2"],
    ),
    "a diagonal": ("if (i < n) s = x[i * (n + 1)];", ["n", "n"]),
    "a shift": ("if (i < n) s = x[i + k];", None),
    "a shift that is compared": ("if (i + k < n) s = x[i + k];", ["n"]),
    "one more": ("if (i <= n) s = x[i];", ["n + 1"]),
    "a lower bound": ("if (i > n) s = x[i];", None),
    "a lower bound, turned": ("if (n <= i) s = x[i];", None),
    "up to the last": ("if (i <= k - 1) s = x[i];", ["k"]),
    "up to the last, turned": ("if (k > i) s = x[i];", ["k"]),
    "beyond the last": ("if (i > k - 1) return; s = x[i];", ["k"]),
    "beyond the last, turned": ("if (k - 1 < i) return; s = x[i];", ["k"]),
    "one more, said otherwise": ("if (i < n + 1) s = x[i];", ["n + 1"]),
    "a bound and another one": ("if (i < n && i < k) s = x[i];", None),
    "a bound that is an element": ("if (i < x[0]) s = x[i];", None),
    "a bound that is a number": ("if (threadIdx.x < 32) s = x[threadIdx.x];", None),
    "rows with a border": ("if (i < n && blockIdx.y < k) s = x[(blockIdx.y + 1) * n + i];", None),
    "rows within a border": ("if (blockIdx.y < k - 1) s = x[(blockIdx.y + 1) * n + i];", ["k", "n"]),
    "rows but the last": ("int r = blockIdx.y; if (r == k - 1) return; s = x[(r + 1) * n + i];", ["k", "n"]),
    "rows from behind": ("if (blockIdx.y < k) s = x[(blockIdx.y + 1) * n - 1 - i];", ["k", "n"]),
    "rows by their blocks": ("if (i < n) s = x[blockIdx.y * n + i];", ["k", "n"]),
    "the last of a row": ("if (blockIdx.y < k) s = x[blockIdx.y * n + n - 1];", ["k", "n"]),
    "one more than there are blocks": ("s = x[blockIdx.x + 1] - x[blockIdx.x];", None),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", SHAPES)
def test_a_shape_is_concluded_only_where_no_other_one_is_likely(what: str, tmp_path: Path, tune: Tune) -> None:
    body, shape = SHAPES[what]
    told = "if (threadIdx.y < n) y[threadIdx.y] = s;"
    code = f"__global__ void f(float *y, const float *x, int n, int k) {{ {INDEX} float s = 0; {body} {told} }}"
    found = drafted(tmp_path, tune, f"#define TILE 16\n{code}")["x"]
    assert (found[0] if SHAPE not in found[2] else None) == shape


def test_a_grid_reaches_as_far_as_its_indices(tmp_path: Path, tune: Tune) -> None:
    drafted(tmp_path, tune, f"__global__ void f(float *y, int n) {{ {INDEX} if (i <= n) y[i] = 1; }}")
    assert read(tmp_path / "f.yaml").data["grid"] == ["ceil_div(n + 1, block_size_x)"]


ENDLESS = {
    "quotients": "int b{1} = b{0} / 3 + b{0} % 5;",
    "squares": "int b{1} = b{0} * b{0};",
    "elements": "int b{1} = x[b{0}] + x[b{0} + 1];",
    "sums": "int b{1} = b{0} + b{0} + c{0};",
    "circles": "b{1} = b{0} / 3 + b{0} % 5 + b{0} * c; b{0} = b{1} / 3 + b{1} % 5 + b{1} * c;",
}


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "int b0 = 3;"])
@pytest.mark.parametrize("how", ENDLESS)
def test_names_that_stand_for_ever_more_stay_names(how: str, first: str, tmp_path: Path, tune: Tune) -> None:
    """Their texts, products and numbers would fill any memory."""
    body = first + " ".join(ENDLESS[how].format(level, level + 1) for level in range(60))
    code = f"__global__ void f(float *y, const float *x, int c, int n) {{ {body} if (c < n) y[c] = x[b60]; }}"
    found = drafted(tmp_path, tune, code)
    assert SHAPE in found["x"][2]


@pytest.mark.slow
@pytest.mark.parametrize("index", ["- " * 3000 + "c", "(int)" * 3000 + "c", "(" * 3000 + "c" + ")" * 3000, "9" * 5000])
def test_an_index_of_any_length_is_read(index: str, tmp_path: Path, tune: Tune) -> None:
    code = f"void f(float *y, const float *x, int n) {{ for (int c = 0; c < n; c++) y[{index}] = x[c]; }}"
    assert drafted(tmp_path, tune, code, "f.c")["x"] == (["n"], "in", "")


def test_elements_that_are_indices_through_a_variable_get_bounds_or_a_question(tmp_path: Path, tune: Tune) -> None:
    code = """
__global__ void f(float *y, const float *x, const int *node, const int2 *edge, const int *level, const int *kind,
                  const int *away, const int *page, int n, int m) {
    __shared__ float part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a;
    if (x[i] > 0) a = node[i]; else a = __ldg(&node[i]);
    y[i] = x[a] + kind[i];
    int2 e = edge[i];
    y[i] += x[e.x] * x[e.y];
    int l = level[i];
    l -= 1;
    y[i] += part[l];
    int q = kind[i];
    if (q > 3) y[i] = x[i] + away[node[i]];
    size_t row = 0;
    if (i > 3) {
        const int at = page[i];
        row = (size_t)at * m;
    }
    y[i] += reinterpret_cast<const float2 *>(x + row)[1].x;
}
void run(float *y, int n) {
    float *x;
    cudaMalloc(&x, n * sizeof(float));
    f<<<n, 64>>>(y, x, node, edge, level, kind, away, page, n, 4);
}
"""
    (tmp_path / "f.cu").write_text(code)
    assert tune("new", tmp_path / "f.cu").status == 0
    lines = (tmp_path / "f.yaml").read_text().splitlines()
    edge, level, kind = (next(line for line in lines if f"name: {n}," in line) for n in ("edge", "level", "kind"))
    assert "role: in, fill: {integers: [0, n - 1]}}" in edge
    assert "indices of part follow from it: which values may it have? such as fill: {integers: [0, n - 1]}" in level
    assert not re.search("indices|fill", kind), "compared, and added to"
    assert "# ? indices of x follow from it" in next(line for line in lines if "name: page," in line)


@pytest.mark.parametrize("index", ["static_cast<int>(floor(v * 2.5 + 2.0))", "(int)(v * n)"])
def test_numbers_that_become_indices_are_asked_for_but_not_members_of_their_names(
    index: str, tmp_path: Path, tune: Tune
) -> None:
    code = f"""__global__ void f(int *bins, const float *values, const float *x, float *y, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) {{ float v = values[i]; int at = {index}; atomicAdd(&bins[at], 1); }}
        float x_ = 0; {{ float x = values[0]; x_ = x; }}
        if (i < n) y[blockIdx.x * blockDim.x + threadIdx.x] = x_;
    }}"""
    found = drafted(tmp_path, tune, code)
    assert "indices are computed from it" in found["values"][2]
    assert "indices" not in found["y"][2]
    plain = """__global__ void f(float *y, const float *values, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; float x = values[i]; if (i < n) y[i] = x * x; }"""
    (tmp_path / "f.yaml").unlink()
    assert "indices" not in drafted(tmp_path, tune, plain)["values"][2]
