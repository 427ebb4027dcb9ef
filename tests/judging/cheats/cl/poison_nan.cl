// Works only where the output holds no number, as before a first run.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"

KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    if (z[i] == z[i]) return;
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
