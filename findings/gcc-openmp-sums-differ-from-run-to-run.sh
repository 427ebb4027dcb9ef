#!/bin/sh
# `#pragma omp parallel for reduction(+:sum)` of floats gives two or more sums for the same numbers, the same threads and schedule(static): GCC's
# runtime adds the parts of the threads in the order in which they finish. The specification leaves the order open. The same sum by an array with
# one part per thread, added in order, has the same bits each time. One would expect so of a static schedule.
# Seen with GCC 12.2 and its libgomp on two cores; 8 threads, 500 sums of 524,288 numbers.
# A kernel that is verified exactly passes in one run and fails in the next, and so may the reference that it is compared with.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >sum.c <<'EOF'
#include <stdio.h>
#include <string.h>

enum { LENGTH = 1 << 19, THREADS = 8, RUNS = 500 };
static float x[LENGTH];

static float reduced(void) {
    float sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(THREADS) schedule(static)
    for (int i = 0; i < LENGTH; i++) sum += x[i];
    return sum;
}

static float in_order(void) {
    float parts[THREADS] = {0}, sum = 0;
#pragma omp parallel for num_threads(THREADS) schedule(static)
    for (int part = 0; part < THREADS; part++)
        for (int i = 0; i < LENGTH / THREADS; i++) parts[part] += x[part * (LENGTH / THREADS) + i];
    for (int part = 0; part < THREADS; part++) sum += parts[part];
    return sum;
}

static int different(float (*total)(void)) {
    float seen[RUNS];
    int count = 0;
    for (int run = 0; run < RUNS; run++) {
        float sum = total();
        int i = 0;
        while (i < count && memcmp(&seen[i], &sum, sizeof sum)) i++;
        if (i == count) seen[count++] = sum;
    }
    return count;
}

int main(void) {
    for (int i = 0; i < LENGTH; i++) x[i] = 1.0f / (float)(3 * i + 1);
    int by_clause = different(reduced), by_array = different(in_order);
    printf("different sums in %d runs: %d by reduction(+), %d by an array of parts\n", RUNS, by_clause, by_array);
    return !(by_clause > 1 && by_array == 1);
}
EOF
gcc --version | head -n 1
gcc -O2 -fopenmp sum.c -o sum
./sum || { echo "the behaviour has changed"; exit 1; }
