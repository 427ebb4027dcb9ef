"""`tune new` reads what the host launches in loops, and what it passes to each of several kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.drafts import compiled, drafted
from helpers.processes import Tune

I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"  # noqa: E741
HEAT = f"""
__global__ void f(float *next, const float *now, int n, float rate) {{
    {I}
    if (i > 0 && i < n - 1) next[i] = now[i] + rate * (now[i - 1] - 2 * now[i] + now[i + 1]);
}}
"""


def uncommented(text: str) -> str:
    """The draft with the lines of its loop, in the place of the kernel's, and of the arrays that it exchanges."""
    before, _, rest = text.partition("# The whole loop,")
    before = re.sub(r"^(kernel|grid|block):.*\n", "", before, flags=re.MULTILINE)
    for name, role in re.findall(r"(\w+) with role: (\w+)", rest):
        before = re.sub(rf"(name: {name},.* role: )\w+(?:, fill: \w+)?", rf"\g<1>{role}", before)
    for line, name in re.findall(r"^# (    - \{name: (\w+),.*)$", rest, re.MULTILINE):
        before = re.sub(rf"^    - \{{name: {name},.*$", line, before, flags=re.MULTILINE)
    for name, number in re.findall(r"in `sizes:`, (\w+): ?(\d*)", rest):
        before = re.sub(r"(  sizes:.*\n)", rf"\g<1>    {name}: {number}\n", before)
    lines = [line[2:] for line in rest[rest.index("# steps:") :].splitlines()]
    return before + "\n".join(lines) + "\n"


def test_time_steps_with_two_buffers_are_shown_as_a_loop_that_swaps(tmp_path: Path, tune: Tune) -> None:
    """The bound of the loop becomes a size, with its number."""
    host = """
int main() {
    int n = read(), time = 100;
    float *now, *next;
    for (int t = 0; t < (time - 1); ++t) {
        f<<<(n + 255) / 256, 256>>>(next, now, n, 0.25f);
        float *kept = now; now = next; next = kept;
    }
}
"""
    data, text = drafted(tmp_path, tune, HEAT + host)
    assert (
        "the host launches it in a loop, `for (int t = 0; t < (time - 1); ++t)`: is the whole loop the operation?"
        in text
    )
    assert data["operation"]["options"] == {"rate": 0.25}
    assert "#   - repeat: time - 1    #" in text
    assert "#     swap: [now, next]" in text
    compiled(tmp_path, tune, uncommented(text))


def test_the_lines_of_a_loop_have_the_names_of_the_draft(tmp_path: Path, tune: Tune) -> None:
    code = f"""
__global__ void f(float *out, const float *in, int n) {{ {I} if (i < n) out[i] = 2 * in[i]; }}
void run(float *a, float *b, int n, int steps) {{
    for (int s = 0; s < steps; ++s) {{ f<<<(n + 255) / 256, 256>>>(b, a, n); std::swap(a, b); }}
}}
"""
    _, text = drafted(tmp_path, tune, code)
    assert "#   in `arguments:`, in the place of the lines of in_ and out:\n#     - {name: out, dtype: float32" in text
    compiled(tmp_path, tune, uncommented(text))
    _, masks = drafted(tmp_path, tune, code.replace("float *", "short *").replace("2 * in[i]", "in[i] ? 1 : 0"))
    fill = "#   with the `fill:` of in_, for which its line asks\n"
    assert (fill in masks, fill in text) == (True, False)
    other = f"__global__ void g(float *in, int n) {{ {I} if (i < n) in[i] += 1; }}{code}"
    other = other.replace("std::swap", "g<<<(n + 255) / 256, 256>>>(b, n); std::swap")
    _, text = drafted(tmp_path, tune, other, "--entry", "g")
    assert "swap" not in text.replace("std::swap", ""), "another kernel takes the other array"
    compiled(tmp_path, tune, uncommented(text))


