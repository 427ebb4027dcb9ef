"""`tune new` reads classes as arguments: instances of class templates, functors, and kernels without arguments."""

from __future__ import annotations

from pathlib import Path

from helpers.drafts import compiled, drafted
from helpers.processes import Tune

I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"  # noqa: E741
FUNCTORS = """
struct Call { __device__ float operator()(float x) const { return x > 1 ? x - 1 : 0; } };
class Put {
    float strike;
  public:
    Put(float s) : strike(s) {}
    __device__ float operator()(float x) const { return x < strike ? strike - x : 0; }
};
template <typename Payoff> __global__ void f(Payoff payoff, float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = payoff(x[i]);
}
"""


def test_an_instance_of_a_class_template_has_the_fields_of_its_parameters(tmp_path: Path, tune: Tune) -> None:
    """Types of the kernel, types and numbers as written, defaults, other names; functions take no place."""
    code = f"""
template <typename T, int N = 2> struct Vec {{ T v[N]; }};
using Range = Vec<double>;
template <typename Real, typename Index> class Grid {{
  public:
    __host__ __device__ Grid(Index n) : count(n) {{}}
    __device__ Index last() const {{ if (count > 0) {{ return count - 1; }} return 0; }}
  private:
    static const int unused = 4;
    Index count;
    Real scale;
    Vec<float, 3> origin;
}};
template <typename T> __global__ void f(T *y, const Vec<T> *x, const Grid<T, int> g, Range r, int n) {{
    {I}
    if (i < g.last()) y[i] = x[i].v[0] + r.v[1];
}}
"""
    data, text = drafted(tmp_path, tune, code)
    _, x, g, r, _ = data["operation"]["arguments"]
    assert (x["dtype"], x["shape"]) == ("T", ["n", 2])
    assert [(each["name"], each.get("dtype")) for each in g["fields"]] == [
        ("count", "int32"), ("scale", "T"), ("origin", None),
    ]  # fmt: skip
    assert g["fields"][2]["fields"] == [{"name": "v", "dtype": "float32", "shape": [3], "value": [1, 1, 1]}]
    assert r["fields"] == [{"name": "v", "dtype": "float64", "shape": [2], "value": [1, 1]}]
    compiled(tmp_path, tune, text)


def test_a_class_that_cannot_be_passed_is_named_and_no_number(tmp_path: Path, tune: Tune) -> None:
    code = f"""
#include <utility>
#define OURS ours
namespace OURS {{
template <typename T> struct Info {{ T *data; Odd sizes; }};
__global__ void f(float *y, Info<float> x, std::pair<int, int> seeds, cudaPitchedPtr rows, int n) {{
    {I}
    if (i < n) y[i] = x.data[i];
}}
}}
"""
    data, text = drafted(tmp_path, tune, code)
    assert "x is of Info<float>, a struct with the pointer data, whose members are not all known: list its" in text
    pitch = [f"{{name: {name}, dtype: uint64, value: 1}}" for name in ("pitch", "xsize", "ysize")]
    assert [line.strip(" -") for line in text.splitlines() if "dtype: uint64, value: 1" in line] == pitch
    assert data["kernel"] == "ours::f"
    assert "seeds is of pair<int, int>, whose members are not all known: list its `fields:`" in text
    assert (data["operation"]["arguments"][2], data["operation"].get("options")) == ({"name": "x", "fields": []}, None)


def test_a_functor_is_the_class_that_the_host_passes(tmp_path: Path, tune: Tune) -> None:
    """An empty one has one byte; one with members has these as fields."""
    data, text = drafted(tmp_path, tune, FUNCTORS + "int main() { f<<<4, 256>>>(Call(), y, x, n); }")
    assert (data["kernel"], data["operation"].get("types")) == ("f<Call>", None)
    assert "Call has no members, and one byte" in text
    compiled(tmp_path, tune, text)
    host = "int main() { auto p = Put(2); f<<<4, 256>>>(p, y, x, n); f<Call><<<4, 256>>>(Call{}, y, x, n); }"
    data, text = drafted(tmp_path, tune, FUNCTORS + host)
    assert (data["kernel"], data["operation"]["arguments"][0]["fields"][0]["name"]) == ("f<Put>", "strike")
    assert "in other launches, Payoff is also Call" in text
    compiled(tmp_path, tune, text)


