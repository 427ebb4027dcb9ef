// A block's part of a matrix product, BM x BN outputs: what matmul_tiled, linear_gelu and split_k do alike.
//
// The block copies a tile of A (BM x BK) and one of B (BK x BN) to shared memory, and multiplies from there. While it
// multiplies, the next tiles are on their way to registers, and from there to a second place in shared memory. A thread
// has TM x TN outputs, in rectangles of `wide` x `wide`: it reads `wide` floats at once, and neighbouring threads read
// neighbouring ones. The tile of A is stored by columns, and padded, so that the threads of a warp store to different
// banks. Tiles are 0 outside the matrices.
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

#ifndef wide
#define wide 1 // floats per read of shared memory
#endif

#define THREADS (BM / TM * (BN / TN))
#define ROW(i) ((i) / wide * wide * (BM / TM) + (i) % wide) // from a thread's first row to its row i
#define COLUMN(j) ((j) / wide * wide * (BN / TN) + (j) % wide)
#define FIRST_ROW (threadIdx.x / (BN / TN) * wide)
#define FIRST_COLUMN (threadIdx.x % (BN / TN) * wide)
#define PITCH_A (BM + wide)
#define ROUNDS_A (BM * BK / (vector * THREADS)) // in which the block copies a tile
#define ROUNDS_B (BK * BN / (vector * THREADS))

#if BM % TM != 0 || BN % TN != 0 || TM % wide != 0 || TN % wide != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN; wide must divide TM and TN"
#endif
#if BM * BK % (vector * THREADS) != 0 || BK * BN % (vector * THREADS) != 0
#error "the threads must copy both tiles in whole rounds"
#endif

#include "launch_bounds.h"
#include "pack.h"

PACK(Pack, float, vector);
PACK(Wide, float, wide);

// The tiles of a block, of which shared memory has two.
typedef struct __attribute__((aligned(16))) {
    float a[BK][PITCH_A], b[BK][BN];
} Tiles;

// This thread's packs of both tiles, on their way through registers.
typedef struct {
    Pack a[ROUNDS_A], b[ROUNDS_B];
} Fetched;

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

// Begin to fetch the tiles of A and B from k0 on.
INLINE void fetch_tiles(Fetched *fetched, GLOBAL const float *A, GLOBAL const float *B, int M, int N, int K,
                        int block_row, int block_column, int k0) {
#pragma unroll
    for (int round = 0; round < ROUNDS_A; round++) {
        const int i = (round * THREADS + threadIdx.x) * vector;
        fetched->a[round] = pack_of(A, block_row + i / BK, k0 + i % BK, M, K);
    }
#pragma unroll
    for (int round = 0; round < ROUNDS_B; round++) {
        const int i = (round * THREADS + threadIdx.x) * vector;
        fetched->b[round] = pack_of(B, k0 + i / BN, block_column + i % BN, K, N);
    }
}

INLINE void store_tiles(LOCAL Tiles *tiles, const Fetched *fetched) {
#pragma unroll
    for (int round = 0; round < ROUNDS_A; round++) {
        const int i = (round * THREADS + threadIdx.x) * vector;
#pragma unroll
        for (int v = 0; v < vector; v++) {
            tiles->a[i % BK + v][i / BK] = fetched->a[round].at[v];
        }
    }
#pragma unroll
    for (int round = 0; round < ROUNDS_B; round++) {
        const int i = (round * THREADS + threadIdx.x) * vector;
        *(LOCAL Pack *)&tiles->b[i / BN][i % BN] = fetched->b[round];
    }
}

// sum += the product of both tiles, for the outputs of this thread.
INLINE void multiply_tiles(float (*sum)[TN], LOCAL const Tiles *tiles) {
#pragma unroll 8 // all BK steps unrolled could outgrow the instruction cache
    for (int k = 0; k < BK; k++) {
        Wide a[TM / wide], b[TN / wide];
#pragma unroll
        for (int i = 0; i < TM; i += wide) {
            a[i / wide] = *(LOCAL const Wide *)&tiles->a[k][FIRST_ROW + ROW(i)];
        }
#pragma unroll
        for (int j = 0; j < TN; j += wide) {
            b[j / wide] = *(LOCAL const Wide *)&tiles->b[k][FIRST_COLUMN + COLUMN(j)];
        }
#pragma unroll
        for (int i = 0; i < TM; i++) {
#pragma unroll
            for (int j = 0; j < TN; j++) {
                sum[i][j] += a[i / wide].at[i % wide] * b[j / wide].at[j % wide];
            }
        }
    }
}

// The product over the depths from `first` to `end`, for this thread: sum[i][j] is the output at row FIRST_ROW + ROW(i)
// of the block, and at column FIRST_COLUMN + COLUMN(j). `first` is a multiple of BK, and so is `end`, unless it is K.
// `tiles` has two elements.
INLINE void multiply_part(float (*sum)[TN], LOCAL Tiles *tiles, GLOBAL const float *A, GLOBAL const float *B, int M,
                          int N, int K, int block_row, int block_column, int first, int end) {
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            sum[i][j] = 0.0f;
        }
    }
    Fetched fetched;
    fetch_tiles(&fetched, A, B, M, N, K, block_row, block_column, first);
    store_tiles(tiles, &fetched);
    __syncthreads();
    int slot = 0;
    for (int k0 = first; k0 < end; k0 += BK) {
        fetch_tiles(&fetched, A, B, M, N, K, block_row, block_column, k0 + BK); // beyond K they are 0
        multiply_tiles(sum, tiles + slot);
        slot = 1 - slot;
        store_tiles(tiles + slot, &fetched);
        __syncthreads(); // the next tiles are complete, and nobody reads these any more
    }
}

// The whole product.
INLINE void multiply(float (*sum)[TN], LOCAL Tiles *tiles, GLOBAL const float *A, GLOBAL const float *B, int M, int N,
                     int K, int block_row, int block_column) {
    multiply_part(sum, tiles, A, B, M, N, K, block_row, block_column, 0, K);
}

#endif
