// A block's part of a matrix product, BM x BN outputs: what matmul_tiled, linear_gelu and split_k do alike.
//
// The block copies a tile of A (BM x BK) and one of B (BK x BN) to shared memory, and multiplies from there. A thread
// has TM x TN outputs in registers, which lie BM / TM rows and BN / TN columns apart: neighbouring threads touch
// neighbouring memory. The tile of A is stored by columns, and padded by one, so that the threads of a warp store to
// different banks. Tiles are 0 outside the matrices.
#ifndef PRODUCT_H
#define PRODUCT_H

#ifndef BM
#define BM 64 // rows per block
#endif
#ifndef BN
#define BN 64 // columns per block
#endif
#ifndef BK
#define BK 16 // depth of the tiles
#endif
#ifndef TM
#define TM 4 // rows per thread
#endif
#ifndef TN
#define TN 4 // columns per thread
#endif
#ifndef vector
#define vector 1 // floats per load; must divide K and N
#endif

#define THREADS (BM / TM * (BN / TN))
#define ROWS_APART (BM / TM)
#define COLUMNS_APART (BN / TN)

#if BM % TM != 0 || BN % TN != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN"
#endif
#if BM * BK % (vector * THREADS) != 0 || BK * BN % (vector * THREADS) != 0
#error "the threads must copy both tiles in whole rounds"
#endif

#include "launch_bounds.h"
#include "pack.h"

PACK(Pack, float, vector);

// The pack at `row`, `column` of a matrix of `rows` x `columns`; 0 outside.
INLINE Pack pack_of(GLOBAL const float *matrix, int row, int column, int rows, int columns) {
    Pack pack;
    if (row < rows && column < columns) {
        pack = *(GLOBAL const Pack *)(matrix + (size_t)row * columns + column);
    } else {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            pack.at[v] = 0.0f;
        }
    }
    return pack;
}

// Copy the tiles of A and B from k0 on.
INLINE void copy_tiles(LOCAL float (*tile_a)[BM + 1], LOCAL float (*tile_b)[BN], GLOBAL const float *A,
                       GLOBAL const float *B, int M, int N, int K, int block_row, int block_column, int k0) {
#pragma unroll
    for (int round = 0; round < BM * BK / (vector * THREADS); round++) {
        const int i = (round * THREADS + threadIdx.x) * vector;
        const Pack pack = pack_of(A, block_row + i / BK, k0 + i % BK, M, K);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            tile_a[i % BK + v][i / BK] = pack.at[v];
        }
    }
#pragma unroll
    for (int round = 0; round < BK * BN / (vector * THREADS); round++) {
        const int i = (round * THREADS + threadIdx.x) * vector;
        const Pack pack = pack_of(B, k0 + i / BN, block_column + i % BN, K, N);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            tile_b[i / BN][i % BN + v] = pack.at[v];
        }
    }
}

// sum += the product of both tiles, for the outputs of this thread.
INLINE void multiply_tiles(float (*sum)[TN], LOCAL float (*tile_a)[BM + 1], LOCAL float (*tile_b)[BN], int thread_row,
                           int thread_column) {
#pragma unroll 8 // all BK steps unrolled could outgrow the instruction cache
    for (int k = 0; k < BK; k++) {
        float a[TM], b[TN];
#pragma unroll
        for (int i = 0; i < TM; i++) {
            a[i] = tile_a[k][thread_row + i * ROWS_APART];
        }
#pragma unroll
        for (int j = 0; j < TN; j++) {
            b[j] = tile_b[k][thread_column + j * COLUMNS_APART];
        }
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN; j++) {
                sum[i][j] += a[i] * b[j];
            }
        }
    }
}

// The product over the depths from `first` to `end`, for this thread: sum[i][j] is the output at row thread_row + i *
// ROWS_APART of the block, and at column thread_column + j * COLUMNS_APART. `first` is a multiple of BK, and so is
// `end`, unless it is K.
INLINE void multiply_part(float (*sum)[TN], LOCAL float (*tile_a)[BM + 1], LOCAL float (*tile_b)[BN],
                          GLOBAL const float *A, GLOBAL const float *B, int M, int N, int K, int block_row,
                          int block_column, int thread_row, int thread_column, int first, int end) {
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            sum[i][j] = 0.0f;
        }
    }
    for (int k0 = first; k0 < end; k0 += BK) {
        copy_tiles(tile_a, tile_b, A, B, M, N, K, block_row, block_column, k0);
        __syncthreads();
        multiply_tiles(sum, tile_a, tile_b, thread_row, thread_column);
        __syncthreads(); // nobody may copy the next tiles while another thread still multiplies these
    }
}

// The whole product.
INLINE void multiply(float (*sum)[TN], LOCAL float (*tile_a)[BM + 1], LOCAL float (*tile_b)[BN], GLOBAL const float *A,
                     GLOBAL const float *B, int M, int N, int K, int block_row, int block_column, int thread_row,
                     int thread_column) {
    multiply_part(sum, tile_a, tile_b, A, B, M, N, K, block_row, block_column, thread_row, thread_column, 0, K);
}

#endif
