"""From a configuration to the text that a compiler sees."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from helpers.kernels import Stage
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices.cuda.compiler import compile_cubin
from tuner.errors import BuildError
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering
from tuner.space.sources.source import Source

KERNEL = """\
#include <mma.h> /* whose words are not ours:
                    it knows a `half` and a `count` */
#include <cuda_fp16.h>
#ifndef half
#define half 1
#endif
#if half != 2 && half != 4
#error "the value is lost"
#endif
extern "C" __global__ void k(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha,
                             float beta) {
    C[0] = half + count;
}
"""


def rendered(space: Space, half: int) -> Source:
    scope = Scope({"M": 8, "N": 8, "K": 8, "batch": 1}, space.operation.options, "cuda", Limits())
    return rendering.render(Instance(space, {"half": half, "count": 7}, scope))[0].source


@pytest.fixture
def space(stage: Stage) -> Space:
    return catalog.load(str(stage(KERNEL, "k", "{half: [2, 4], count: [7]}", "cuda", "grid: [1]\nblock: [1]")))


def test_macros_reach_the_kernel_and_no_header_of_others(space: Space) -> None:
    two, four = (compile_cubin(rendered(space, half), "sm_90a").binary for half in (2, 4))
    assert two != four


def test_lines_are_counted_as_in_the_file(space: Space) -> None:
    text = rendered(space, 2).text
    after = text.partition("#include <cuda_fp16.h>")[2].splitlines()
    line = next(number for number, line in enumerate(after) if line.startswith("#line"))
    assert (after[line], after[line + 2]) == ('#line 3 "k.cu"', "#ifndef half")


SKIPPED = """\
#ifndef __CUDACC_RTC__
#include <vector>
#include "mine.h"
#endif
#if 0
#include <cstdint>
#else
#endif
extern "C" __global__ void f(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha,
                             float beta) {
    C[0] = undefined_thing + half * count;
}
"""


def test_an_error_behind_headers_that_are_skipped_names_its_line(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "mine.h").write_text("// of the host\n" * 30)
    skipping = catalog.load(str(stage(SKIPPED, "f", "{half: [2, 4], count: [7]}", "cuda", "grid: [1]\nblock: [1]")))
    with pytest.raises(BuildError, match=r'^f\.cu\(11\): error: identifier "undefined_thing" is undefined'):
        compile_cubin(rendered(skipping, 2), "sm_90a")


def test_a_header_that_is_not_there_is_named_with_its_line(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "mine.h").touch()
    text = SKIPPED.replace("__CUDACC_RTC__", "NOWHERE").replace("<vector>", "<nobody_has_it>")
    missing = catalog.load(str(stage(text, "f", "{half: [2, 4], count: [7]}", "cuda", "grid: [1]\nblock: [1]")))
    with pytest.raises(BuildError, match=r'f\.cu\(2\): .*cannot open source file "nobody_has_it"'):
        compile_cubin(rendered(missing, 2), "sm_90a")


@pytest.mark.slow
def test_headers_that_include_one_another_without_end_are_one_message(stage: Stage, tune: Tune, tmp_path: Path) -> None:
    file = stage('#include "h0.h"\nvoid deep() {}\n', "deep", "{v: [1]}")
    for number in range(1500):
        (tmp_path / f"h{number}.h").write_text(f'#include "h{number + 1}.h"\n')
    (tmp_path / "h1500.h").write_text("")
    done = tune("best", file, "8", "--device", "host")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert "deep.c: its includes are nested too deeply" in done.err


def test_a_source_of_open_comments_or_without_end_is_one_message(stage: Stage, tune: Tune, tmp_path: Path) -> None:
    file = stage("/*" * 300_000, "open", "{v: [1]}")
    before = time.process_time()
    assert "has no entry point 'open'" in tune("validate", file).err
    assert time.process_time() - before < 10, "not from every one to the end"
    with (tmp_path / "open.c").open("wb") as sparse:
        sparse.truncate(1 << 40)
    done = tune("validate", file)
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "open.c: 1099511627776 bytes; at most 10,000,000 characters are allowed" in done.err
