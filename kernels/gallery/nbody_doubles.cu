// The reference of nbody.cu: the accelerations of n bodies in double precision, one body per thread. What rounding takes
// from a sum is added to the next term (Kahan), so that a device without doubles is a reference, too.
#include "portable.h"

#if defined(__OPENCL_VERSION__) && !defined(cl_khr_fp64)
typedef float wide;
#else
typedef double wide;
#endif

KERNEL void accelerations_in_doubles(GLOBAL float *acceleration, GLOBAL const float *body, int n, float softening) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const wide softened = (wide)softening * (wide)softening;
    wide sum[3], lost[3];
    for (int axis = 0; axis < 3; axis++) {
        sum[axis] = lost[axis] = 0;
    }
    for (int j = 0; j < n; j++) {
        wide apart[3], squared = softened;
        for (int axis = 0; axis < 3; axis++) {
            apart[axis] = (wide)body[4 * (size_t)j + axis] - (wide)body[4 * (size_t)i + axis];
            squared += apart[axis] * apart[axis];
        }
        const wide factor = (wide)body[4 * (size_t)j + 3] / (squared * sqrt(squared));
        for (int axis = 0; axis < 3; axis++) {
            const wide term = factor * apart[axis] - lost[axis], next = sum[axis] + term;
            lost[axis] = (next - sum[axis]) - term;
            sum[axis] = next;
        }
    }
    for (int axis = 0; axis < 3; axis++) {
        acceleration[3 * (size_t)i + axis] = (float)sum[axis];
    }
}
