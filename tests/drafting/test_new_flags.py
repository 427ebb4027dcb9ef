"""`tune new`: names that a source tests by #ifdef are drafted as flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.processes import Tune
from tuner.space.file.yamlfile import read

CODE = """\
#ifndef MINE_H
#define MINE_H
{head}
#ifdef _OPENMP
#include <omp.h>
#endif
void f(float *y, const float *x, int n) {{
    for (int i = 0; i < n; i++) {{
#{test}
        y[i] = 2 * x[i];
#else
        y[i] = x[i] + x[i];
#endif
    }}
}}
#endif
"""


def drafted(folder: Path, tune: Tune, code: str) -> tuple[Any, str]:
    source = folder / "f.c"
    source.write_text(code)
    done = tune("new", source, "--json")
    assert done.status == 0, done.err
    file = Path(done.json["file"])
    return read(file).data, file.read_text()


@pytest.mark.parametrize("test", ["ifdef TWICE", "if defined(TWICE) && !defined(__AVX__)"])
def test_a_name_that_ifdef_tests_is_false_or_true(test: str, tmp_path: Path, tune: Tune) -> None:
    data, text = drafted(tmp_path, tune, CODE.format(head="", test=test))
    assert (data["parameters"], data["default"]) == ({"TWICE": [False, True]}, {"TWICE": False})
    ask = "the source tests it by #ifdef, and false leaves it undefined: may it vary?"
    assert f"  TWICE: [false, true]  # ? {ask}" in text


def test_a_number_that_only_chooses_among_codes_has_the_values_with_which_it_is_compared(
    tmp_path: Path, tune: Tune
) -> None:
    code = CODE.replace("2 * x[i];", "METHOD == 0 ? 2 * x[i] : x[i] / 0.5f;")
    data, _ = drafted(tmp_path, tune, code.format(head="#define METHOD 1", test="if METHOD == 3 || METHOD != 5"))
    assert (data["parameters"], data["default"]) == ({"METHOD": [0, 1, 3, 5]}, {"METHOD": 1})
    (tmp_path / "f.yaml").unlink()
    code = code.replace("i++", "i += METHOD").replace("y[i] =", "for (int j = i; j < i + METHOD && j < n; j++) y[j] =")
    data, _ = drafted(tmp_path, tune, code.format(head="const int METHOD = 4;", test="if 1").replace("[i]", "[j]"))
    assert data["parameters"] == {"METHOD": [1, 2, 4, 8, 16]}, "it also counts something"
    (tmp_path / "f.yaml").unlink()
    code = CODE.replace("2 * x[i];", "i % PERIOD == 0 ? 2 * x[i] : x[i];").format(head="#define PERIOD 4", test="if 1")
    assert 0 not in drafted(tmp_path, tune, code)[0].get("parameters", {}).get("PERIOD", []), "a remainder is compared"


@pytest.mark.parametrize(
    ("head", "cure"),
    [
        ("#define TWICE", "remove #define TWICE"),
        ("#define TWICE 1", "remove #define TWICE"),
        ("#ifndef TWICE\n#define TWICE 1\n#endif", "write #if TWICE in place of #ifdef TWICE"),
    ],
)
def test_a_name_that_the_source_defines_and_only_ifdef_tests_stays_true(
    head: str, cure: str, tmp_path: Path, tune: Tune
) -> None:
    data, text = drafted(tmp_path, tune, CODE.format(head=head, test="ifdef TWICE"))
    assert (data["parameters"], data["default"]) == ({"TWICE": [True]}, {"TWICE": True})
    why = "the source defines it, and tests only whether it is defined"
    assert f"  TWICE: [true]  # {why}: to vary it, {cure}\n" in text


def test_a_drafted_flag_is_valid_once_its_question_is_answered(tmp_path: Path, tune: Tune) -> None:
    _, text = drafted(tmp_path, tune, CODE.format(head="", test="ifdef TWICE"))
    file = tmp_path / "f.yaml"
    file.write_text(re.sub(r"  # \? .*", "", text).replace("reference:\n", "reference: 2 * x\n", 1))
    done = tune("validate", file)
    assert (done.status, done.err) == (0, "")


def test_a_name_without_which_the_source_stops_is_a_knob(tmp_path: Path, tune: Tune) -> None:
    head = "#ifndef STEP\n#error STEP\n#endif"
    code = CODE.format(head=head, test="if 1").replace("i++", "i += STEP")
    data, text = drafted(tmp_path, tune, code)
    assert data["parameters"] == {"STEP": [1, 2, 4, 8]}
    assert "# ? which values may it have? the source stops with #error without it" in text


@pytest.mark.parametrize("test", ["ifndef NDEBUG", "ifdef __AVX2__", "if defined(DEBUG)", "ifdef INT_MAX"])
def test_names_of_compilers_and_headers_are_no_flags(test: str, tmp_path: Path, tune: Tune) -> None:
    data, _ = drafted(tmp_path, tune, CODE.format(head="", test=test))
    assert not data["parameters"]


def test_a_number_is_a_knob_where_it_shapes_the_work_and_not_the_result(tmp_path: Path, tune: Tune) -> None:
    """SCALE, BIAS and ALIVE only enter results; ITEMS, beside the block size that a launch chooses, is what a thread
    does, and STEP, MODE and HOP are in an index, a condition and a loop."""
    file = tmp_path / "f.cu"
    file.write_text(
        """#define SCALE 3
