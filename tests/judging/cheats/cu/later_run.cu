// Writes the outputs of one run in the next.
// Against blend. Refused for: wrong, unwritten
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"
__device__ float pending[1 << 16];
KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    const float now = alpha * (x[i] * y[i] + 0.25f * x[i]);
    z[i] = pending[i];
    pending[i] = now;
    return;
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
