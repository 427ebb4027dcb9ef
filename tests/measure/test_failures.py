"""A configuration that fails is counted with its reason, and the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuner
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune
from tuner.errors import RequestError


@pytest.mark.slow
def test_a_configuration_that_fails_is_counted_with_its_reason_and_the_run_goes_on(tune: Tune, stage: Stage) -> None:
    body = f"""
    #if mode == 1
        this does not compile
    #elif mode == 2
        return;                 /* nothing is written */
    #elif mode == 3
        abort();
    #elif mode == 4
        *(volatile int *)0 = 1;
    #elif mode == 5
        for (;;) usleep(1000);
    #elif mode == 6
        C[-1] = 0;
    #elif mode == 8
        if (M * N * K > 0 && beta == 0) alpha += 0; beta = 0;   /* right as long as beta is 0 */
    #elif mode == 7
        exit(3);
    #endif
    {MULTIPLY}
    """
    file = stage(c_kernel("faulty", body), "faulty", "{mode: [1, 2, 3, 0, 4, 5, 6, 7, 8]}")
    done = tune(file, "20", "--json", "--timeout", "6")
    assert done.status == 0, done.err
    result = done.json
    assert result["evaluated"] == 9
    assert result["failed"] == {
        "compile": 1,
        "not a number": 1,
        "writes outside": 1,
        "crash": 3,
        "timeout": 1,
        "finals": 1,
    }
    assert "with alpha=1.3, beta=0.3: C[0, 0, 0]" in done.err
    assert result["best"]["config"] == {"mode": 0}
    assert "this" in done.err, "the compiler's log"
    assert "SIGABRT" in done.err or "SIGSEGV" in done.err or "status 3" in done.err


@pytest.mark.slow
def test_an_opencl_configuration_that_does_not_compile_or_launch_is_counted(tune: Tune, stage: Stage) -> None:
    text = """
    #if mode == 1
    this does not compile
    #endif
    #if mode == 2
    __attribute__((reqd_work_group_size(7, 1, 1)))
    #endif
    __kernel void picky(__global float *C, __global const float *A, __global const float *B, int M, int N, int K,
                        int batch, float alpha, float beta) {
        int i = get_global_id(0);
        if (i >= M * N) return;
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
        C[i] = mode == 3 ? s + 1 : beta == 0 ? alpha * s : alpha * s + beta * C[i];
    }
    """
    more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
    done = tune(stage(text, "picky", "{mode: [0, 1, 2, 3]}", "opencl", more), "20", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"compile": 1, "launch": 1, "wrong result": 1}


@pytest.mark.slow
def test_an_opencl_kernel_with_other_arguments_than_its_space_declares_is_told(tune: Tune, stage: Stage) -> None:
    for arguments, told in (("__global float *C", "takes 1 arguments, but its space declares 9"),
                            ("__global float *C, __global float *A, __global float *B, int M, int N, int K, int batch, "
                             "double alpha, double beta", "has 4 bytes, but other takes 8 here")):  # fmt: skip
        more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
        text = f"__kernel void other({arguments}) {{}}"
        done = tune(stage(text, "other", "{mode: [0]}", "opencl", more), "20", "--timeout", "60")
        assert done.status == 1
        assert told in done.err


@pytest.mark.slow
def test_a_configuration_without_a_geometry_fails_alone(tune: Tune, stage: Stage) -> None:
    text = """
    __kernel void edge(__global float *C, __global const float *A, __global const float *B, int M, int N, int K,
                       int batch, float alpha, float beta) {
        int i = get_global_id(0);
        if (i >= M * N) return;
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
        C[i] = beta == 0 ? alpha * s : alpha * s + beta * C[i];
    }
    """
    more = 'grid: ["ceil_div(M * N, 8)"]\nblock: [t * 8]'
    done = tune(stage(text, "edge", "{t: [0, 1]}", "opencl", more), "8", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"geometry": 1}


@pytest.mark.slow
def test_the_times_before_a_wrong_run_do_not_count_for_the_next_configuration(tune: Tune, stage: Stage) -> None:
    body = f"if (mode == 1 && ++calls == 6) alpha = 0; {MULTIPLY}"  # its fifth timed run
    file = stage(c_kernel("late", body, "static int calls;"), "late", "{mode: [1, 0]}")
    done = tune(file, "8", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"wrong in a later run": 1}
    assert done.json["best"]["config"] == {"mode": 0}


@pytest.mark.slow
def test_run_survives_a_kernel_that_crashes(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("fatal", "abort();"), "fatal", "{a: [1]}", "c", "default: {a: 1}")
    done = tune("run", file, "8", "--json")
    assert done.status == 1
    assert done.json["verified"] is False
    assert done.json["config"] == {"a": 1}
    assert "SIGABRT" in done.err


@pytest.mark.gpu
def test_run_survives_a_cuda_kernel_that_faults_while_it_is_timed(tune: Tune, stage: Stage) -> None:
    text = """
    #include "portable.h"
    __device__ int calls;
    KERNEL void late(GLOBAL float *C, GLOBAL const float *A, GLOBAL const float *B, int M, int N, int K, int batch,
                     float alpha, float beta) {
        int i = blockIdx.x * 64 + threadIdx.x;
        if (i == 0 && ++calls == 6) C[1ul << 45] = 1; // no such address
        if (i >= M * N) return;
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = SCALED(alpha, sum, beta, C[i]);
    }
    """
    more = "extent: [M * N]\ngrid_divisors: {x: [64]}\nblock: [64]"
    done = tune("run", stage(text, "late", "{a: [1]}", "cuda", more), "8", "--json")
    assert done.status == 1
    assert done.json["verified"] is False
    assert "illegal" in done.err


@pytest.mark.slow
def test_a_space_in_which_nothing_is_right_exits_with_1(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("wrong", "C[0] = 1;"), "wrong", "{a: [1, 2]}")
    done = tune(file, "8", "--json")
    assert done.status == 1
    assert done.json["best"] is None
    assert done.json["failed"] == {"wrong result": 2}
    assert tune("best", file, "8", "--json").json["match"] == "default"
    assert "no record; the default, which failed verification: a=1: C[0, 0, 0] = 1, " in tune("best", file, "8").out
    with pytest.warns(UserWarning, match=r"a=1 failed verification on .* at M=8, .*: C\[0, 0, 0\] = 1, .*; mend"):
        assert tuner.load(file, 8).match == "default"
    assert "which is unverified" in tune("best", file, "9").out, "at another size"
    assert tune("run", file, "9", "--set", "beta=2").status == 1
    told = tune("best", file, "9", "--set", "beta=2")
    assert "which failed verification: a=1: C[0, 0, 0] = 1, " in told.out
    assert "at M=9, N=9, K=9, batch=1, beta=2: C[0, 0, 0] = 1, " in told.err
    file.with_suffix(".c").write_text(c_kernel("wrong", MULTIPLY))
    assert "which is unverified" in tune("best", file, "8").out, "of another kernel"


@pytest.mark.slow
def test_what_is_found_wrong_later_is_given_to_nobody(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    body = f"""
    if (access("{tmp_path}/wrong_" NAME(mode), F_OK) == 0) {{ C[0] = 1; return; }}
    if (mode == 2) usleep(2000);
    {MULTIPLY}
    """
    file = stage(c_kernel("late", body, "#define TEXT(x) #x\n#define NAME(x) TEXT(x)"), "late", "{mode: [1, 2]}")
    assert tune(file, "8", "--json").json["best"]["config"] == {"mode": 1}
    (tmp_path / "wrong_1").touch()
    assert tune("run", file, "8").status == 1
    assert "best: mode=2\n" in (told := tune("best", file, "8").out)
    assert "ms, runner-up 1 of the record: faster ones are not valid here, or failed verification" in told
    assert tuner.load(file, 8, strict=True).config == {"mode": 2}
    again = tune(file, "8", "--json", "--repeats", "9")
    assert (again.json["failed"], again.json["stored"]) == ({"wrong result": 1}, True)
    assert "runner-up" not in tune("best", file, "8").out
    (tmp_path / "wrong_2").touch()
    assert tune("run", file, "8").status == 1
    with pytest.raises(RequestError, match=r"mode=2 failed verification on .*; mend the kernel, and tune it again"):
        tuner.load(file, 8, strict=True)


@pytest.mark.slow
def test_a_search_whose_builds_all_fail_alike_is_given_up(tune: Tune, stage: Stage) -> None:
    knobs = f"{{a: {list(range(10))}, b: [0, 1, 2]}}"
    file = stage(c_kernel("hopeless", "C[0] = undeclared;"), "hopeless", knobs, "c", "default: {a: 2, b: 1}")
    done = tune(file, "8", "--json", "--repeats", "1")
    assert done.status == 1
    assert 20 <= done.json["evaluated"] < 30
    assert done.json["failed"] == {"compile": done.json["evaluated"]}
    assert "configurations all fail to compile with the same message: hopeless.c:" in done.err
    assert "'undeclared' undeclared (first use in this function); fix the source" in done.err
    assert "compile, with every configuration\n" in tune("failures", file, "8").out


@pytest.mark.slow
def test_a_longer_timeout_tries_what_timed_out_again(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("late", f"static int n; if (!n++) sleep(2); {MULTIPLY}"), "late", "{a: [1]}")
    assert tune(file, "8", "--json", "--timeout", "1.5").json["failed"] == {"timeout": 1}
    assert tune(file, "8", "--json", "--timeout", "1.5").json["failed"] == {"timeout": 1}
    assert tune(file, "8", "--json").json["failed"] == {}


FAULTY = """
extern "C" __global__ void faulty(float *C, const float *A, const float *B, int M, int N, int K, int batch,
                                  float alpha, float beta) {
#if mode == 1
    this does not compile
#elif mode == 2
    C[1ull << 50] = 0;                      // illegal address: the context is lost
#elif mode == 3
    ((float *)((char *)C + 2))[0] = 1;      // misaligned
#elif mode == 4
    while (*(volatile const float *)A < 100.0f) { }  // never ends
#elif mode == 5
    __shared__ float big[200 * 1024];       // too much
    big[threadIdx.x] = alpha;
    __syncthreads();
    if (big[threadIdx.x ^ 1] == 77) return;
#elif mode == 6
    asm volatile("trap;");
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    float s = 0;
    for (int k = 0; k < K; k++) s += A[i / N * K + k] * B[k * N + i % N];
    C[i] = mode == 7 ? s + 1 : beta == 0 ? alpha * s : alpha * s + beta * C[i];
}
"""


@pytest.mark.gpu
def test_a_cuda_configuration_that_fails_costs_only_itself(tune: Tune, stage: Stage) -> None:
    more = "extent: [M * N]\ngrid_divisors: {x: [threads]}\nblock: [threads]"
    parameters = "{mode: [1, 2, 3, 0, 4, 5, 6, 7], threads: [64]}"
    done = tune(stage(FAULTY, "faulty", parameters, "cuda", more), "64", "--json", "--timeout", "10")
    assert done.status == 0, done.err
    assert done.json["failed"] == {
        "compile": 2, "launch": 1, "illegal memory access": 1, "misaligned address": 1, "timeout": 1, "wrong result": 1
    }  # fmt: skip
    assert done.json["best"]["config"] == {"mode": 0, "threads": 64}