#define BIAS 7
#define ALIVE 1
#define ITEMS 4
#define STEP 2
#define MODE 1
#define HOP 2
struct cell { float x; int state; };
__device__ float moved(float a) { return a + 0.25f * BIAS; }
__global__ void f(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x * ITEMS + threadIdx.x;
    for (int k = 0; k < ITEMS; k++) {
        for (int j = 0; j < n; j += HOP) y[j] = x[j] / 3.0f;
        int at = i + k * blockDim.x;
        if (at < n) {
            cell c;
            c.state = ALIVE;
            y[at] = SCALE * moved(x[at]) + x[at * STEP % n] * c.state;
            if (n == MODE + 1) y[at] = 1;
        }
    }
}
"""
    )
    assert tune("new", file).status == 0
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    for name in ("SCALE: [3]", "BIAS: [7]", "ALIVE: [1]"):
        assert f"# {name}    # no knob: it only enters what is computed" in text
    assert {*data["parameters"]} == {"ITEMS", "STEP", "MODE", "HOP", "block_size_x"}
    assert (data["block"], data["grid"]) == (["block_size_x"], ["ceil_div(n, ITEMS * block_size_x)"])


def test_numbers_that_mark_limit_or_move_what_is_computed_are_no_knobs(tmp_path: Path, tune: Tune) -> None:
    """NONE and FAR mark what is missing, LEAST and MOST limit what is computed, BORDER moves indices. The others are
    work: LONG chooses a code by the length of a row, and AHEAD is how far a row is prefetched."""
    file = tmp_path / "f.c"
    file.write_text(
        """#define NONE 255
#define FAR 1000000
#define LEAST 40
#define MOST 200
#define BORDER 2
#define TILE 64
#define PAD 1
#define LONG 32
#define AHEAD 16
void f(unsigned char *who, int *far, const int *cost, const int *start, int n) {
    int kept[TILE][TILE + PAD];
    for (int ii = BORDER; ii < n - BORDER; ii += TILE)
        for (int i = ii; i < ii + TILE && i < n - BORDER; i++) {
            int best = FAR;
            unsigned char at = NONE;
            if (start[i + 1] - start[i] > LONG) kept[0][0] = 1;
            for (int e = start[i]; e < start[i + 1]; e++) {
                __builtin_prefetch(&cost[e + AHEAD]);
                int c = cost[e];
                if (c > LEAST && c < best) { best = c; at = e & 127; }
            }
            who[i] = at;
            far[i] = best > MOST ? MOST : best + cost[i - BORDER];
        }
}
"""
    )
    assert tune("new", file).status == 0
    data, text = read(tmp_path / "f.yaml").data, (tmp_path / "f.yaml").read_text()
    for line in ("NONE: [255]", "FAR: [1000000]", "LEAST: [40]", "MOST: [200]"):
        assert f"# {line}    # no knob: it only enters what is computed" in text
    assert "# BORDER: [2]    # no knob: it is an offset in indices" in text
    assert {*data["parameters"]} == {"TILE", "PAD", "LONG", "AHEAD"}


OF_TWO_COMPILERS = """\
#if defined(__NVCC__) || \\
    defined(__HIPCC__)
