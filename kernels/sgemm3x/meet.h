// How the blocks of a cluster, which have each summed a part of the depth of a tile, add their sums up.
//
// Each leaves its sums in its shared memory, and adds up those of SHARE columns of the tile, in the order of the depth,
// so that the bits are the same each time. From then on, these columns are its own.
#ifndef MEET_H
#define MEET_H

#include "cluster.h"
#include "halves.h"

#if together > 1
#define CLUSTER __cluster_dims__(together, 1, 1)
#else
#define CLUSTER
#endif
#define SHARE (block_n / together)
static_assert(block_n % together == 0 && SHARE % 16 == 0, "each has whole columns of threads");

// `shared` has room for the sums of a block; nobody uses it for anything else any more.
INLINE void meet(float (&mine)[HEIGHT][SHARE / 2], const float (&sum)[HEIGHT][block_n / 2], float4 *shared, int rank) {
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
        for (int j = 0; j < block_n / 8; j++) {
            shared[(i * (block_n / 8) + j) * WORKERS + threadIdx.x] =
                make_float4(sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]);
        }
    }
    synchronize_cluster();
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
        for (int j = 0; j < SHARE / 8; j++) {
            float(&four)[4] = *(float(*)[4]) & mine[i][4 * j];
            four[0] = four[1] = four[2] = four[3] = 0.0f;
#pragma unroll
            for (int other = 0; other < together; other++) {
                const float4 part = read_block4(
                    (const float *)(shared + (i * (block_n / 8) + rank * (SHARE / 8) + j) * WORKERS + threadIdx.x), other);
                four[0] += part.x, four[1] += part.y, four[2] += part.z, four[3] += part.w;
            }
        }
    }
    synchronize_cluster(); // nobody reads what this block has left any more
}

#endif