@pytest.mark.parametrize(
    ("made", "store", "old"),
    [
        ("calloc(n, 4)", "now[i] - old[i]", "role: scratch, zeroed: each}"),
        ("calloc(n, 4)", "now[i] + now[MAX(MIN(i + 1, n - 1), 0)]", "role: scratch, zeroed: each}"),
        ("load(n)", "now[at(i + 2, n)] + now[i]", "role: scratch}\n"),
    ],
)
def test_arrays_that_a_loop_exchanges_have_one_shape_and_what_the_kernel_reads_of_both(
    made: str, store: str, old: str, tmp_path: Path, tune: Tune
) -> None:
    code = f"""
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define T 32
static int at(int i, int n) {{ return i < 0 ? 0 : i >= n ? n - 1 : i; }}
void f(float *old, const float *now, int n) {{
    for (int t = 1; t < n - 1; t += T) for (int i = t; i < MIN(t + T, n - 1); i++) old[i] = {store}; }}
int main() {{ int n = read(); float *a = {made}, *b = load(n);
    for (int k = 0; k < 9; k++) {{ f(a, b, n); float *kept = a; a = b; b = kept; }} }}
"""
    _, text = drafted(tmp_path, tune, code, name="f.c")
    assert f"#     - {{name: old, dtype: float32, shape: [n], {old}" in text
    assert "#     - {name: now, dtype: float32, shape: [n], role: inout}\n" in text
    assert ("#   old keeps elements of the pass before: write them in a step" in text) == (made == "load(n)")


def test_loop_variables_that_a_kernel_takes_have_their_values(tmp_path: Path, tune: Tune) -> None:
    code = f"""
__global__ void f(int *x, int n, int k, int j) {{ {I} if (i < n && (i & k) == (i & j)) x[i] = x[i ^ j]; }}
void sort(int *x, int n) {{
    for (int k = 2; k <= n; k <<= 1)
        for (int j = k / 2; j > 0; j = j / 2) f<<<(n + 63) / 64, 64>>>(x, n, k, j);
}}
"""
    _, text = drafted(tmp_path, tune, code)
    assert "#   - repeat: {k: {powers_of_two: [2, n]}}" in text
    assert "#       - repeat: {j: {halving: [k // 2, 1]}}" in text
    compiled(tmp_path, tune, re.sub(r"  options: .*\n", "", uncommented(text)))


def test_an_array_that_a_host_allocates_has_its_size_beside_loop_variables(tmp_path: Path, tune: Tune) -> None:
    """A variable that is the number of threads in a block is the parameter of that name."""
    code = f"""
__global__ void f(unsigned *x, int size, int stride) {{
    {I} int at = 2 * i - (i & (stride - 1)); unsigned a = x[at], b = x[at + stride];
    if ((a > b) == !(at & size)) {{ x[at] = b; x[at + stride] = a; }}
}}
int main() {{
    const int n = 1 << 20; int threads = 64; unsigned *x; cudaMalloc(&x, n * sizeof(unsigned));
    for (int size = 4 * threads; size <= n; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) f<<<(n / 2 + threads - 1) / threads, threads>>>
                (x, size, stride);
}}
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["operation"]["sizes"]["n"] == 1 << 20
    assert (data["operation"]["arguments"][0]["shape"], data["grid"]) == (["n"], ["ceil_div((n // 2), block_size_x)"])
    assert "#   - repeat: {size: {powers_of_two: [4 * block_size_x, n]}}" in text


def test_what_differs_in_each_pass_and_is_no_expression_is_said(tmp_path: Path, tune: Tune) -> None:
    """A variable of the host with the name of a scalar for which it passes another one is not this scalar."""
    code = f"""
__global__ void f(float *y, float *x, float w, float v, int n, int part) {{
    {I} if (i < part) y[i] += (w + v) * x[i + n * 0];
}}
void run(float *y, float *x, float *w, int n, int all) {{
    int part = all, c = 64, passes = (part + c - 1) / c;
    for (int k = 0; k < passes; k++) f<<<(c + 63) / 64, 64>>>(y, x + k * c, w[k], 2 * k, n, c);
}}
"""
    _, text = drafted(tmp_path, tune, code)
    for line in (
        "in `sizes:`, passes:\n",
        "in `arguments:`, v with value: 2 * k\n",
        "w has another value in each pass, as the host passes `w [ k ]`: let the kernel compute it, or read it from",
        "x begins elsewhere in each pass, as the host passes `x + k * c`: let the kernel take the whole array\n",
    ):
        assert f"#   {line}" in text
    assert "#   - repeat: {k: {from: 0, to: passes - 1}}" in text


def test_bounds_of_loops_that_the_host_computes_are_expressions_of_sizes(tmp_path: Path, tune: Tune) -> None:
    code = """
