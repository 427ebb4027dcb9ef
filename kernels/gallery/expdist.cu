// cost = the sum over all pairs of a point a of one cloud and a point b of another of exp(-|a - b|^2 / (s^2 + t^2)),
// where s and t say how uncertain their places are: how well two clouds of points lie upon one another, as for the
// Bhattacharyya distance. A point is its place in three dimensions and its uncertainty.
//
// A pair takes some 20 operations and one exponential: the processors set the bound. A thread holds `points` points of
// the first cloud, and meets them with every point of a slice of the second: what it reads of b serves that many. Each
// block leaves one partial sum; the host adds them up. Tuned are the threads, the points of a thread, the slices (for
// few points in the first cloud), the unrolling, where b comes from (tiled = 1: shared memory; 0: the cache), and the
// exponential: fast = 1 takes that of the hardware.
#include "portable.h"

#ifndef threads
#define threads 256
#endif
#ifndef points
#define points 1 // per thread
#endif
#ifndef slices
#define slices 1
#endif
#ifndef unroll
#define unroll 1
#endif
#ifndef tiled
#define tiled 1
#endif
#ifndef fast
#define fast 0
#endif

#define THREADS threads
#define lanes threads
#include "launch_bounds.h"
#include "reduce.h"

#if !fast
#define EXP exp
#elif defined __OPENCL_VERSION__
#define EXP native_exp
#else
#define EXP __expf
#endif

// What a pair adds.
INLINE float closeness(float4 a, float4 b) {
    const float x = a.x - b.x, y = a.y - b.y, z = a.z - b.z;
    return EXP(-(x * x + y * y + z * z) / (a.w * a.w + b.w * b.w));
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void expdist(GLOBAL float *__restrict__ partials, GLOBAL const float4 *__restrict__ first,
             GLOBAL const float4 *__restrict__ second, int m, int n) {
    __shared__ float4 tile[tiled ? threads : 1];
    __shared__ float shared[threads];

    const int thread = threadIdx.x, place = blockIdx.x * (threads * points) + thread; // the next is `threads` further
    const int length = (n + slices - 1) / slices, start = blockIdx.y * length;
    const int end = start + length < n ? start + length : n;
    float4 mine[points];
#pragma unroll
    for (int i = 0; i < points; i++) {
        mine[i] = first[place + i * threads < m ? place + i * threads : m - 1];
    }
    float sum[points];
#pragma unroll
    for (int i = 0; i < points; i++) {
        sum[i] = 0.0f;
    }

#if tiled
    for (int from = start; from < end; from += threads) {
        if (from + thread < end) {
            tile[thread] = second[from + thread];
        }
        __syncthreads();
        const int count = end - from < threads ? end - from : threads;
#pragma unroll unroll
        for (int j = 0; j < count; j++) {
            const float4 other = tile[j];
#pragma unroll
            for (int i = 0; i < points; i++) {
                sum[i] += closeness(mine[i], other);
            }
        }
        __syncthreads(); // nobody may read the next tile while another thread still uses this one
    }
#else
#pragma unroll unroll
    for (int j = start; j < end; j++) {
        const float4 other = second[j];
#pragma unroll
        for (int i = 0; i < points; i++) {
            sum[i] += closeness(mine[i], other);
        }
    }
#endif

    float all = 0.0f;
#pragma unroll
    for (int i = 0; i < points; i++) {
        all += place + i * threads < m ? sum[i] : 0.0f;
    }
    all = sum_across(all, shared);
    if (thread == 0) {
        partials[blockIdx.y * gridDim.x + blockIdx.x] = all;
    }
}
