"""The environment that changes threads, memory or code is part of what a study, a record and a build are of."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers import ROOT
from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune, run, start
from tuner import devices
from tuner.devices.cuda import launch_settings

PROCESSORS = str(len(os.sched_getaffinity(0)))
COUNT = f"int chosen = a; (void)chosen;\n#pragma omp parallel\n{{ }}\n{MULTIPLY}"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without any setting of OpenMP or PoCL."""
    for name in list(os.environ):
        if name.startswith(("OMP_", "GOMP_", "KMP_", "POCL_")):
            monkeypatch.delenv(name)


def conditions(kind: str, monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    """The conditions of a device that is opened with these variables."""
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        device = devices.open_device(kind)
        device.close()
        return dict(device.conditions.values)


@pytest.mark.slow
def test_other_threads_are_measured_again_and_are_not_exact(
    plain: None, tune: Tune, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stage(c_kernel("threads", COUNT), "threads", "{a: [0, 1]}")
    request = (file, "16", "--json", "--repeats", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    first = tune(*request)
    assert (first.status, "measured before" in first.err) == (0, False)
    assert first.json["conditions"] == ({"OMP_NUM_THREADS": 1} if PROCESSORS != "1" else {})
    assert tune("best", file, "16", "--json").json["match"] == "exact"
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    found = tune("best", file, "16", "--json")
    assert (found.json["match"], found.json["waiting"]) == ("nearest_size", None)
    assert found.json["conditions"] == "OMP_NUM_THREADS=1 instead of 8"
    assert "the record was measured with OMP_NUM_THREADS=1 instead of 8" in found.err
    assert "with OMP_NUM_THREADS=1 instead of 8" in tune("best", file, "16").out
    devices._shared_devices.clear()
    with pytest.warns(UserWarning, match="OMP_NUM_THREADS=1 instead of 8"):
        kernel = tuner.load(file, 16)
    assert kernel.match == "nearest_size"
    second = tune(*request)
    assert (second.status, "measured before" in second.err) == (0, False)
    assert second.json["conditions"] == {"OMP_NUM_THREADS": 8}
    assert tune("best", file, "16", "--json").json["match"] == "exact"
    assert "2 measured before" in tune(*request).err
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert "2 measured before" in tune(*request).err
    assert tune("best", file, "16", "--json").json["record"]["conditions"] == first.json["conditions"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        devices._shared_devices.clear()
        kernel = tuner.load(file, 16)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # a launch does not read it again
    matrix = np.ones((1, 16, 16), np.float32)
    kernel(np.zeros_like(matrix), matrix, matrix)
    assert (kernel.match, tuner.load(file, 16).match) == ("exact", "exact")
    devices._shared_devices.clear()


@pytest.mark.slow
def test_reports_and_exports_are_of_the_conditions_of_the_device_that_is_named(
    plain: None, tune: Tune, stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = stage(c_kernel("shown", f"if (a == 0) usleep(2000); {MULTIPLY}"), "shown", "{a: [0, 1, 2]}")
    monkeypatch.setenv("OMP_SCHEDULE", "guided")
    assert tune(file, "16", "--repeats", "1").status == 0
    guided = tune("export", file, "16", "--to", "csv", "--device", "host", "--output", tmp_path / "guided.csv")
    assert guided.status == 0
    told = tune("explain", file, "16", "--device", "host", "--json")
    assert told.status == 0, told.err
    assert "this machine has no" not in told.err
    monkeypatch.delenv("OMP_SCHEDULE")
    elsewhere = tune("explain", file, "16", "--device", "host")
    assert "OMP_SCHEDULE=guided" in elsewhere.err
    assert tune("history", file, "16", "--json").json["conditions"] == {"OMP_SCHEDULE": "guided"}
    page = tune("report", file, "16", "--json").json["environment"]
    assert page["conditions"] == "OMP_SCHEDULE=guided"


SAME_ON_HOST = [
    {"OMP_NUM_THREADS": PROCESSORS},
    {"OMP_NUM_THREADS": f" {PROCESSORS} "},
    {"OMP_NUM_THREADS": "none"},  # libgomp rejects it
    {"OMP_DYNAMIC": "false", "OMP_NESTED": "FALSE", "OMP_MAX_ACTIVE_LEVELS": "1", "OMP_CANCELLATION": "no"},
    {"OMP_PROC_BIND": "FALSE", "OMP_PLACES": "cores"},
    {"OMP_WAIT_POLICY": "", "GOMP_SPINCOUNT": "300k"},
    {"OMP_SCHEDULE": "Dynamic, 1", "OMP_THREAD_LIMIT": "2147483647"},
    {"OMP_SCHEDULE": "nonmonotonic:dynamic"},
    {"NUMPY_MADVISE_HUGEPAGE": "1"},
    {"OMP_DISPLAY_ENV": "TRUE", "OMP_DISPLAY_AFFINITY": "true", "GOMP_DEBUG": "0", "OMP_DEFAULT_DEVICE": "1"},
    {"KMP_BLOCKTIME": "0"},  # libgomp does not read it
    {"TUNER_CACHE": "/tmp/other", "POCL_MAX_PTHREAD_COUNT": "1", "CUDA_LAUNCH_BLOCKING": "1"},
]
OTHER_ON_HOST = [
    ({"OMP_NUM_THREADS": "64"}, {"OMP_NUM_THREADS": 64}),
    ({"OMP_NUM_THREADS": "64,2"}, {"OMP_NUM_THREADS": "64,2"}),
    ({"OMP_NUM_THREADS_ALL": "64"}, {"OMP_NUM_THREADS": 64}),
    ({"OMP_NUM_THREADS": "64", "OMP_THREAD_LIMIT": "32"}, {"OMP_NUM_THREADS": 32, "OMP_THREAD_LIMIT": 32}),
    ({"OMP_DYNAMIC": "true"}, {"OMP_DYNAMIC": 1}),
    ({"OMP_SCHEDULE": "static"}, {"OMP_SCHEDULE": "static"}),
    ({"OMP_SCHEDULE": "monotonic:dynamic,1"}, {"OMP_SCHEDULE": "monotonic:dynamic"}),
    ({"OMP_PROC_BIND": "TRUE"}, {"OMP_PROC_BIND": "true"}),
    ({"OMP_PROC_BIND": "master"}, {"OMP_PROC_BIND": "primary"}),
    ({"OMP_PLACES": "{0}, {1}"}, {"OMP_PROC_BIND": "true", "OMP_PLACES": "{0},{1}"}),
    ({"GOMP_CPU_AFFINITY": "0"}, {"OMP_PROC_BIND": "true", "GOMP_CPU_AFFINITY": 0}),
    ({"GOMP_CPU_AFFINITY": "0 1"}, {"OMP_PROC_BIND": "true", "GOMP_CPU_AFFINITY": "0 1"}),
    ({"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "active"}),
    ({"GOMP_SPINCOUNT": "0"}, {"GOMP_SPINCOUNT": 0}),
    ({"GOMP_SPINCOUNT": "INFINITY"}, {"GOMP_SPINCOUNT": "infinite"}),
    ({"OMP_STACKSIZE": "3 M"}, {"OMP_STACKSIZE": 3 << 20}),
    ({"GOMP_STACKSIZE": "3072"}, {"OMP_STACKSIZE": 3 << 20}),
    ({"OMP_NESTED": "true"}, {"OMP_MAX_ACTIVE_LEVELS": "many"}),
    ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
    ({"NUMPY_MADVISE_HUGEPAGE": "0"}, {"NUMPY_MADVISE_HUGEPAGE": 0}),
    ({"COMPILER_PATH": "/opt/bin"}, {"COMPILER_PATH": "/opt/bin"}),
]


@pytest.mark.parametrize("variables", SAME_ON_HOST, ids=lambda each: " ".join(each))
def test_what_equals_a_default_or_changes_no_thread_and_no_code_is_no_condition(
    variables: dict[str, str], plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc")
    assert conditions("host", monkeypatch, **variables) == {}


@pytest.mark.parametrize(("variables", "expected"), OTHER_ON_HOST, ids=lambda each: " ".join(each))
def test_what_changes_threads_or_code_on_the_host_is_a_condition(
    variables: dict[str, str], expected: dict[str, Any], plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc")
    assert conditions("host", monkeypatch, **variables) == expected


def test_a_variable_that_a_record_cannot_hold_is_a_condition_by_its_digest(
    plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = conditions("host", monkeypatch, GLIBC_TUNABLES="x" * 5000).values()
    (other,) = conditions("host", monkeypatch, GLIBC_TUNABLES="x" * 5001).values()
    assert one != other
    assert max(len(one), len(other)) < 100


SAME_ON_OPENCL = [
    {"POCL_MAX_PTHREAD_COUNT": str(os.cpu_count()), "POCL_AFFINITY": "0", "POCL_WORK_GROUP_METHOD": "loopvec"},
    {"POCL_MAX_WORK_GROUP_SIZE": "4096", "POCL_WORK_GROUP_SPECIALIZATION": "1"},
    {"POCL_DEBUG": "", "POCL_KERNEL_CACHE": "1", "POCL_VECTORIZER_REMARKS": "0", "OMP_NUM_THREADS": "1"},
]
OTHER_ON_OPENCL: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"POCL_MAX_PTHREAD_COUNT": "7"}, {"compute_units": 7}),
    ({"POCL_MAX_WORK_GROUP_SIZE": "64"}, {"POCL_MAX_WORK_GROUP_SIZE": 64}),
    ({"POCL_AFFINITY": "1"}, {"POCL_AFFINITY": 1}),
    ({"POCL_WORK_GROUP_METHOD": "loops"}, {"POCL_WORK_GROUP_METHOD": "loops"}),
    ({"POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable"}, {"POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable"}),
    ({"PYOPENCL_BUILD_OPTIONS": "-cl-opt-disable"}, {"PYOPENCL_BUILD_OPTIONS": "-cl-opt-disable"}),
]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [*((each, {}) for each in SAME_ON_OPENCL), *OTHER_ON_OPENCL],
    ids=lambda each: " ".join(each),
)
def test_what_changes_threads_or_code_on_opencl_is_a_condition(
    variables: dict[str, str], expected: dict[str, Any], plain: None
) -> None:
    assert opened(variables) == str(expected)


def opened(variables: dict[str, str], processors: str = "") -> str:
    """What a process of its own, since PoCL reads its variables once, tells of the conditions of an OpenCL device."""
    ask = "from tuner import devices; print(devices.open_device('opencl').conditions.values)"
    bound = ("taskset", "-c", processors) if processors else ()
    named = (f"{name}={value}" for name, value in variables.items())
    return run(*bound, "env", *named, ROOT / ".venv/bin/python", "-c", ask).stdout.strip()


@pytest.mark.skipif(PROCESSORS == "1", reason="needs two processors")
def test_fewer_processors_than_threads_are_a_condition_on_opencl(plain: None) -> None:
    first = str(min(os.sched_getaffinity(0)))
    assert opened({}, first) == "{'processors': 1}"


PLACES = """
import os
from tuner import devices
device = devices.open_apart("opencl")
bound = [places for task in os.listdir("/proc/self/task") if len(places := os.sched_getaffinity(int(task))) == 1]
print(device.conditions.values, sorted(place for places in bound for place in places))
"""


@pytest.mark.skipif(PROCESSORS == "1", reason="needs two processors")
@pytest.mark.skipif(os.sched_getaffinity(0) != set(range(os.cpu_count() or 1)), reason="needs all processors")
def test_a_process_that_times_has_each_thread_on_a_processor_of_its_own_unless_a_variable_places_them(
    plain: None,
) -> None:
    def told(*variables: str) -> str:
        return run("env", *variables, ROOT / ".venv/bin/python", "-c", PLACES).stdout.strip()

    assert told() == f"{{}} {[*range(os.cpu_count() or 1)]}"
    assert told("POCL_AFFINITY=0") == "{} []"


BOUND = """
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

void bound(float *y, const float *x, int n) {
    cpu_set_t processors, all;
    int wrong = is_bound && getenv("OMP_PROC_BIND") != NULL, threads = 0;
    CPU_ZERO(&all);
    #pragma omp parallel private(processors) reduction(+ : wrong, threads)
    {
        sched_getaffinity(0, sizeof processors, &processors);
        wrong += (CPU_COUNT(&processors) == 1) != is_bound;
        threads++;
        #pragma omp critical
        CPU_OR(&all, &all, &processors);
    }
    wrong += CPU_COUNT(&all) != threads;
    for (int i = 0; i < n; i++) y[i] = factor * x[i] + wrong;
}
"""


@pytest.mark.skipif(PROCESSORS == "1", reason="needs two processors")
def test_where_kernels_are_timed_each_thread_of_openmp_has_a_processor_of_its_own_unless_a_variable_places_them(
    plain: None, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bound.c").write_text(BOUND)
    (tmp_path / "bound.yaml").write_text(
        "{title: Bound, operation: {sizes: {n: }, arguments: [{name: y, dtype: float32, shape: [n], role: out}, "
        "{name: x, dtype: float32, shape: [n], role: in}, {name: n, dtype: int32}], reference: 2 * x}, "
        "kernel: bound, parameters: {factor: [2], is_bound: [1]}, compile_options: {c: [-fopenmp]}}"
    )
    monkeypatch.setenv("OMP_DYNAMIC", "false")
    monkeypatch.setenv("OMP_NUM_THREADS", "all")
    bound = tune(tmp_path / "bound.yaml", "100", "--device", "host")
    assert bound.status == 0, f"variables that change nothing: {bound.err}"
    file = tmp_path / "bound.yaml"
    file.write_text(file.read_text().replace("is_bound: [1]", "is_bound: [0]"))
    preloaded = "LD_PRELOAD=libgomp.so.1"  # before tuner can ask it to bind its threads
    run("env", preloaded, ROOT / ".venv/bin/tune", file, "100", "--device", "host")
    monkeypatch.setenv("OMP_PROC_BIND", "false")
    assert tune(file, "100", "--device", "host", "--fresh").status == 0, "they move"


FIRST_THREAD = """
import os
from pathlib import Path
import numpy as np
import tuner
from tuner import devices
from tuner.children import child
name = devices.open_device("host").name
kernel = tuner.load("sgemm/01_host_blocked", 64, device="host", config={"block_size": 16, "openmp": 1})
kernel(*(np.zeros((1, 64, 64), np.float32) for _ in range(3)))
child.prepare(dict(os.environ), [])
started = [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
print(devices.open_device("host").name == name, *(len(os.sched_getaffinity(pid)) for pid in (0, *started)))
"""


@pytest.mark.skipif(PROCESSORS == "1", reason="needs two processors")
def test_a_first_thread_that_openmp_binds_changes_neither_the_device_nor_the_processors_of_children(
    plain: None,
) -> None:
    def told(**variables: str) -> str:
        named = (f"{name}={value}" for name, value in variables.items())
        return run("env", *named, ROOT / ".venv/bin/python", "-c", FIRST_THREAD).stdout.strip()

    assert told() == f"True {PROCESSORS} {PROCESSORS}", "a program that launches keeps its processors"
    assert told(OMP_PROC_BIND="true") == f"True 1 {PROCESSORS}", "a user has asked for it"


@pytest.mark.slow
def test_pocl_builds_again_for_settings_that_its_own_cache_ignores(
    plain: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-cl-opt-disable")
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "kcache"))
    (tmp_path / "kcache").mkdir()
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    counts = []
    for value in ("", "8", "8"):
        monkeypatch.setenv("POCL_WILOOPS_MAX_UNROLL_COUNT", value)
        assert (command := start("run", "sgemm/03_naive", "16", "--device", "opencl")).wait() == 0, (
            command.stderr.read()
        )
        programs = {binary.parent for binary in (tmp_path / "kcache").rglob("program.bc")}
        counts.append((len(programs), len(list((tmp_path / "cache/builds").glob("*.figures")))))
    assert counts[0][0] < counts[1][0]
    assert counts[0][1] < counts[1][1]
    assert counts[1] == counts[2]


def test_settings_of_cuda_are_conditions_where_they_differ_from_their_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in launch_settings.DEFAULTS:
        monkeypatch.delenv(name, raising=False)
    same = {"CUDA_LAUNCH_BLOCKING": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "8", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"}
    others = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_CACHE_PATH": "/tmp", "CUDA_MODULE_LOADING": "EAGER"}
    for name, value in {**same, **others}.items():
        monkeypatch.setenv(name, value)
    assert not launch_settings.conditions()
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")
    monkeypatch.setenv("CUDA_FORCE_PTX_JIT", "1")
    assert str(launch_settings.conditions()) == "CUDA_FORCE_PTX_JIT=1, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50"


@pytest.mark.gpu
@pytest.mark.slow
def test_a_gpu_of_another_number_of_connections_is_measured_again(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ("sgemm/03_naive", "256", "--device", "cuda", "--json", "--repeats", "1", "--budget", "4")
    assert tune(*request).json["conditions"] == {}
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    found = tune("best", "sgemm/03_naive", "256", "--device", "cuda", "--json")
    assert (found.json["match"], found.json["conditions"]) == (
        "nearest_size",
        "the default CUDA_DEVICE_MAX_CONNECTIONS instead of 1",
    )
    again = tune(*request)
    assert "measured before" not in again.err
    assert again.json["conditions"] == {"CUDA_DEVICE_MAX_CONNECTIONS": 1}