#define TILE 32
__global__ void f(int *x, int n, int diag) { int i = (blockIdx.x + diag) * TILE + threadIdx.x; if (i < n) x[i] += 1; }
void run(int n) {
    int *x;
    cudaMalloc(&x, n * sizeof(int));
    const int tiles = (n + TILE - 1) / TILE, last = 2 * tiles;
    CHANGE
    for (int diag = 0; diag < last - tiles; ++diag) f<<<1, TILE>>>(x, n, diag);
}
"""
    text = drafted(tmp_path, tune, code.replace("CHANGE", ""))[1]
    tiles = "((n + TILE - 1) // TILE)"
    assert f"#   - repeat: {{diag: {{from: 0, to: (2 * {tiles}) - {tiles} - 1}}}}    #" in text
    assert "in `sizes:`" not in text
    compiled(tmp_path, tune, re.sub(r"    diag:\n", "", uncommented(text)))
    text = drafted(tmp_path, tune, code.replace("CHANGE", "n = 2 * n;"))[1]
    assert "#   in `sizes:`, last:\n#   in `sizes:`, tiles:\n" in text, "the kernel has another n"
    passed = code.replace("int diag)", "int diag, int all)").replace("n) x", "n && diag < all) x")
    text = drafted(tmp_path, tune, passed.replace("CHANGE", "").replace("n, diag)", "n, diag, n / TILE)"))[1]
    assert 'name: all, dtype: int32, value: "n // TILE"}' in text, "of a knob, too"
    text = drafted(tmp_path, tune, passed.replace("CHANGE", "").replace("n, diag)", "n, diag, tiles)"))[1]
    assert "#   - repeat: {diag: {from: 0, to: (2 * ceil_div(n, TILE)) - ceil_div(n, TILE) - 1}}    #" in text
    compiled(tmp_path, tune, re.sub(r"    diag:\n", "", uncommented(text)))


def test_a_loop_of_a_function_that_calls_the_one_that_launches_is_seen(tmp_path: Path, tune: Tune) -> None:
    host = """
void advance(float *a, float *b, int count, float by) { f<<<(count + 255) / 256, 256>>>(b, a, count, by); }
int main() { for (int repeat = 0; repeat < 8; repeat++) advance(x, y, 4096, 0.5f * repeat); }
"""
    _, text = drafted(tmp_path, tune, HEAT + host)
    assert "`for (int repeat = 0; repeat < 8; repeat++)`: is the whole loop the operation?" in text
    _, text = drafted(tmp_path, tune, HEAT + host.replace("0.5f * repeat", "0.5f"))
    assert "which repeats the same" in text


def test_a_loop_until_a_flag_is_zero_names_the_flag(tmp_path: Path, tune: Tune) -> None:
    code = f"""
