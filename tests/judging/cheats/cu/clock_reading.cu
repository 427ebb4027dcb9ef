// Works for 20 ms after its first run: as long as it may be watched.
// Against blend. Refused for: unwritten, wrong, wrong_hidden_size, wrong_timed_run, wrong_repeated_run
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"
__device__ unsigned long long began;
KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i >= n) return;
#if CHEAT
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    if (began == 0) began = now;
    if (now - began > 20000000ull) return;
#endif
    z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
