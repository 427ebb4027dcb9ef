// Keeps the option of its first run.
// Against blend. Refused for: wrong_hidden_size
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"
__device__ float first;
__device__ int is_set;
KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    if (is_set) alpha = first;
    else if (i == n - 1) {
        first = alpha;
        is_set = 1;
    }
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
