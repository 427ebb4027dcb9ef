// Rows of a tile of sgemm3x in float32, where neither halves nor bfloat16 do.
#ifndef FLOATS_H
#define FLOATS_H

#include "halves.h"
#include "sgemm/cp_async.h"

// A warp group computes its rows of a tile by itself: a thread has every DOWN-th row, and every ACROSS-th column.
struct FloatTile {
    static constexpr int DEEP = 16, ACROSS = 16, DOWN = 128 / ACROSS;
    static constexpr int HIGH = ROWS / DOWN, WIDE = SHARE / ACROSS;
    float a[2][DEEP][ROWS + 1], b[2][DEEP][SHARE]; // two parts of the depth: one arrives while another is multiplied

    // Begin to read a part of the depth, as far as it is in the matrices.
    INLINE void fetch(const float *A, const float *B, int row, int column, int k, int M, int N, int K) {
        const int slot = k / DEEP % 2;
#pragma unroll
        for (int i = threadIdx.x % 128; i < ROWS * DEEP; i += 128) {
            const int high = i / DEEP, deep = i % DEEP;
            const bool is_inside = row + high < M && k + deep < K;
            copy_async1(&a[slot][deep][high], is_inside ? A + (size_t)(row + high) * K + k + deep : A, is_inside);
        }
#pragma unroll 8
        for (int i = threadIdx.x % 128; i < SHARE * DEEP; i += 128) {
            const int wide = i % SHARE, deep = i / SHARE;
            const bool is_inside = column + wide < N && k + deep < K;
            copy_async1(&b[slot][deep][wide], is_inside ? B + (size_t)(k + deep) * N + column + wide : B, is_inside);
        }
        commit_copies();
    }

    INLINE void multiply(float (&sum)[HIGH][WIDE], int slot, int deep) const {
        const int x = threadIdx.x % ACROSS, y = threadIdx.x % 128 / ACROSS;
#pragma unroll
        for (int i = 0; i < HIGH; i++) {
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                sum[i][j] += a[slot][deep][y + DOWN * i] * b[slot][deep][x + ACROSS * j];
            }
        }
    }
};

// `row` is the first of the warp group's, whose threads meet at the named barrier.
INLINE void multiply_floats(FloatTile &tile, int barrier, float *C, const float *A, const float *B, int row, int column,
                            int M, int N, int K, float alpha, float beta) {
    using T = FloatTile;
    const int x = threadIdx.x % T::ACROSS, y = threadIdx.x % 128 / T::ACROSS;
    float sum[T::HIGH][T::WIDE] = {};
    wait_named(barrier, 128);
    tile.fetch(A, B, row, column, 0, M, N, K);
    for (int k = 0; k < K; k += T::DEEP) {
        wait_for_copies(0);
        wait_named(barrier, 128); // all of this part has arrived, and nobody reads the one before any more
        if (k + T::DEEP < K) {
            tile.fetch(A, B, row, column, k + T::DEEP, M, N, K);
        }
#pragma unroll 1
        for (int deep = 0; deep < min(T::DEEP, K - k); deep++) { // zeros beyond would make NaN of infinities
            tile.multiply(sum, k / T::DEEP % 2, deep);
        }
    }
#pragma unroll
    for (int i = 0; i < T::HIGH; i++) {
#pragma unroll
        for (int j = 0; j < T::WIDE; j++) {
            const int y_here = row + y + T::DOWN * i, x_here = column + x + T::ACROSS * j;
            if (y_here < M && x_here < N) {
                float &to = C[(size_t)y_here * N + x_here];
                to = SCALED(alpha, sum[i][j], beta, to);
            }
        }
    }
}

#endif
