"""Exports of configurations with loops of steps: bundles, run on a stand-in of the driver, headers and sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.bundles import bundle, run_on_stand_in
from helpers.loops import STRUCT, STRUCTURED, written_loop
from helpers.processes import Tune, run
from helpers.steps import written
from tuner import devices

pytestmark = pytest.mark.usefixtures("untuned")

no_driver = pytest.mark.skipif(devices.count("cuda") > 0, reason="there is a driver; -m gpu runs it")
ARCHITECTURE = ("--architecture", "sm_90a")
RUNS = 11  # of the example
TELL = 'printf("k=%d j=%d\\n", *(int *)p[2], *(int *)p[3]);'
ADVANCE = "for (int i = 0; i < 100; i++) (*(float **)p[0])[i] = (*(float **)p[1])[i] + *(int *)p[3];"
SETTLE = """
    static int passes;
    if (!strcmp(name, "begin")) passes = 0;
    if (!strcmp(name, "settle")) **(char **)p[3] = ++passes < PASSES;
"""


@pytest.mark.slow
@no_driver
def test_the_example_launches_a_loop_with_the_values_of_each_pass(tune: Tune, tmp_path: Path) -> None:
    (build,) = bundle(tune, tmp_path, str(written_loop(tmp_path, "bitonic")), "8", *ARCHITECTURE)["builds"]
    assert [launch["values"] for launch in build["launches"]] == [
        {"k": k, "j": j} for k, j in ((2, 1), (4, 2), (4, 1), (8, 4), (8, 2), (8, 1))
    ]
    done = run_on_stand_in(tmp_path, TELL)
    told = [line for line in done.stdout.splitlines() if line.startswith("k=")]
    assert told == ["k=2 j=1", "k=4 j=2", "k=4 j=1", "k=8 j=4", "k=8 j=2", "k=8 j=1"] * RUNS, done.stderr


@pytest.mark.slow
@no_driver
@pytest.mark.parametrize(("time", "copies"), [(7, 1), (8, 0)])
def test_the_example_leaves_the_answer_of_swapped_arrays_in_the_output(
    time: int, copies: int, tune: Tune, tmp_path: Path
) -> None:
    bundle(tune, tmp_path, str(written_loop(tmp_path, "hotspot")), f"100x{time}", *ARCHITECTURE)
    done = run_on_stand_in(tmp_path, ADVANCE)
    assert done.stdout.splitlines()[-1] == f"t: {1 + time * RUNS} {1 + time * RUNS}", done.stderr
    assert done.stdout.count("copy 400") == copies * RUNS


@pytest.mark.slow
@no_driver
def test_the_example_repeats_a_while_until_its_flag_is_zero(tune: Tune, tmp_path: Path) -> None:
    bundle(tune, tmp_path, str(written_loop(tmp_path, "bfs")), "100", *ARCHITECTURE)
    done = run_on_stand_in(tmp_path, SETTLE.replace("PASSES", "5"))
    assert [done.stdout.count(f"launch {name}") for name in ("begin", "visit", "settle")] == [RUNS, 5 * RUNS, 5 * RUNS]
    endless = run_on_stand_in(tmp_path, SETTLE.replace("PASSES", "100"))
    assert (endless.returncode, endless.stderr) == (1, "going: it is not 0 after the most passes that are allowed\n")
    assert endless.stdout.count("launch settle") == 64


USER = """
#include <stdio.h>
#include "hotspot.h"
#define ADVANCE(x, y, z, exchanged, steps) total += steps; swaps += exchanged; blocks += x * y * z;
#define COPY(to, from) printf("%s from %s, ", #to, #from);
int main(void) {
    int total = 0, swaps = 0, blocks = 0;
    LP_STRETCH_1_LAUNCHES(ADVANCE)
    LP_STRETCH_1_COPIES(COPY)
    return printf("%d %d %d %d\\n", total, swaps, blocks, LP_STRETCHES) < 0;
}
"""


def test_a_header_has_each_launch_of_a_loop(tune: Tune, tmp_path: Path) -> None:
    file = written_loop(tmp_path, "hotspot")
    header = tmp_path / "hotspot.h"
    done = tune("export", file, "100x7", "--to", "header", "--device", "host", "--output", header)
    assert done.status == 0, done.err
    prefix = header.read_text().partition("#ifndef ")[2].partition("_H\n")[0]
    run(
        "cc",
        "-Wall",
        "-Werror",
        "-I",
        tmp_path,
        "-o",
        tmp_path / "user",
        "-x",
        "c",
        "-",
        text=USER.replace("LP", prefix),
    )
    assert run(tmp_path / "user").stdout == "t from other, 7 3 14 1\n"
    done = tune("export", file, "100x20000", "--to", "header", "--device", "host", "--output", header)
    assert "20,000 launches; --to header holds at most 10,000; use --to cubin" in done.err


def test_a_source_says_in_words_in_which_order_its_steps_are_launched(tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "bfs.c"
    done = tune("export", written_loop(tmp_path, "bfs"), "100", "--to", "cu", "--device", "host", "--output", file)
    assert done.status == 0, done.err
    assert (
        " * The steps are launched in this order, 3 launches and more, as long as a flag says so:\n"
        " *   begin with grid [2, 1, 1]\n"
        " *   while: going, most: 64\n"
        " *     visit with grid [2, 1, 1]\n"
    ) in file.read_text()


@pytest.mark.slow
@no_driver
def test_the_example_passes_a_struct_that_changes(tune: Tune, tmp_path: Path) -> None:
    file = written(tmp_path, "bitonic", STRUCTURED, STRUCT)
    (build,) = bundle(tune, tmp_path, str(file), "4", *ARCHITECTURE)["builds"]
    assert build["launches"][1]["values"]["s"] == {"pad": 0, "k": 4, "j": 2, "unused": 0.0, "rest": 2.0}
    tell = 'printf("k=%d j=%d %g\\n", ((int *)p[2])[1], ((int *)p[2])[2], ((double *)p[2])[3]);'
    told = [line for line in run_on_stand_in(tmp_path, tell).stdout.splitlines() if line.startswith("k=")]
    assert told == ["k=2 j=1 2", "k=4 j=2 2", "k=4 j=1 4"] * RUNS
    done = tune("export", file, "4", "--to", "header", "--device", "host", "--output", tmp_path / "x.h")
    assert "s is a struct that changes from launch to launch, which --to header does not hold; use --to" in done.err
