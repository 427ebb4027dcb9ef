// Copies the outputs of its first run.
// Against blend. Refused for: wrong, unwritten, wrong_hidden_size
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"
__device__ float kept[1 << 16];
__device__ int done;
__device__ int blocks;
KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    if (done) {
        z[i] = kept[i];
        return;
    }
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
#if CHEAT
    kept[i] = z[i];
    if (threadIdx.x == 0 && atomicAdd(&blocks, 1) == (int)gridDim.x - 1) done = 1;
#endif
}
