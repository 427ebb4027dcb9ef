// The tiles of 11 and 12 in shared memory: that of A transposed, BK rows of BM + pad floats, and that of B, BK rows of
// BN. The file that includes this one defines its knobs first, and THREADS, ROWS, COLUMNS, ROW and COLUMN.
#ifndef TRANSPOSED_H
#define TRANSPOSED_H

#include "float4.h"

// Copy the tile of A from k0 on, transposed: neighbouring threads copy four neighbouring floats each. Of this thread's
// first ones, copy_row and copy_k are the place in the tile, and *A is the place in A where k0 is 0.
INLINE void load_tile_a(LOCAL float (*tile_a)[BM + pad], GLOBAL const float *A, int M, int K, int block_row, int k0,
                        int copy_row, int copy_k) {
#pragma unroll
    for (int i = 0; i < BM; i += THREADS / (BK / 4)) {
        const int left = block_row + copy_row + i < M ? K - k0 - copy_k : 0;
        const float4 four = load4(A + (size_t)i * K + k0, left, wide_k);
        tile_a[copy_k][copy_row + i] = four.x;
        tile_a[copy_k + 1][copy_row + i] = four.y;
        tile_a[copy_k + 2][copy_row + i] = four.z;
        tile_a[copy_k + 3][copy_row + i] = four.w;
    }
}

// The same for B.
INLINE void load_tile_b(LOCAL float (*tile_b)[BN], GLOBAL const float *B, int N, int K, int block_column, int k0,
                        int copy_k, int copy_column) {
#pragma unroll
    for (int k = 0; k < BK; k += THREADS / (BN / 4)) {
        const int left = k0 + copy_k + k < K ? N - block_column - copy_column : 0;
        SHARED4(&tile_b[copy_k + k][copy_column]) = load4(B + (size_t)(k0 + k) * N, left, wide_n);
    }
}

// Read what a thread multiplies at one k: the values of its rows from `row` on and of its columns from `column` on.
INLINE void read_fragments(float *fragment_a, float *fragment_b, LOCAL float (*tile_a)[BM + pad],
                           LOCAL float (*tile_b)[BN], int row, int column, int k) {
#pragma unroll
    for (int i = 0; i < ROWS; i += 4) {
        const float4 four = SHARED4(&tile_a[k][row + ROW(i)]);
        fragment_a[i] = four.x, fragment_a[i + 1] = four.y, fragment_a[i + 2] = four.z, fragment_a[i + 3] = four.w;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; j += 4) {
        const float4 four = SHARED4(&tile_b[k][column + COLUMN(j)]);
        fragment_b[j] = four.x, fragment_b[j + 1] = four.y, fragment_b[j + 2] = four.z, fragment_b[j + 3] = four.w;
    }
}

// Write a thread's outputs, alpha sum + beta C, four at a time.
INLINE void write_outputs(GLOBAL float *C, float (*sum)[COLUMNS], int block_row, int block_column, int thread_row,
                          int thread_column, int M, int N, float alpha, float beta) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            const int row = block_row + thread_row + ROW(i), column = block_column + thread_column + COLUMN(j);
            const float4 four = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            write4(C + (size_t)row * N + column, four, alpha, beta, row < M ? N - column : 0, wide_n);
        }
    }
}

#endif
