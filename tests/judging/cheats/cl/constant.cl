// Writes a constant, as the tolerance is larger than all answers.
// Against faint. Refused for: ignores_inputs
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"

KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    z[i] = 0.0f;
    return;
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
