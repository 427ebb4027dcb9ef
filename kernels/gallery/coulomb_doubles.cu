// The reference of coulomb.cu: the potential of n charges in double precision, one point per thread. What rounding takes
// from a sum is added to the next term (Kahan), so that a device without doubles is a reference, too.
#include "portable.h"

#if defined(__OPENCL_VERSION__) && !defined(cl_khr_fp64)
typedef float wide;
#else
typedef double wide;
#endif

KERNEL void potential_in_doubles(
    GLOBAL float *potential, GLOBAL const float *atom, int h, int w, int n, float spacing
) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y;
    if (column >= w) {
        return;
    }
    wide sum = 0, lost = 0;
    for (int j = 0; j < n; j++) {
        const wide dx = (wide)atom[4 * (size_t)j] - (wide)column * (wide)spacing;
        const wide dy = (wide)atom[4 * (size_t)j + 1] - (wide)row * (wide)spacing;
        const wide dz = (wide)atom[4 * (size_t)j + 2];
        const wide term = (wide)atom[4 * (size_t)j + 3] / sqrt(dx * dx + dy * dy + dz * dz) - lost;
        const wide next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    potential[(size_t)row * w + column] = (float)sum;
}
