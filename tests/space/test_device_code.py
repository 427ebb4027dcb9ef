"""A .cu that also has host code compiles as it is: what its kernels need remains, at the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.processes import Tune
from tuner import paths
from tuner.catalog import catalog, kernel_lists
from tuner.space.sources import device_code, source_text
from tuner.space.sources.includes import inlined
from tuner.space.sources.rendering import code

SPACE = """\
title: a file that somebody brought
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: 2 * x
kernel: KERNEL
source: brought.cu
parameters: {block: [64, 128]}
grid: ["ceil_div(n, block)"]
block: [block]
"""
TWICE = "__global__ void twice(float *y, const float *x, int n)"
BODY = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = VALUE; }"


def twice(value: str = "2 * x[i]", head: str = TWICE) -> str:
    return f"{head} {BODY.replace('VALUE', value)}\n"


IDIOMS = {
    "main, headers and launches": f"""\
#include <iostream>
#include <vector>
#include <chrono>
#include <cuda.h>
using namespace std;
{twice()}
int main(int argc, char **argv) {{
    vector<float> h(10);
    twice<<<1, 64>>>(0, 0, 10);
    cout << h.size() << R"(a "text" of {{ lines)" << endl;
    return 0;
}}
""",
    "marks by macros of macros": f"""\
#define INLINE __device__ inline
#define FUNCTION INLINE
#define ENTRY __global__
#define KERNEL_FUNCTION ENTRY
FUNCTION float doubled(float value) {{ return 2 * value; }}
{twice("doubled(x[i])", TWICE.replace("__global__", "KERNEL_FUNCTION"))}
int main() {{ return 0; }}
""",
    "a macro that checks errors": f"""\
#include <cstdio>
#define CHECK(call) do {{ cudaError_t e = call; if (e) printf("%d", e); }} while (0)
static void check(const char *what) {{ CHECK(cudaGetLastError()); }}
{twice()}""",
    "functions, constants and types of the device": f"""\
#include <string>
const float FACTOR = 2.0f;
static const int UNUSED = 3;
float *host_array = nullptr;
struct Pair {{ float a, b; }};
struct Options {{ std::string name; int rounds; }};
std::string named(const Options &o) {{ return o.name; }}
__device__ __forceinline__ float scaled(Pair p) {{ return p.a * p.b; }}
{twice("scaled(Pair{FACTOR, x[i]})")}""",
    "a class with members of both sides": f"""\
#include <vector>
class Scale {{
    float by;
public:
    __host__ __device__ Scale(float by) : by(by) {{}}
    Scale(const std::vector<float> &all) : by(all[0]) {{}}
    void print() const {{ throw 1; }}
    __device__ float operator()(float x) const {{ return by * x; }}
}};
{twice("Scale(2.0f)(x[i])")}""",
    "a namespace": f"""\
#include <map>
namespace ours {{
static std::map<int, int> seen;
__device__ float twofold(float x) {{ return x + x; }}
void run() {{ seen[1]++; }}
{twice("twofold(x[i])")}
}}
""",
    "a namespace that another one uses": f"""\
namespace outer::first {{ __device__ float twofold(float x) {{ return 2 * x; }} }}
void run() {{}}
namespace outer::second {{
using namespace outer::first;
__device__ float both(float x) {{ return twofold(x); }}
}}
{twice("outer::second::both(x[i])")}""",
    "macros for a namespace and for functions of the host": f"""\
