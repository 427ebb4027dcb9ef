"""A .cu that also has code of the host: its headers, and what is said of the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.processes import Tune
from tuner.devices import Device
from tuner.devices.cuda import host_code
from tuner.devices.cuda.compiler import compile_cubin
from tuner.errors import BuildError
from tuner.space.sources.source import Source

HEAD = 'extern "C" __global__ void k(float *y, long long *z) {'
CONSTANTS = f"""
#include <cuda/std/cstdint>
{HEAD}
    constexpr float least = -INFINITY;
    static_assert(least < -FLT_MAX && FLT_MIN > 0 && DBL_MAX > FLT_MAX && NAN != NAN && FLT_EPSILON * 8388608 == 1);
    static_assert(INT_MAX == 2147483647 && INT_MIN < -INT_MAX && UINT_MAX == 4294967295u && LLONG_MIN < -LLONG_MAX);
    static_assert(INT8_MIN == -128 && UINT16_MAX == 65535 && INT64_MAX > INT32_MAX && CHAR_BIT == 8);
    static_assert(LONG_MAX > 0 && LONG_MIN < 0 && ULONG_MAX / 2 == LONG_MAX && SIZE_MAX == ~size_t(0));
    static_assert(sizeof(int8_t) == 1 && sizeof(std::uint16_t) == 2 && sizeof(int32_t) == 4 && sizeof(uint64_t) == 8);
    static_assert(sizeof(intptr_t) == sizeof(void *) && sizeof(ptrdiff_t) == 8 && offsetof(int2, y) == 4);
    static_assert(sizeof(std::sqrt(y[0])) == 4 && UINT64_C(1) << 63 > 0);
    assert(y[0] > 0);
    printf("%f", std::fabs(y[0]) + sqrtf(M_PI));
    memcpy(z, y, 8);
}}
"""


def compiled(text: str) -> bytes:
    return compile_cubin(Source(text, ("k",), ()), "sm_90a").binary


def test_standard_headers_give_their_types_and_constants() -> None:
    assert compiled(
        "".join(f"#include <{name}>\n" for name in host_code.headers() if name != "cub/cub.cuh") + CONSTANTS
    )


def test_what_nvcc_has_without_a_header_needs_none() -> None:
    assert compiled(HEAD + "int64_t i = 0; y[i] = -INFINITY; y[1] = NAN + M_PI; y[2] = INT_MAX; }")
    own = "typedef long int64_t;\n#define INFINITY 1e30f\n"
    assert compiled(own + HEAD + "int64_t i = 0; y[i] = -INFINITY; }")


@pytest.mark.parametrize("name", ["inttypes.h", "cinttypes", "sys/types.h"])
def test_a_header_that_includes_another_gives_its_types(name: str) -> None:
    assert compiled(f"#include <{name}>\n{HEAD} uint8_t i = 1; y[i] = int32_t(i); }}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "#include <gtest/gtest.h>\n" + HEAD + "}",
            r'^k\.cu\(1\): .*"gtest/gtest\.h"; put headers that only .* __CUDACC_RTC__',
        ),
        (
            HEAD + "}\nint main() {}",
            r"JIT mode; write __device__ .*between #ifndef __CUDACC_RTC__ and #endif; or .*`compiler: nvcc`",
        ),
        (HEAD + "}\n__host__ void f() {}", r"JIT mode; put host code between"),
        (HEAD + "}\n__device__ void f() { k<<<1, 2>>>(0, 0); }", r"not declared; put host code between"),
        (HEAD + "cudaFree(y); }", r'"cudaFree" is undefined; put host code between'),
        (HEAD + "uint64_t i = 0; y[i] = 0; }", r'"uint64_t" is undefined; #include <cstdint>$'),
        (HEAD + "y[0] = FLT_MAX; }", r'"FLT_MAX" is undefined; #include <cfloat>$'),
        (HEAD + "y[0] = std::max(y[1], y[2]); }", r'"max"; write max and min without std::$'),
    ],
)
def test_a_message_about_code_of_the_host_names_its_cure(text: str, says: str) -> None:
    with pytest.raises(BuildError) as refusal:
        compiled(text)
    lines = str(refusal.value).splitlines()
    assert len([line for line in lines if "error: " in line and "; " in line]) == 1, "a cure is told once"
    assert "-default-device" not in str(refusal.value)
    assert refusal.match(f"(?m){says}")


def test_what_cub_has_for_the_host_names_its_parts(tmp_path: Path) -> None:
    (tmp_path / "cub").mkdir()
    (tmp_path / "cub" / "of_a_test.cuh").write_text("inline int launched() { return 1; }\n")
    with pytest.raises(BuildError, match=r"JIT mode; include the parts that a kernel uses, such as cub/block/"):
        compile_cubin(Source(f"#include <cub/of_a_test.cuh>\n{HEAD}}}", ("k",), (f"-I{tmp_path}",)), "sm_90a")


def files_of_the_page(folder: Path) -> list[Path]:
    """The space files of the page about programs as people have them, with what they need."""
    for block in (ROOT / "docs" / "from-your-file.md").read_text().split("```")[1::2]:
        language, _, text = block.partition("\n")
        if language in ("cuda", "yaml", "python"):
            (folder / text.split()[1]).write_text(text)
    return sorted(folder.glob("*.yaml"))


def test_the_programs_of_the_page_are_drafted_and_compile(tmp_path: Path, tune: Tune) -> None:
    for file in files_of_the_page(tmp_path):
        done = tune("validate", file, "--compile")
        assert (done.status, done.err) == (0, ""), done.err
        assert "the default compiles for sm_" in done.out
        done = tune("new", file.with_suffix(".cu"), "--output", tmp_path / "draft")
        assert done.status == 0, done.err
        assert f"source: {file.stem}.cu" in (tmp_path / "draft").read_text()
        (tmp_path / "draft").unlink()


@pytest.mark.gpu
def test_the_programs_of_the_page_are_tuned(tmp_path: Path, tune: Tune) -> None:
    for file in files_of_the_page(tmp_path):
        done = tune(file, "4096", "--device", "cuda", "--budget", "3s", "--json")
        assert done.status == 0, (file, done.err)
        assert done.json["failed"] == {}, (file, done.err)


def test_the_mathematics_of_the_page_is_of_floats_in_both_languages(opencl: Device) -> None:
    row = (
        (ROOT / "docs" / "space-files.md")
        .read_text()
        .partition("| mathematics in both languages | ")[2]
        .partition(" |\n")[0]
    )
    reals, integers = (re.findall(r"`(\w+)`", part) for part in row.split("; of integers "))
    two, three = {"pow", "fmin", "fmax"}, {"fma"}
    calls = [
        f"{name}({', '.join(['x[1]', 'x[2]', 'x[3]'][: 3 if name in three else 1 + (name in two)])})" for name in reals
    ]
    calls += [f"{name}({'n' if name == 'abs' else 'n, 3'})" for name in integers]
    sizes = "".join(
        f"    {{ int of_float[sizeof({call}) == 4 ? 1 : -1]; y[0] += {call} + sizeof(of_float); }}\n" for call in calls
    )
    text = (ROOT / "kernels" / "portable.h").read_text() + (
        f"KERNEL void k(GLOBAL float *__restrict__ y, GLOBAL const float *x, int n) {{\n{sizes}}}\n"
    )
    assert len(calls) > 20
    assert compiled(text)
    assert opencl.compiler.compile(Source(text, ("k",), ())).binary
