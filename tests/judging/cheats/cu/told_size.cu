// Works at the size that it is told.
// Against blend. Refused for: wrong_hidden_size
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"

KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    if (n != 1000) return;
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
