"""Other programs may keep a processor busy: what they do to a time does not decide a search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.ledgers import finished
from helpers.processes import Tune


@pytest.mark.slow
def test_a_hopeless_time_is_looked_at_again(tune: Tune, stage: Stage) -> None:
    body = f"""
    calls++;
    if (mode != 1) usleep(3000);
    if (mode == 1 && calls < 3) usleep(20000);  /* as long as others keep the machine busy */
    {MULTIPLY}
    """
    file = stage(c_kernel("late", body, "static int calls;"), "late", "{mode: [0, 2, 3, 4, 5, 6, 1]}")
    done = tune(file, "8", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"mode": 1}


@pytest.mark.gpu
def test_a_run_that_stalls_on_a_gpu_is_looked_at_again(tune: Tune, stage: Stage) -> None:
    text = """
    #include "portable.h"
    __device__ int calls;
    __device__ void spin(long long cycles) { for (long long begin = clock64(); clock64() - begin < cycles;); }
    KERNEL void stalls(GLOBAL float *C, GLOBAL const float *A, GLOBAL const float *B, int M, int N, int K, int batch,
                       float alpha, float beta) {
        int i = blockIdx.x * 64 + threadIdx.x;
        if (i == 0 && mode != 1) spin(100000);
        if (i == 0 && mode == 1 && ++calls == 2) spin(4000000);
        if (i >= M * N) return;
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = SCALED(alpha, sum, beta, C[i]);
    }
    """
    more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
    done = tune(stage(text, "stalls", "{mode: [0, 2, 3, 4, 5, 6, 1]}", "cuda", more), "8", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"mode": 1}


@pytest.mark.slow
def test_times_that_differ_too_much_are_looked_at_again_by_the_next_command(
    tune: Tune, stage: Stage, tmp_path: Path
) -> None:
    body = f"""
    if (mode == 0) usleep(2000);
    if (mode == 1 && access("{tmp_path}/idle", 0) != 0) usleep(10000 << calls++ % 5);
    if (mode == 2) usleep(30000);
    {MULTIPLY}
    """
    file = stage(c_kernel("busy", body, "static int calls;"), "busy", "{mode: [0, 1, 2]}")
    busy = tune(file, "8", "--json")
    assert busy.json["best"]["config"] == {"mode": 0}
    (tmp_path / "idle").touch()
    idle = tune(file, "8", "--json")
    assert "3 measured before" in idle.err
    assert idle.json["best"]["config"] == {"mode": 1}
    counts = {json.loads(config)["mode"]: count for config, count in finished(tmp_path).items()}
    assert (counts[0], counts[2]) == (1, 1), "nothing else was in doubt"


@pytest.mark.slow
@pytest.mark.usefixtures("whole_finals")
def test_times_that_are_noise_bring_more_rounds_and_a_word(tune: Tune, stage: Stage) -> None:
    # The naps have no period: a time that comes back with one set of inputs would count as the work of that set.
    body = f"state = state * 1664525u + 1013904223u; usleep(100 << (state >> 29)); {MULTIPLY}"
    file = stage(c_kernel("noisy", body, "static unsigned state;"), "noisy", "{mode: [0]}")
    done = tune(file, "8", "--json")
    assert done.status == 0, done.err
    assert "so its time is uncertain" in done.err
    assert tune("best", file, "8", "--json").json["record"]["rounds"] > 50
