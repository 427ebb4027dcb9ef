// Rows of a tile of sgemm3x in float32, where neither halves nor bfloat16 do.
#ifndef FLOATS_H
#define FLOATS_H

#include "halves.h"

// A warp group computes its rows of a tile by itself: a thread has every DOWN-th row, and every ACROSS-th column.
struct FloatTile {
    static constexpr int DEEP = 16, ACROSS = 16, DOWN = 128 / ACROSS;
    static constexpr int HIGH = ROWS / DOWN, WIDE = block_n / ACROSS;
    float a[DEEP][ROWS + 1], b[DEEP][block_n];

    // Read a part of the depth, as far as it is in the matrices.
    INLINE void load(const float *A, const float *B, int row, int column, int k, int M, int N, int K) {
        for (int i = threadIdx.x % 128; i < ROWS * DEEP; i += 128) {
            const int high = i / DEEP, deep = i % DEEP;
            const bool is_inside = row + high < M && k + deep < K;
            a[deep][high] = is_inside ? A[(size_t)(row + high) * K + k + deep] : 0.0f;
        }
        for (int i = threadIdx.x % 128; i < block_n * DEEP; i += 128) {
            const int wide = i % block_n, deep = i / block_n;
            const bool is_inside = column + wide < N && k + deep < K;
            b[deep][wide] = is_inside ? B[(size_t)(k + deep) * N + column + wide] : 0.0f;
        }
    }

    INLINE void multiply(float (&sum)[HIGH][WIDE], int deep) const {
        const int x = threadIdx.x % ACROSS, y = threadIdx.x % 128 / ACROSS;
#pragma unroll
        for (int i = 0; i < HIGH; i++) {
#pragma unroll
            for (int j = 0; j < WIDE; j++) {
                sum[i][j] += a[deep][y + DOWN * i] * b[deep][x + ACROSS * j];
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
    for (int k = 0; k < K; k += T::DEEP) {
        wait_named(barrier, 128);
        tile.load(A, B, row, column, k, M, N, K);
        wait_named(barrier, 128);
#pragma unroll 1
        for (int deep = 0; deep < min(T::DEEP, K - k); deep++) { // zeros beyond would make NaN of infinities
            tile.multiply(sum, deep);
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
