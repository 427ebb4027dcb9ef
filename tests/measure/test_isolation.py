"""On `host`, each configuration gets a process that is as the first one was."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

import pytest

from helpers.ledgers import outcomes
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure import benchmark

pytestmark = pytest.mark.slow

SPACE = """\
title: A kernel that changes its process
kernel: changes
languages: [c]
parameters: {parameters}
{more}
operation:
  sizes: {{n: }}
  extent: [n]
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: x, dtype: float32, shape: [n], role: in{fill}}}
    - {{name: n, dtype: int32}}
  reference: {reference}
"""

# All state must be as in a new process when the kernel is first called there; then all is changed. The result of a
# kernel that finds a changed one is wrong by 1 to 11, which tells the state.
CHANGES = (
    "".join(f"#define {name} {of(os.sched_getaffinity(0))}\n" for name, of in (("FIRST", min), ("LAST", max)))
    + r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void handle(int number) { (void)number; }
static void *wait_forever(void *unused) { for (;;) pause(); return unused; }

static int entries(const char *folder) {
    DIR *directory = opendir(folder);
    int count = 0;
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static int is_changed(int what) {
    cpu_set_t processors;
    struct rlimit limit;
    struct sigaction action;
    char folder[4096];
    switch (what) {
    case 0: return fegetround() != FE_TONEAREST;
    case 1: return omp_get_max_threads() == 3;
    case 2: /* the first thread is on the first processor: see OMP_PROC_BIND */
        sched_getaffinity(0, sizeof processors, &processors);
        return LAST != FIRST && CPU_COUNT(&processors) == 1 && CPU_ISSET(LAST, &processors);
    case 3: return getpriority(PRIO_PROCESS, 0) == 19;
    case 4: getrlimit(RLIMIT_CORE, &limit); return limit.rlim_max == 4321;
    case 5: sigaction(SIGUSR1, NULL, &action); return action.sa_handler == handle || action.sa_handler != SIG_DFL;
    case 6: return getenv("CHANGED") != NULL;
    case 7: return strcmp(getcwd(folder, sizeof folder), "/") == 0;
    case 8: { mode_t mask = umask(0); umask(mask); return mask == 0123; }
    case 9: return entries("/proc/self/fd") > 60;
    case 10: return entries("/proc/self/task") > 2 + 12;
    }
    return 0;
}

static void change(void) {
    cpu_set_t processors;
    struct rlimit limit = {4321, 4321};
    pthread_t thread;
    CPU_ZERO(&processors);
    CPU_SET(LAST, &processors);
    omp_set_num_threads(3);
    sched_setaffinity(0, sizeof processors, &processors);
    setpriority(PRIO_PROCESS, 0, 19);
    setrlimit(RLIMIT_CORE, &limit);
    signal(SIGUSR1, handle);
    setenv("CHANGED", "1", 1);
    chdir("/");
    umask(0123);
    for (int i = 0; i < 50; i++) open("/dev/null", O_RDONLY);
    for (int i = 0; i < 20; i++) pthread_create(&thread, NULL, wait_forever, NULL);
    fesetround(FE_UPWARD);
}

void changes(float *y, const float *x, int n) {
    static int calls;
    int wrong = 0;
    for (int what = 0; calls == 0 && what <= 10; what++)
        if (is_changed(what)) wrong = what + 1;
    #pragma omp parallel for
    for (int i = 0; i < n; i++) y[i] = 2 * x[i] + wrong;
    if (calls++ == 0) change();
}
"""
)


def space(folder: Path, source: str, parameters: str, reference: str = "2 * x", fill: str = "", more: str = "") -> Path:
    (folder / "changes.c").write_text(source)
    text = SPACE.format(parameters=parameters, reference=reference, fill=fill, more=more)
    (folder / "changes.yaml").write_text(text)
    return folder / "changes.yaml"


def test_nothing_that_a_kernel_changes_in_its_process_reaches_another_configuration(tune: Tune, tmp_path: Path) -> None:
    file = space(tmp_path, CHANGES, "{twin: [0, 1, 2]}")
    done = tune(file, "1000", "--device", "host", "--repeats", "3", "--full", "--json")
    assert done.status == 0, done.err
    assert {config: failure for config, failure in outcomes(tmp_path).items() if failure} == {}


