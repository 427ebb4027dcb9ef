// The acceleration of each of n bodies by all: the sum of m (r_j - r_i) / (|r_j - r_i|^2 + softening^2)^(3/2).
//
// A body is four floats: place and mass. Each interaction takes some 20 operations, and each body is read by all: the
// processors set the bound. A block reads bodies to shared memory in tiles, one for each of its threads. Tuned are the
// threads, the bodies whose accelerations a thread sums (what it reads of a tile serves that many), the threads that
// share them (`lanes`: where there are few bodies, a thread for each would not fill the device), and the unrolling.
// With tiled = 0, the bodies come from the cache instead.
#include "portable.h"

#ifndef threads
#define threads 128
#endif
#ifndef bodies
#define bodies 1 // per thread
#endif
#ifndef lanes
#define lanes 1 // threads that share the same bodies
#endif
#ifndef unroll
#define unroll 4
#endif
#ifndef tiled
#define tiled 1 // 1: through shared memory
#endif

#define THREADS threads
#define GROUPS (threads / lanes)

#include "launch_bounds.h"
#include "reduce.h"

// sum += the acceleration at `place` by `other`.
INLINE void attract(float *sum, float4 place, float4 other, float softening2) {
    const float x = other.x - place.x, y = other.y - place.y, z = other.z - place.z;
    const float inverse = rsqrt(x * x + y * y + z * z + softening2);
    const float factor = other.w * inverse * inverse * inverse;
    sum[0] += factor * x;
    sum[1] += factor * y;
    sum[2] += factor * z;
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void nbody(GLOBAL float *__restrict__ acceleration, GLOBAL const float4 *__restrict__ body, int n, float softening) {
    __shared__ float4 tile[tiled ? threads : 1];
    __shared__ float shared[THREADS];

    const int thread = threadIdx.x, lane = thread % lanes;
    const int first = blockIdx.x * (GROUPS * bodies) + thread / lanes; // this thread's next body is GROUPS further
    const float softening2 = softening * softening;
    float4 place[bodies];
    float sum[bodies][3];
#pragma unroll
    for (int i = 0; i < bodies; i++) {
        place[i] = body[first + i * GROUPS < n ? first + i * GROUPS : n - 1];
        sum[i][0] = sum[i][1] = sum[i][2] = 0.0f;
    }

#if tiled
    for (int start = 0; start < n; start += threads) {
        if (start + thread < n) {
            tile[thread] = body[start + thread];
        } else {
            tile[thread] = place[0];
            tile[thread].w = 0.0f; // no mass
        }
        __syncthreads();
#pragma unroll unroll
        for (int j = 0; j < threads; j += lanes) {
            const float4 other = tile[j + lane];
#pragma unroll
            for (int i = 0; i < bodies; i++) {
                attract(sum[i], place[i], other, softening2);
            }
        }
        __syncthreads(); // nobody may read the next tile while another thread still uses this one
    }
#else
#pragma unroll unroll
    for (int j = lane; j < n; j += lanes) {
        const float4 other = body[j];
#pragma unroll
        for (int i = 0; i < bodies; i++) {
            attract(sum[i], place[i], other, softening2);
        }
    }
#endif

#pragma unroll
    for (int i = 0; i < bodies; i++) {
#pragma unroll
        for (int axis = 0; axis < 3; axis++) {
            const float total = lanes > 1 ? sum_across(sum[i][axis], shared) : sum[i][axis];
            if (lane == 0 && first + i * GROUPS < n) {
                acceleration[3 * (size_t)(first + i * GROUPS) + axis] = total;
            }
        }
    }
}