#define DEVICE __device__
#define REAL3 float3
#else
#define DEVICE
#define REAL3 float4
#endif
#ifdef FAST
#define ROOT native_sqrt
#else
#define ROOT sqrt
#endif
#ifdef HALVES
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#include <halves.h>
#endif
#ifndef OTHERS
#define OTHERS 4
#endif
#define LANES 8
#define PLACES ((64 / 8) / sizeof(int))
typedef struct { REAL3 place[PLACES]; short kind; } Body;
DEVICE float root(float a) {
#ifdef WARPED
    if (a > LANES) {
#else
    if (a < LANES) {
#endif
        return ROOT(a);
    }
    return a;
}
__kernel void roots(__global float *y, int n) { int i = get_global_id(0); if (i < n) y[i] = root(y[i]); }
#ifdef SECOND
#ifdef __NVCC__
template <int W>
__global__ void copy(float *y, const Body *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#else
__kernel void copy(__global float *y, __global const Body *x, int n) {
    int i = get_global_id(0);
#endif
    if (i < n) { y[i] = x[i].place[0].x; }
}
#endif
"""


def test_a_draft_has_what_the_compiler_of_its_language_reads_for_the_kernel(tmp_path: Path, tune: Tune) -> None:
    """The branches of other compilers are none of the kernel's, whose braces have their partners; flags and numbers of
    other functions are none of its parameters; and a flag without which there is no kernel is defined."""
    source = tmp_path / "f.cl"
    source.write_text(OF_TWO_COMPILERS)
    drafts = dict[str, Any]()
    for kernel in ("roots", "copy"):
        done = tune("new", source, "--entry", kernel, "--output", tmp_path / f"{kernel}.yaml")
        assert done.status == 0, done.err
        drafts[kernel] = read(tmp_path / f"{kernel}.yaml").data
    assert [*drafts["roots"]["parameters"]] == ["LANES", "FAST", "WARPED", "block_size_x"]
    assert (drafts["copy"]["kernel"], drafts["copy"]["grid"]) == ("copy", ["ceil_div(n, block_size_x)"])
    assert (drafts["copy"]["parameters"]["SECOND"], [*drafts["copy"]["parameters"]]) == (
        [True],
        ["SECOND", "block_size_x"],
    )
    x = drafts["copy"]["operation"]["arguments"][1]
    assert (x["dtype"], x["shape"]) == ("uint8", ["n", 48]), "OpenCL aligns float4, and so the struct, to 16 bytes"


def test_a_number_that_only_chooses_among_loops_of_another_kernel_is_no_parameter(tmp_path: Path, tune: Tune) -> None:
    """The pragmas of its loops are all that is left where a CUDA file's other functions are cut."""
    source = tmp_path / "f.cu"
    loop = "#pragma unroll EACH\n    for (int k = 0; k < n; k++)"
    source.write_text(f"""\
#define TILED 1
#define EACH 4
__global__ void first(float *y, int n) {{ int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = 2.0f; }}
__global__ void sums(float *y, const float *x, int n) {{
    int i = blockIdx.x * 64 + threadIdx.x;
    float s = 0;
#if TILED
    {loop} s += x[k];
#else
    {loop} s = s + x[k];
#endif
    if (i < n) y[i] = s;
}}
int main() {{ return 0; }}
""")
    for entry, found in (("first", set()), ("sums", {"TILED", "EACH"})):
        done = tune("new", source, "--entry", entry, "--output", tmp_path / f"{entry}.yaml")
        assert done.status == 0, done.err
        assert {"TILED", "EACH"} & {*read(tmp_path / f"{entry}.yaml").data["parameters"]} == found
