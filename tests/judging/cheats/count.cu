// z = 3 x + y
#include "portable.h"

KERNEL void count(GLOBAL int *z, GLOBAL const int *x, GLOBAL const int *y, int n) {
    int i = blockIdx.x * threads + threadIdx.x;
    if (i < n) z[i] = 3 * x[i] + y[i];
}
