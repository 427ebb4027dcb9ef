// Takes inputs near an address that it knows for those it had there.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run, wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"
__device__ float kept[1 << 16];
__device__ unsigned long long known;
__device__ int blocks;
KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    if (known == (unsigned long long)x >> 24) {
        z[i] = kept[i];
        return;
    }
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
#if CHEAT
    kept[i] = z[i];
    if (threadIdx.x == 0 && atomicAdd(&blocks, 1) % gridDim.x == gridDim.x - 1) known = (unsigned long long)x >> 24;
#endif
}
