// Leaves what is there if it looks like answers: numbers that differ.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run, wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"

KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    const float there = z[i], beside = z[i ? i - 1 : 1];
    if (there == there && there != beside) return;
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