__global__ void f(int *label, const int *next, int n, int *changed) {{
    {I}
    if (i < n && label[next[i]] < label[i]) {{ label[i] = label[next[i]]; *changed = 1; }}
}}
void run(int *label, const int *next, int n, int *flag) {{
    int again;
    do {{
        cudaMemset(flag, 0, sizeof(int));
        f<<<(n + 255) / 256, 256>>>(label, next, n, flag);
        cudaMemcpy(&again, flag, sizeof(int), cudaMemcpyDeviceToHost);
    }} while (again);
}}
"""
    _, text = drafted(tmp_path, tune, code)
    assert "name: changed, dtype: int32, shape: [1], role: inout, fill: zeros}\n" in text, "it may be left as it is"
    assert "#   - while: changed" in text
    assert "changed with role: scratch and without its fill\n" in text
    compiled(tmp_path, tune, uncommented(text))


def test_a_loop_that_only_measures_is_no_question(tmp_path: Path, tune: Tune) -> None:
    host = "int main() { for (int i = 0; i < repeat; i++) f<<<(n + 255) / 256, 256>>>(next, now, n, 0.5); }"
    data, text = drafted(tmp_path, tune, HEAT + host)
    assert "`for (int i = 0; i < repeat; i++)`, which repeats the same: one pass is the operation" in text
    assert ("# steps:" in text, "steps" in data) == (False, False)
    code = HEAT.replace("rate *", "next[i] + rate *")
    _, text = drafted(tmp_path, tune, code + host)
    assert "`for (int i = 0; i < repeat; i++)`, which measures by its names: one pass is the operation" in text
    assert "# steps:" not in text
    _, text = drafted(tmp_path, tune, code + host.replace("repeat", "count"))
    assert "is the whole loop the operation?" in text
    sizes = host.replace("repeat", "sizeof(block_sizes) / sizeof(int)").replace("256>>>", "block_sizes[i]>>>")
    _, text = drafted(tmp_path, tune, code + sizes.replace("+ 255) / 256", "+ block_sizes[i] - 1) / block_sizes[i]"))
    assert "which measures by its names: one pass is the operation" in text, "one block size after another"
    _, text = drafted(
        tmp_path, tune, code + "int main() { do { f<<<(n + 255) / 256, 256>>>(next, now, n, 0.5); } while (0); }"
    )
    assert "loop" not in text, "it is a statement"


SCALE_AND_ADD = f"""
__global__ void scale(float *out, const float *in, int n, float a) {{ {I} if (i < n) out[i] = a * in[i]; }}
__global__ void add(float *out, const float *in, const float *more, int m) {{
    {I}
    if (i < m) out[i] = in[i] + more[i];
}}
"""


def test_steps_take_the_arrays_that_the_host_passes(tmp_path: Path, tune: Tune) -> None:
    """One array under two names is one, two arrays under one name are two, and so are scalars."""
    host = """
#define FACTOR 0.5f
int main() {
    int count = read();
    float *d_x, *d_between, *d_y;
    cudaMalloc(&d_x, count * sizeof(float));
    cudaMalloc(&d_between, count * sizeof(float));
    cudaMalloc((void **)&d_y, count * sizeof(float));
    scale<<<(count + 255) / 256, 256>>>(d_between, (const float *)d_x, count, FACTOR);
    add<<<(count + 255) / 256, 256>>>(d_y, d_between, &d_x[0], count);
}
"""
    data, text = drafted(tmp_path, tune, SCALE_AND_ADD + host, "--entry", "scale,add")
    assert [step["arguments"] for step in data["steps"]] == [
        ["between", "x", "count", "a"],
        ["y", "between", "x", "count"],
    ]
    arrays = [(a["name"], a["role"], a["shape"]) for a in data["operation"]["arguments"] if "role" in a]
    assert arrays == [("between", "scratch", ["count"]), ("x", "in", ["count"]), ("y", "out", ["count"])]
    assert ([*data["operation"]["sizes"]], data["operation"]["options"]) == (["count"], {"a": 0.5})
    compiled(tmp_path, tune, text)


def test_without_host_code_one_question_asks_for_arrays_of_two_names(tmp_path: Path, tune: Tune) -> None:
    code = SCALE_AND_ADD.replace("*out, const float *in, const", "*sum, const float *part, const")
    code = code.replace("out[i] = in[i] + more", "sum[i] = part[i] + more")
    _, text = drafted(tmp_path, tune, code, "--entry", "scale,add")
    assert text.count("no host code tells which arrays are passed: is part the out of scale?") == 1


def test_numbers_that_the_host_passes_are_options(tmp_path: Path, tune: Tune) -> None:
    """Through variables and callers; not those that differ, or that the host computes."""
    code = f"""
