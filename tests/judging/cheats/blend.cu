// z = alpha (x y + x / 4)
#include "portable.h"

KERNEL void blend(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y, int n, float alpha) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) z[i] = alpha * (x[i] * y[i] + 0.25f * x[i]);
}
