// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, a column of TM outputs per thread.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns:
//
//     columns          0            1         ..      BN - 1
//     rows 0..TM-1     thread 0     thread 1  ..      thread BN - 1
//     rows TM..2TM-1   thread BN    ..
//
// Against 07_tiled_1xn: the threads of a block are numbered in one row. Each phase lays that row over its own
// rectangle: the tile of A, the tile of B, or the outputs. So a tile may have any shape, a shallow one included, where
// 07 needs tiles as deep as they are high. The outputs of a thread lie below one another, so that it reads an element
// of B from shared memory once for TM of them. From here on the compiler is told the number of threads
// (launch_bounds.h).
// It is slower than 07 for all that, on an H200 at 4096, tuned: 5.4 ms against 4.0. A column of TM outputs needs TM + 1
// values from shared memory at each k, 33 for 32 outputs; 07's best, 8 x 4 outputs, needs 12. 09_coarsened_2d has both.
// Idea: cuda-gemm-from-scratch, stage 3, 1D coarsening. (There BM = BN = BK * TM, and sizes are multiples of the tile.)
#include "portable.h"
#include "inline.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 64 // rows per block
#endif
#ifndef BN
#define BN 64 // columns per block
#endif
#ifndef BK
#define BK 4 // depth of the tiles
#endif
#ifndef TM
#define TM 16 // outputs per thread, in one column
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#define THREADS (BM / TM * BN)

#if BM % TM != 0
#error "the columns of TM outputs must fill the block: TM must divide BM"
#endif
#if THREADS % BK != 0 || BM * BK % THREADS != 0
#error "the threads must copy whole rows of the tile of A, in whole rounds"
#endif
#if THREADS % BN != 0 || BK * BN % THREADS != 0
#error "the threads must copy whole rows of the tile of B, in whole rounds"
#endif

// sum += the product of the tiles, for the TM outputs from `row` on in one `column`.
INLINE void multiply_tiles(float *sum, LOCAL float (*tile_a)[BK], LOCAL float (*tile_b)[BN], int row, int column) {
#pragma unroll 8 // all BK steps unrolled could outgrow the instruction cache
    for (int k = 0; k < BK; k++) {
        const float element_b = tile_b[k][column];
#pragma unroll
        for (int i = 0; i < TM; i++) {
            sum[i] += tile_a[row + i][k] * element_b;
        }
    }
}

KERNEL LAUNCH_BOUNDS(THREADS, 0)
void sgemm_coarsened_1d(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                        GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ float tile_a[BM][BK];
    __shared__ float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first element that it copies of each tile.
    const int thread = threadIdx.x, thread_column = thread % BN, thread_row = thread / BN * TM;
    const int block_column = blockIdx.x * BN, block_row = blockIdx.y * BM;
    const int copy_row_a = thread / BK, copy_k_a = thread % BK, copy_k_b = thread / BN, copy_column_b = thread % BN;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)(block_row + copy_row_a) * K + copy_k_a;
    B += b * K * N + (size_t)copy_k_b * N + block_column + copy_column_b;
    C += b * M * N;

    float sum[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) {
        sum[i] = 0.0f;
    }

    for (int k0 = 0; k0 < K; k0 += BK) {
        // Load both tiles: neighbouring threads copy neighbouring elements, and 0 outside the matrices.
#pragma unroll
        for (int i = 0; i < BM; i += THREADS / BK) {
            tile_a[copy_row_a + i][copy_k_a] =
                block_row + copy_row_a + i < M && k0 + copy_k_a < K ? A[(size_t)i * K + k0] : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < BK; k += THREADS / BN) {
            tile_b[copy_k_b + k][copy_column_b] =
                k0 + copy_k_b + k < K && block_column + copy_column_b < N ? B[(size_t)(k0 + k) * N] : 0.0f;
        }
        __syncthreads();

        multiply_tiles(sum, tile_a, tile_b, thread_row, thread_column);
        __syncthreads(); // nobody may load the next tile while another thread still multiplies this one
    }

    // Write.
#pragma unroll
    for (int i = 0; i < TM; i++) {
        const int row = block_row + thread_row + i, column = block_column + thread_column;
        if (row < M && column < N) {
            GLOBAL float *c = C + (size_t)row * N + column;
            *c = SCALED(alpha, sum[i], beta, *c);
        }
    }
}
