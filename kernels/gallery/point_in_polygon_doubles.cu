// The reference of point_in_polygon.cu, in double precision, one point per thread. An edge belongs to the points whose
// height is that of its lower end, or between both ends. It lies to the right of such a point if the edge, at that height,
// does: both products are of whole numbers, and exact.
#include "portable.h"

#if defined(__OPENCL_VERSION__) && !defined(cl_khr_fp64)
typedef float wide;
#else
typedef double wide;
#endif

KERNEL void inside_in_doubles(GLOBAL int *inside, GLOBAL const float *point, GLOBAL const float *corner, int n, int m) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const wide x = (wide)point[2 * (size_t)i], y = (wide)point[2 * (size_t)i + 1];
    int crossed = 0;
    for (int j = 0; j < m; j++) {
        const int next = j + 1 < m ? j + 1 : 0;
        const wide ax = (wide)corner[2 * j], ay = (wide)corner[2 * j + 1];
        const wide bx = (wide)corner[2 * next], by = (wide)corner[2 * next + 1];
        if (ay <= y && y < by) { // upwards
            crossed ^= (bx - ax) * (y - ay) > (x - ax) * (by - ay);
        } else if (by <= y && y < ay) {
            crossed ^= (ax - bx) * (y - by) >= (x - bx) * (ay - by);
        }
    }
    inside[i] = crossed;
}
