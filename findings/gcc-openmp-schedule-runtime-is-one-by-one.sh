#!/bin/sh
# `schedule(runtime)` with OMP_SCHEDULE unset is dynamic with chunks of 1 in GCC's OpenMP runtime, so a loop over floats fetches each index from a shared
# counter: doubling 4 million numbers with two threads takes several times as long as with schedule(static), which a loop without a clause has.
# One would expect that the two defaults are the same, as they are in LLVM's runtime. GCC's manual says it under OMP_SCHEDULE alone.
# Seen with GCC 12.2 (libgomp) on x86-64; needs no package.
# A kernel that leaves the schedule to its environment is tuned at its slowest: constants of the loop body hardly change its time then.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >check.c <<'END'
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    omp_sched_t kind;
    int chunk, n = 4000000;
    double runtime = 1e9, fixed = 1e9;
    float *x = calloc(n, sizeof *x);
    omp_get_schedule(&kind, &chunk);
    for (int run = 0; run < 7; run++) {
        double start = omp_get_wtime();
#pragma omp parallel for schedule(runtime) num_threads(2)
        for (int i = 0; i < n; i++) x[i] = 2 * x[i];
        double middle = omp_get_wtime();
#pragma omp parallel for schedule(static) num_threads(2)
        for (int i = 0; i < n; i++) x[i] = 2 * x[i];
        double end = omp_get_wtime();
        if (middle - start < runtime) runtime = middle - start;
        if (end - middle < fixed) fixed = end - middle;
    }
    printf("kind %d (2 is dynamic), chunk %d; schedule(runtime) %.1f ms, schedule(static) %.1f ms\n", kind, chunk, 1e3 * runtime, 1e3 * fixed);
    return !(kind == omp_sched_dynamic && chunk == 1 && runtime > 3 * fixed);
}
END
gcc --version | head -n 1
gcc -O3 -fopenmp check.c -o check
env -u OMP_SCHEDULE ./check || { echo "the behaviour has changed" >&2; exit 1; }
