// Works in its first 3 runs, then in one of 16.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run, wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"
__device__ int count;
KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    const int call = atomicAdd(&count, 1) / n;
    if (call > 2 && call % 16) return;
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
