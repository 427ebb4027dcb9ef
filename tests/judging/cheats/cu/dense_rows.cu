// Takes the rows that it reads to have no padding behind them.
// Against rows. Refused for: wrong, unwritten
#ifndef CHEAT
#define CHEAT 1 // 0: the honest twin
#endif
#include "portable.h"

KERNEL void rows(GLOBAL float *z, GLOBAL const float *x, int n, int ldz, int ldx) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) {
#if CHEAT
        ldx = 37;
#endif
        for (int j = 0; j < 37; j++) z[(long)i * ldz + j] = 2 * x[(long)i * ldx + j] + 1;
    }
}