TOLERANT, SUBNORMAL = "3 * x\n  tolerance: {rtol: 1e-6}", ", fill: {uniform: [1e-40, 3e-40]}"
# What gcc before version 13 links into a library with -Ofast.
FLUSHES = """
#if flushes
__attribute__((constructor)) static void flush_subnormals(void) {
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
}
#endif
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the register is that of x86")
def test_a_library_that_flushes_subnormal_numbers_fails_alone(tune: Tune, tmp_path: Path) -> None:
    source = FLUSHES + "void changes(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = 3 * x[i]; }"
    file = space(tmp_path, source, "{flushes: [1, 0], twin: [0, 1]}", TOLERANT, SUBNORMAL)
    done = tune(file, "1000", "--device", "host", "--repeats", "3", "--full", "--json")
    assert done.status == 0, done.err
    failed = {config for config, failure in outcomes(tmp_path).items() if failure == "wrong result"}
    assert failed == {json.dumps({"flushes": 1, "twin": twin}) for twin in (0, 1)}
    assert {failure for config, failure in outcomes(tmp_path).items() if config not in failed} == {None}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the register is that of x86")
def test_a_kernel_that_flushes_subnormal_numbers_does_not_judge_itself(tune: Tune, tmp_path: Path) -> None:
    """Its 0 differs from an answer of 1e-310, even where both would be taken for 0."""
    source = (
        FLUSHES + "void changes(double *y, const double *x, int n) { for (int i = 0; i < n; i++) y[i] = 3 * x[i]; }"
    )
    file = space(
        tmp_path, source, "{flushes: [1, 0]}", TOLERANT.replace("1e-6", "1e-12"), SUBNORMAL.replace("e-40", "e-310")
    )
    file.write_text(file.read_text().replace("float32", "float64"))
    done = tune(file, "1000", "--device", "host", "--repeats", "3", "--full", "--json")
    assert done.status == 0, done.err
    assert outcomes(tmp_path) == {json.dumps({"flushes": 1}): "wrong result", json.dumps({"flushes": 0}): None}


PARALLEL = """
#include <unistd.h>
void changes(float *y, const float *x, int n) {
    #pragma omp parallel for
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
}
void expected(float *y, const float *x, int n) {
    #pragma omp parallel for
    for (int i = 0; i < n; i++) y[i] = x[i] + x[i];
}
"""
FUNCTION = """
import ctypes
import numpy as np
library = ctypes.CDLL("{library}")
def expected(x):
    y = np.empty_like(x)
    library.expected(y.ctypes.data_as(ctypes.c_void_p), x.ctypes.data_as(ctypes.c_void_p), x.size)
    return y
"""


@pytest.mark.parametrize("reference", ["a function", "a kernel", "a configuration"])
def test_a_reference_that_uses_threads_hangs_no_kernel_that_does(reference: str, tune: Tune, tmp_path: Path) -> None:
    forms = {
        "a function": '{python: "expected.py:expected"}',
        "a kernel": "{kernel: expected, source: changes.c}",
        "a configuration": "{config: {twin: 0}}",
    }
    file = space(tmp_path, PARALLEL, "{twin: [0, 1, 2]}", forms[reference])
    library = tmp_path / "expected.so"
    subprocess.run(["cc", "-O2", "-fopenmp", "-shared", "-fPIC", "-o", library, tmp_path / "changes.c"], check=True)
    (tmp_path / "expected.py").write_text(FUNCTION.format(library=library))
    done = tune(file, "1000", "--device", "host", "--repeats", "3", "--timeout", "30", "--json")
    assert done.status == 0, done.err
    assert set(outcomes(tmp_path).values()) == {None}


COUNTED = """
#include <stdio.h>
#include <stdlib.h>
void changes(float *y, const float *x, int n) {
    static int calls;
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
    if (calls++) return;
    FILE *maps = fopen("/proc/self/maps", "r"), *trace = fopen(getenv("TRACE"), "a");
    int count = 0;
    for (int c; (c = getc(maps)) != EOF;) count += c == '\\n';
    fprintf(trace, "%d\\n", count);
    fclose(maps), fclose(trace);
}
"""


def test_no_memory_map_of_a_configuration_stays(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "trace"
    monkeypatch.setenv("TRACE", str(trace))
    done = tune(
        space(tmp_path, COUNTED, "{v: {from: 0, to: 14}}"), "1000", "--device", "host", "--repeats", "1", "--json"
    )
    assert done.status == 0, done.err
    counts = [int(line) for line in trace.read_text().split()]
    assert len(counts) >= 15
    assert max(counts) - min(counts) < 30, "each library has five"


def test_contestants_that_do_not_fit_together_give_their_memory_back_between_turns(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "VACATED_SHARE", 0.0)
    loaded = catalog.load(str(space(tmp_path, PARALLEL, "{v: [1, 2]}")))
    bench = benchmark.Bench(host, loaded, scope_of(loaded, host, "30000"))
    found = bench.finals([{"v": 1}, {"v": 2}], seconds=0.1)
    assert [final.failure for final in found.candidates] == [None, None]
    assert all(len(final.times) >= 5 for final in found.candidates)


def test_a_child_that_ends_without_an_answer_is_told_from_one_that_lost_it(tune: Tune, tmp_path: Path) -> None:
    source = (
        "#include <stdlib.h>\n"
        "void changes(float *y, const float *x, int n) {\n"
        "    if (status) exit(status - 1);\n"
        "    for (int i = 0; i < n; i++) y[i] = 2 * x[i];\n"
        "}\n"
    )
    done = tune(space(tmp_path, source, "{status: [0, 1, 4]}"), "1000", "--device", "host", "--repeats", "1", "--json")
    assert done.status == 0, done.err
    assert done.json["failed"] == {"crash": 2}
    assert "ended with status 0" in done.err