#include <ostream>
#define BEGIN_OURS namespace ours {{
#define END_OURS }}
#define TOLD(kind) \\
    inline const char *told_##kind() \\
    {{ return #kind; }}
BEGIN_OURS
static int unused = 1;
using x = std::ostream;
struct Pair {{
    float first;
    static const std::string title;
    static int made;
    virtual ~Pair() = default;
    friend std::ostream &operator<<(std::ostream &to, const Pair &pair);
}};
class n {{ public: enum class Sides {{ one = 1, two }}; std::string name; int count(); }};
struct i : n {{ int number; }};
TOLD(n)
{twice("Pair{x[i] * (int)::ours::n::Sides::two}.first")}
END_OURS
""",
    "a macro for the qualifiers": f"""\
#include <vector>
#define HOST_DEVICE __host__ __device__
#define ENTRY __global__ void
HOST_DEVICE inline float twofold(float x) {{ return x + x; }}
void run(std::vector<float> &v) {{}}
{twice("twofold(x[i])", TWICE.replace("__global__ void", "ENTRY"))}""",
    "a specialisation": f"""\
#include <limits>
template <int F> __device__ float by(float x);
template <> __device__ float by<2>(float x) {{ return 2 * x; }}
int count() {{ return std::numeric_limits<int>::max(); }}
{twice("by<2>(x[i])")}""",
    "branches of the preprocessor": f"""\
#include <cstdlib>
#ifdef DOUBLE
int twofold(double x) {{
#else
int twofold(float x) {{
#endif
    return rand();
}}
{twice()}""",
    "large arrays of the host": f"""\
#include <vector>
struct Row {{ int key; int values[4]; }};
const struct Row rows[] = {{ {", ".join(f"{{{{{i}, {{{{1, 2, 3, 4}}}}}}}}" for i in range(3))} }};
{twice()}
int main() {{ std::vector<int> v; }}""",
    "functions of both sides without a mark": f"""\
#include <vector>
template <typename T> constexpr T
twofold(T x) {{ return 2 * x; }}
constexpr int unused() {{ return std::vector<int>().size(); }}
struct Angle {{
    float by;
    friend bool operator!=(const Angle &a, const Angle &b) {{ return a.by != std::vector<float>{{b.by}}[0]; }}
    bool operator==(const Angle &b) {{ return !(*this != b); }}
    __device__ float of(float x) const {{ return by * twofold(x); }}
}};
int main() {{ return Angle{{1}} != Angle{{2}}; }}
{twice("Angle{1}.of(x[i])")}""",
    "a pointer to a member": f"""\
#include <vector>
class Domain {{ public: float &at(int i) {{ return all[i]; }} std::vector<float> all; }};
typedef float &(Domain::*Member)(int);
typedef int (*Compare)(const void *, const void *);
int main() {{ Domain domain; }}
{twice()}""",
    "enumerations and aliases": f"""\
#include <functional>
enum Kind {{ NONE = 1, TWICE = 2 }};
typedef float real;
using whole = unsigned int;
std::function<int()> make() {{ return [] {{ return 1; }}; }}
{twice("real(TWICE) * x[whole(i)]")}""",
    "types of the C library": f"#include <stdlib.h>\nint main(void) {{ return 0; }}\n{twice('x[(uint) i] * 2')}",
    "names of std that most headers bring": f"""\
#include <iostream>
int main() {{ std::cout << 1; }}
{twice("std::is_same<decltype(x[i]), const float &>::value ? 2 * x[i] : std::numeric_limits<float>::max()")}""",
    "headers of the compiler in quotes, and an alias whose arguments are types of the kernel": f"""\
#include "cuda_runtime.h"
#include "device_launch_parameters.h"
#include "math.h"
#include <cuda.h>
#include <driver_functions.h>
#include <map>
typedef std::map<double_t, int> counts;
#if CUDA_VERSION < 12000
#error "of another CUDA"
#endif
int main() {{ counts known; }}
{twice("double_t(M_PI) > 3 ? 2 * x[i] : float_t(0)")}""",
    "an empty array, without functions of the host": f"const int ranks[] = {{}};\n{twice('2 * x[i]')}",
    "constants that follow from others": f"""\
typedef float real;
const real HALF = 0.5;
static const real FOURTH = HALF * HALF;
namespace of_the_host {{ const double EIGHTH = FOURTH / 2; }}
const int WHOLE = 3;
int main() {{ return of_the_host::EIGHTH > 1; }}
{twice("8 * x[i] * FOURTH + WHOLE - 3")}""",
    "limits of a type in a kernel": f"""\
#include <limits>
int main() {{}}
{twice("std::numeric_limits<float>::max() > 1 ? 2 * x[i] : 0")}""",
}


def brought(folder: Path, text: str) -> Path:
    (folder / "brought.cu").write_text(text)
    file = folder / "brought.yaml"
    file.write_text(SPACE.replace("KERNEL", "ours::twice" if "namespace ours" in text else "twice"))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("idiom", IDIOMS)
def test_an_ordinary_file_compiles_unedited(idiom: str, tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", brought(tmp_path, IDIOMS[idiom]), "--compile")
    assert done.status == 0, done.err
    assert "the default compiles for sm_" in done.out


@pytest.mark.gpu
@pytest.mark.parametrize("idiom", IDIOMS)
def test_an_ordinary_file_is_tuned_and_verified(idiom: str, tmp_path: Path, tune: Tune) -> None:
    done = tune(brought(tmp_path, IDIOMS[idiom]), "1000", "--json", "--repeats", "1")
    assert (done.status, done.json["failed"]) == (0, {}), done.err


def test_an_error_has_the_line_of_the_file(tmp_path: Path, tune: Tune) -> None:
    text = IDIOMS["main, headers and launches"].replace("2 * x[i]", "2 * z[i]")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "z[i]" in each)
    done = tune("validate", brought(tmp_path, text), "--compile")
    assert done.status == 2
    assert f'brought.cu({line}): error: identifier "z" is undefined' in done.err


def test_functions_that_kernels_call_without_a_mark_get_one_at_their_line() -> None:
    text = IDIOMS["functions of both sides without a mark"]
    lines = device_code.of(text, ("twice",)).splitlines()
    assert len(lines) == len(text.splitlines())
    assert [line for line in lines if "constexpr" in line] == ["template <typename T> __device__ constexpr T"]
    assert not any("operator" in line or "main" in line for line in lines)


def test_assertions_stay_that_name_only_what_kernels_name() -> None:
    kept = 'static_assert(WIDTH % 2 == 0 && sizeof(float) == 4, "WIDTH is odd");'
    others = [
        "static_assert(RUNS > 0);",
        "static_assert(sizeof(Options) > 8);",
        "static_assert(std::is_same<float, float>::value);",
    ]
    head = "#include <vector>\nconstexpr int WIDTH = 4;\nconstexpr int RUNS = 3;\n"
    classes = "struct Options { enum Mode { FAST }; std::vector<int> sizes; };\n"
    kernel = twice("WIDTH / 2 * x[i]; static_assert(sizeof(Options::Mode) == 4)")
    text = "\n".join([head + classes, *others, f"namespace checks {{ {kept} }}", kernel, "int main() {}\n"])
    code = device_code.of(text, ("twice",))
    assert kept in code
    assert not [other for other in others if other in code]


def test_host_code_is_no_part_of_the_identity(tmp_path: Path) -> None:
    file = brought(tmp_path, text := IDIOMS["main, headers and launches"])
    before = code(catalog.load(str(file)))
    brought(tmp_path, text.replace("vector<float> h(10)", "vector<float> h(20)"))
    assert code(catalog.load(str(file))) == before
    brought(tmp_path, text.replace("2 * x[i]", "3 * x[i]"))
    assert code(catalog.load(str(file))) != before


@pytest.mark.parametrize("name", [name for name in kernel_lists.names() if catalog.load(name).languages == ("cuda",)])
def test_a_shipped_kernel_has_no_host_code(name: str) -> None:
    space = catalog.load(name)
    for path in space.sources:
        text = inlined(path, space.include)
        assert device_code.of(text, (".*",)) == text


def test_a_shipped_kernel_is_one_by_whatever_links_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation may consist of links. The text of other kernels is read, to find their host code."""
    kernel, folder = paths.shipped("kernels") / "sgemm/06_tiled.cu", tmp_path / "linked"
    folder.symlink_to(paths.shipped("kernels"))
    assert source_text.is_shipped(folder / "sgemm/06_tiled.cu")
    monkeypatch.setattr(paths, "shipped", lambda name: folder)
    assert source_text.is_shipped(kernel)
    assert not source_text.is_shipped(tmp_path / "06_tiled.cu")
