// How blocks that have each computed the sums of a tile of C over a part of the depth add them up, in an order that
// does not depend on who was last, and write them: for 12 and 13. The file that includes this one defines `splits`,
// `together`, `meet`, block_k and THREADS first.
#ifndef SPLITS_H
#define SPLITS_H

#if splits < 1 || meet < 0 || meet > 1
#error "splits: at least 1; meet: 0 or 1"
#endif
#if together < 1 || together > 8 || (together > 1 && (together != splits || meet == 1))
#error "together: 1, or all splits, at most 8"
#endif

#if together > 1
#define CLUSTER __cluster_dims__(1, 1, together)
#else
#define CLUSTER
#endif

#include "cluster.h"
#include "hgemm.h"
#include "parts.h"

// The depths of a block: tiles of block_k from `begin` on, up to `end`. They are split number `split` of a depth that
// goes from `from` to `to`.
struct Depths {
    int begin, end;

    INLINE Depths(int split, int from, int to) {
        const int count = (to - from + block_k - 1) / block_k;
        begin = from + (int)((size_t)count * split / splits) * block_k;
        end = min(from + (int)((size_t)count * (split + 1) / splits) * block_k, to);
    }
};

// The rows of C that a block computes: `rows` of them from *C on, `step` apart.
struct Rows {
    float *C;
    int rows, step;
};

// Writes two rows of an mma tile, or of TILES side by side, alpha sum + beta C; lanes of `place` begin at row `row` and
// column `column` of the block's.
template <int TILES>
INLINE void write_mma_rows(const Rows &to, const float (&sum)[TILES][4], int row, int column, int N, float alpha,
                           float beta) {
    const bool paired = N % 2 == 0 && (size_t)to.C % 8 == 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (row + i * 8 < to.rows) {
            write_row(to.C + (size_t)(row + i * 8) * to.step * N + column, sum, i * 2, alpha, beta, N - column, paired);
        }
    }
}

// Leaves a thread's sums for another block, those of neighbouring threads beside one another.
template <int TILES_M, int TILES_N>
INLINE void leave_sums(float *to, const float (&sum)[TILES_M][TILES_N][4]) {
#pragma unroll
    for (int f = 0; f < TILES_M * TILES_N; f++) {
        const float(&four)[4] = sum[f / TILES_N][f % TILES_N];
        WRITE_PART4(to + (f * THREADS + threadIdx.x) * 4, make_float4(four[0], four[1], four[2], four[3]));
    }
}

// Adds what a block has left so.
template <int TILES_M, int TILES_N> INLINE void add_sums(float (&sum)[TILES_M][TILES_N][4], const float *from) {
#pragma unroll
    for (int f = 0; f < TILES_M * TILES_N; f++) {
        const float4 part = READ_PART4(from + (f * THREADS + threadIdx.x) * 4);
        float(&four)[4] = sum[f / TILES_N][f % TILES_N];
        four[0] += part.x, four[1] += part.y, four[2] += part.z, four[3] += part.w;
    }
}

// Adds up the sums of all splits of a tile, and writes them. `shared` has room for a cluster's; `tile` is the number of
// the tile in the workspace, and of its semaphore.
template <int TILES_M, int TILES_N>
INLINE void add_and_write(const Rows &to, float (&sum)[TILES_M][TILES_N][4], const Place &place, int N, float alpha,
                          float beta, int split, float4 *shared, float *workspace, int *semaphores, size_t tile) {
    const int column = place.block_column + place.warp_column + place.lane % 4 * 2;
    const int row = place.warp_row + place.lane / 4;
#if together > 1
    // Leave the sums for the cluster, and add up every splits-th mma tile of this warp's.
    __syncthreads(); // nobody reads tiles any more
#pragma unroll
    for (int f = 0; f < TILES_M * TILES_N; f++) {
        const float(&four)[4] = sum[f / TILES_N][f % TILES_N];
        shared[f * THREADS + threadIdx.x] = make_float4(four[0], four[1], four[2], four[3]);
    }
    synchronize_cluster();
    for (int f = split; f < TILES_M * TILES_N; f += splits) {
        float all[1][4] = {};
#pragma unroll
        for (int s = 0; s < splits; s++) {
            const float4 part = read_block4((const float *)(shared + f * THREADS + threadIdx.x), s);
            all[0][0] += part.x, all[0][1] += part.y, all[0][2] += part.z, all[0][3] += part.w;
        }
        write_mma_rows(to, all, row + f / TILES_N * 16, column + f % TILES_N * 8, N, alpha, beta);
    }
    synchronize_cluster(); // the others may still read what this block has left
#else
#if splits > 1
    __shared__ int last;
    const int size = TILES_M * TILES_N * THREADS * 4;
    float *const left_sums = workspace + tile * splits * size;
    semaphores += tile * splits;
#endif
#if splits > 1 && meet == 0
    // Leave the sums in the workspace. The last block of the tile adds them up.
    leave_sums(left_sums + split * size, sum);
    if (!is_last_block(semaphores, &last, splits)) {
        return;
    }
#pragma unroll
    for (int f = 0; f < TILES_M * TILES_N; f++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum[f / TILES_N][f % TILES_N][e] = 0.0f;
        }
    }
    for (int s = 0; s < splits; s++) {
        add_sums(sum, left_sums + s * size);
    }
#endif
#if splits > 1 && meet == 1
    // Of two blocks, or of two groups of `span` splits, whoever comes first leaves its sums, and the other adds them to
    // its own. A group has the place of its first split in the workspace, and a pair the semaphore of the second's.
#pragma unroll 1
    for (int span = 1; span < splits; span *= 2) {
        const int first = split / span * span, other = (split / span ^ 1) * span;
        if (other < splits) {
            leave_sums(left_sums + first * size, sum);
            if (!is_last_block(semaphores + max(first, other), &last, 2)) {
                return;
            }
            add_sums(sum, left_sums + other * size);
        }
    }
#endif
#pragma unroll
    for (int i = 0; i < TILES_M; i++) {
        write_mma_rows(to, sum[i], row + i * 16, column, N, alpha, beta);
    }
#endif
}

#endif