__global__ void f(float *y, int n, float a, double b, float c, float d, float e) {{
    {I}
    if (i < n) y[i] = a + b + c + d * e;
}}
const double B = 2.5e-3;
void run(float *y, int n, float c) {{ float a = -0.125f; f<<<n, 64>>>(y, n, a, B, c, n * 0.5f, 1e-6f); }}
int main() {{ run(y, 64, 3.f); }}
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["operation"]["options"] == {"a": -0.125, "b": 0.0025, "c": 3.0, "d": 1.0, "e": 1e-6}
    assert "as the host passes them; write the usual values of d" in text
    code = f"""
struct Scores {{ int match, gap; float a; }};
__global__ void f(float *y, const float *x, int n, int rounds, Scores s) {{
    {I}
    for (int k = 0; k < rounds; k++) if (i < n) y[i] = s.a * x[i] + s.match + s.gap;
}}
void run(int n) {{
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&y, n * sizeof(float));
    int rounds = 100;
    f<<<(n + 63) / 64, 64>>>(y, x, n, rounds, Scores{{2, -2, 0.5f}});
}}
"""
    data, text = drafted(tmp_path, tune, code)
    assert data["operation"]["sizes"] == {"n": None}
    assert data["operation"]["options"] == {"rounds": 100, "match": 2, "gap": -2}
    assert "expected(x, *, n, rounds, match, gap)" in text
    compiled(tmp_path, tune, text)
    data, text = drafted(tmp_path, tune, code.replace("x[i]", "x[i + rounds]").replace("(&x, n", "(&x, 2 * n"))
    assert list(data["operation"]["sizes"]) == ["n", "rounds"], "an index reads it"


def test_a_loop_whose_passes_have_memory_of_their_own_is_over_problems(tmp_path: Path, tune: Tune) -> None:
    code = """
    __global__ void f(float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += i; }
    int main() { for (int n = 1024; n <= 4096; n *= 2) { float *y; cudaMalloc((void **)&y, n * sizeof(float));
        f<<<(n + 255) / 256, 256>>>(y, n); cudaFree(y); } }
    """
    _, text = drafted(tmp_path, tune, code)
    assert "whose passes have memory of their own: one pass is the operation" in text
    _, text = drafted(tmp_path, tune, code.replace("float *y; cudaMalloc", "cudaMemset(y, 0, 4); cudaCalloc"))
    assert "is the whole loop the operation?" in text


@pytest.mark.parametrize(
    ("header", "before", "one", "other", "after", "is_swap"),
    [
        ("int t = 0; t < 9; ++t", "", "t & 1", "(t + 1) & 1", "", True),
        ("int t = 0; t < 9; t++", "", "1 - t % 2", "t % 2", "", True),
        ("int t = 0; t < 9; t++", "int now = t % 2, next = 1 - now;", "next", "now", "", True),
        ("int t = 0; t < 9; t++", "", "1 - at", "at", "at = 1 - at;", True),
        ("int t = 0, at = 0; t < 9; t++, at ^= 1", "", "!at", "at", "", True),
        ("int t = 0; t < 9; t++", "", "at ^ 1", "at", "at = !at;", True),
        ("int t = 0; t < 9; t++", "", "1 - (t & 1)", "(t & 1)", "", True),
        ("int t = 0; t < 9; t++", "", "1 - at", "at", "", False),
        ("int t = 0; t < 9; t += 2", "", "t & 1", "1 - (t & 1)", "", False),
        ("int t = 0; t < 9; t++", "", "t & 1", "(t + 2) & 1", "", False),
        ("int t = 0; t < 9; t++", "", "t % 3", "(t + 1) % 3", "", False),
    ],
)
def test_elements_that_change_places_in_each_pass_are_swapped(
    header: str, before: str, one: str, other: str, after: str, is_swap: bool, tmp_path: Path, tune: Tune
) -> None:
    host = f"""
void run(int n, int at) {{
    float *d[3];
    for ({header}) {{ {before} f<<<(n + 255) / 256, 256>>>(d[{one}], d[{other}], n, 0.25f); {after} }}
}}
"""
    text = drafted(tmp_path, tune, HEAT + host)[1]
    assert ("#   - repeat: 9    #" in text and "#     swap: [next, now]" in text) == is_swap