def test_a_functor_of_which_the_host_says_nothing_is_asked_for(tmp_path: Path, tune: Tune) -> None:
    data, text = drafted(tmp_path, tune, FUNCTORS)
    assert "Payoff is a class of the source, and no number: which, such as Call, Put?" in text
    assert data["operation"]["arguments"][0] == {"name": "payoff", "fields": []}


def test_a_class_that_no_argument_has_is_passed_in_the_name_of_the_kernel(tmp_path: Path, tune: Tune) -> None:
    """With its namespace and class, whatever the host writes: the compiler reads the name outside of these."""
    code = f"""
namespace ours {{
class Of {{
  public:
    struct Sum {{ __device__ float operator()(float x, float y) const {{ return x + y; }} }};
}};
template <typename F> __device__ float apply(float x) {{ return F()(x, x); }}
template <typename T, typename Op> __global__ void f(T *y, const T *x, int n) {{
    {I}
    if (i < n) y[i] = apply<Op>(x[i]);
}}
void run() {{ f<float, Of::Sum><<<4, 256>>>(y, x, n); }}
}}
"""
    data, text = drafted(tmp_path, tune, code)
    assert (data["kernel"], [*data["operation"]["types"]]) == ("ours::f<{T}, ours::Of::Sum>", ["T"])
    compiled(tmp_path, tune, text)


def test_a_kernel_without_arguments_is_a_step_beside_others(tmp_path: Path, tune: Tune) -> None:
    code = f"""
__device__ int count;
__global__ void clear() {{ count = 0; }}
__global__ void f(int *y, int n) {{ {I} if (i < n) y[i] = count + i; }}
"""
    data, text = drafted(tmp_path, tune, code, "--entry", "clear,f")
    assert [step["arguments"] for step in data["steps"]] == [[], ["y", "n"]]
    compiled(tmp_path, tune, text)
    done = tune("new", tmp_path / "f.cu", "--entry", "clear", "--output", tmp_path / "g.yaml")
    assert (done.status, (tmp_path / "g.yaml").exists()) == (2, False)
    assert "clear takes no arguments, so there is nothing to fill and to compare; let the kernel take the" in done.err
    assert "the variables count as arguments, or name it as a step beside kernels that take arrays" in done.err


def test_what_a_method_indexes_by_is_no_knob_but_the_extent_of_a_member_is(tmp_path: Path, tune: Tune) -> None:
    code = f"""
struct Rows {{
    int stride;
    float kept[ORDER];
    __device__ float at(const float *x, int row) const {{ return x[row * stride] + kept[0]; }}
}};
__global__ void f(float *y, const float *x, Rows rows, int n) {{ {I} if (i < n) y[i] = rows.at(x, i); }}
"""
    data, _ = drafted(tmp_path, tune, code)
    assert {*data["parameters"]} == {"ORDER", "block_size_x"}


def test_other_names_for_pointers_are_arrays(tmp_path: Path, tune: Tune) -> None:
    code = f"""
typedef struct {{ int key; int links[3]; }} node, *list;
typedef struct pair {{ float x, y; }} *pairs;
typedef const float *row;
__global__ void f(list out, pairs p, row x, node one, int n) {{
    {I}
    if (i < n) {{ out[i].key = one.key; out[i].links[1] = 2; p[i].x = x[i]; p[i].y = 0; }}
}}
"""
    data, text = drafted(tmp_path, tune, code)
    arguments = {each["name"]: each for each in data["operation"]["arguments"]}
    assert [arguments[name]["shape"] for name in ("out", "p", "x")] == [["n", 4], ["n", 2], ["n"]]
    assert [arguments[name]["role"] for name in ("out", "p", "x")] == ["out", "out", "in"]
    assert [field["name"] for field in arguments["one"]["fields"]] == ["key", "links"]
    compiled(tmp_path, tune, text)
