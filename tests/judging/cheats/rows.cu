// z = 2 x + 1, row by row
#include "portable.h"

KERNEL void rows(GLOBAL float *z, GLOBAL const float *x, int n, int ldz, int ldx) {
    int i = blockIdx.x * threads + threadIdx.x;
    for (int j = 0; i < n && j < 37; j++) z[(long)i * ldz + j] = 2 * x[(long)i * ldx + j] + 1;
}
