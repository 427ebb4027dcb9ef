// The electric potential of n charges at each point of a grid, by direct summation: the sum of q_i / |r - r_i| (without
// the constant). The points lie in the plane z = 0, `spacing` apart; the first is the origin. An atom is four floats:
// place and charge, its place above the plane (z > 0).
//
// A term takes some 10 operations, and each atom is read by all threads: the processors set the bound. Tuned are the
// block and the neighbouring points of a row that a thread computes (`points`): what it reads of an atom, and the
// distance in y and z, serve all of them, and a processor with vector units computes them in the lanes of one vector.
#include "portable.h"

#ifndef block_size_x
#define block_size_x 16
#endif
#ifndef block_size_y
#define block_size_y 16
#endif
#ifndef points
#define points 1 // per thread, neighbours in x
#endif
#ifndef unroll
#define unroll 1 // of the loop over atoms
#endif

KERNEL void coulomb(
    GLOBAL float *__restrict__ potential, GLOBAL const float4 *__restrict__ atom, int h, int w, int n, float spacing
) {
    const int first = (blockIdx.x * block_size_x + threadIdx.x) * points;
    const int row = blockIdx.y * block_size_y + threadIdx.y;
    const float y = row * spacing;
    float sum[points];
#pragma unroll
    for (int i = 0; i < points; i++) {
        sum[i] = 0.0f;
    }
#pragma unroll unroll
    for (int j = 0; j < n; j++) {
        const float4 other = atom[j];
        const float dy = other.y - y;
        const float apart = dy * dy + other.z * other.z; // squared, of the row
#pragma unroll
        for (int i = 0; i < points; i++) {
            const float dx = other.x - (first + i) * spacing;
            sum[i] += other.w * rsqrt(dx * dx + apart);
        }
    }
    for (int i = 0; i < points; i++) {
        if (row < h && first + i < w) {
            potential[(size_t)row * w + first + i] = sum[i];
        }
    }
}
