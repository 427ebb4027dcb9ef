// inside[i] = 1 where point i lies inside a polygon of m corners, else 0: a ray from it to the right crosses an odd
// number of edges.
//
// The edge from a to b crosses the ray's line where one of its ends lies above the point and the other does not, and it
// crosses the ray itself where the point lies to the left of it, which the sign of a cross product tells. Each point
// takes some operations per edge, and all points read the same edges: the processors set the bound. Tuned are the
// threads, the points of a thread (each edge that it reads serves that many), the unrolling, where corners come from
// (tiled = 1: shared memory; 0: the cache), and the test: branch = 1 skips the product for edges that do not reach the
// line, branch = 0 takes it always, and no thread waits for another.
#include "portable.h"

#ifndef threads
#define threads 256
#endif
#ifndef points
#define points 1 // per thread
#endif
#ifndef unroll
#define unroll 1
#endif
#ifndef tiled
#define tiled 1
#endif
#ifndef branch
#define branch 1
#endif

#include "launch_bounds.h"
#include "inline.h"

#define CORNERS (tiled ? threads : 1) // of a tile, which has one more: where its last edge ends

// 1 where the ray from p to the right crosses the edge from a to b, else 0.
INLINE int crosses(float2 p, float2 a, float2 b) {
    const int reaches = (a.y > p.y) != (b.y > p.y);
    if (branch && !reaches) {
        return 0;
    }
    const float side = (b.x - a.x) * (p.y - a.y) - (p.x - a.x) * (b.y - a.y);
    return reaches & ((side > 0.0f) == (b.y > a.y));
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void point_in_polygon(GLOBAL int *__restrict__ inside, GLOBAL const float2 *__restrict__ point,
                      GLOBAL const float2 *__restrict__ corner, int n, int m) {
    __shared__ float2 tile[CORNERS + 1];

    const int thread = threadIdx.x, first = blockIdx.x * (threads * points) + thread;
    float2 p[points];
    int count[points];
#pragma unroll
    for (int i = 0; i < points; i++) {
        p[i] = point[first + i * threads < n ? first + i * threads : n - 1];
        count[i] = 0;
    }

#if tiled
    for (int start = 0; start < m; start += threads) {
        const int edges = m - start < threads ? m - start : threads;
        for (int i = thread; i <= edges; i += threads) {
            tile[i] = corner[start + i < m ? start + i : 0]; // the last edge ends at the first corner
        }
        __syncthreads();
#pragma unroll unroll
        for (int e = 0; e < edges; e++) {
            const float2 a = tile[e], b = tile[e + 1];
#pragma unroll
            for (int i = 0; i < points; i++) {
                count[i] += crosses(p[i], a, b);
            }
        }
        __syncthreads(); // nobody may read the next tile while another thread still uses this one
    }
#else
    float2 a = corner[m - 1];
#pragma unroll unroll
    for (int e = 0; e < m; e++) {
        const float2 b = corner[e];
#pragma unroll
        for (int i = 0; i < points; i++) {
            count[i] += crosses(p[i], a, b);
        }
        a = b;
    }
#endif

#pragma unroll
    for (int i = 0; i < points; i++) {
        if (first + i * threads < n) {
            inside[first + i * threads] = count[i] & 1;
        }
    }
}
