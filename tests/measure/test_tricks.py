"""Kernels that win by a trick in their own process, or bring down others: each costs only itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.processes import Tune

SPACE = """\
title: A trick
operation:
  sizes: {n: }
  extent: [n]
  arguments:
    - {name: y, dtype: DTYPE, shape: [n], role: out}
    - {name: x, dtype: DTYPE, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: 3 * x + 7
kernel: trick
languages: [c]
parameters: {v: [1, 2]}
default: {v: 1}
"""
HEAD = """\
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <fcntl.h>
#include <unistd.h>
typedef TYPE T;
static T *out;
static const T *in;
static int count;
static void work(void) { for (int i = 0; i < count; i++) { out[i] = 3 * in[i] + 7; } }
static void on_alarm(int unused) { (void)unused; work(); }
static void on_read(int unused) {
    (void)unused;
    const uintptr_t page = (uintptr_t)out & ~4095ul;
    mprotect((void *)page, ((uintptr_t)(out + count) | 4095) + 1 - page, PROT_READ | PROT_WRITE);
    work();
}
void trick(T *y, const T *x, int n) {
    out = y, in = x, count = n;
    if (v == 1) { work(); return; }
    TRICK
}
"""
# What `v = 2` does, its dtype, and why it fails.
TRICKS = {
    "finds the right integers in what its output holds": (
        "for (int i = 0; i < n; i++) { y[i] = ~y[i]; }",
        "int32",
        "wrong result",
    ),
    "goes on at an alarm": (
        "signal(SIGALRM, on_alarm); struct itimerval t = {{0, 0}, {0, 100}}; setitimer(ITIMER_REAL, &t, 0);",
        "float32",
        "not a number",
    ),
    "computes when its output is read": (
        "static int calls; if (!calls++) { work(); return; } signal(SIGSEGV, on_read);"
        "const uintptr_t page = (uintptr_t)y & ~4095ul;"
        "mprotect((void *)page, ((uintptr_t)(y + n) | 4095) + 1 - page, PROT_NONE);",
        "float32",
        "unfinished",
    ),
    "says that the disk is full": (
        'fprintf(stderr, "No space left on device\\n"); fflush(stderr); abort();',
        "float32",
        "crash",
    ),
    "answers by itself": (
        'char text[99]; int size = snprintf(text, 99, "{\\"number\\": 3, \\"pid\\": %d}\\n", getpid());'
        "for (int fd = 500; fd < 5000; fd++) { if (write(fd, text, size) < 0) { continue; } }",
        "float32",
        "crash",
    ),
}


def written(folder: Path, trick: str, dtype: str) -> Path:
    text = HEAD.replace("TYPE", {"int32": "int", "float32": "float"}[dtype]).replace("TRICK", trick)
    (folder / "trick.c").write_text(text)
    (folder / "trick.yaml").write_text(SPACE.replace("DTYPE", dtype))
    return folder / "trick.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("name", TRICKS)
def test_a_trick_fails_and_the_honest_configuration_is_stored(name: str, tune: Tune, tmp_path: Path) -> None:
    trick, dtype, reason = TRICKS[name]
    done = tune(written(tmp_path, trick, dtype), "20000", "--device", "host", "--full", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"v": 1}
    assert done.json["failed"] == {reason: 1}, done.err


@pytest.mark.slow
def test_a_kernel_that_leaves_files_open_costs_no_other_configuration(tune: Tune, tmp_path: Path) -> None:
    trick = 'while (open("/dev/null", O_RDONLY) >= 0) {} work();'
    done = tune(written(tmp_path, trick, "float32"), "20000", "--device", "host", "--full", "--json")
    assert done.status == 0, done.err
    assert done.json["best"] is not None


@pytest.mark.slow
def test_a_stray_write_in_the_final_round_fails_only_its_own_kernel(tune: Tune, tmp_path: Path) -> None:
    trick = "static int calls; work(); if (++calls > 8) { memset(y + n, 1, 64); }"
    done = tune(written(tmp_path, trick, "float32"), "20000", "--device", "host", "--full", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"v": 1}
    assert set(done.json["failed"]) <= {"finals"}


@pytest.mark.slow
def test_a_kernel_that_is_killed_in_the_final_round_does_not_end_the_run(tune: Tune, tmp_path: Path) -> None:
    trick = "static int calls; work(); if (++calls > 8) { kill(getpid(), SIGKILL); }"
    done = tune(written(tmp_path, trick, "float32"), "20000", "--device", "host", "--full", "--json")
    assert done.status == 0, done.err
    assert done.json["best"]["config"] == {"v": 1}
