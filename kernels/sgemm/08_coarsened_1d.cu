// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, a column of TM outputs a thread.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns:
//
//     columns          0            1         ..      BN - 1
//     rows 0..TM-1     thread 0     thread 1  ..      thread BN - 1
//     rows TM..2TM-1   thread BN    ..
//
// Against 07_tiled_1xn: the threads of a block are a row of numbers, and each phase lays that row over its own
// rectangle: over a tile of A, a tile of B, or the outputs. So a tile may be of any shape, a shallow one included,
// where 07 needs tiles as deep as they are high. The outputs of a thread lie below one another: an element of B is read
// from shared memory once for TM of them. From here on the compiler is told the number of threads (launch_bounds.h).
// It is slower than 07 for all that, on an H200 at 4096, tuned: 5.4 ms against 4.0. A column of TM outputs needs TM + 1
// values from shared memory at each k, 33 for 32; 07's best, 8 x 4 outputs, needs 12. 09_coarsened_2d has both.
// Idea: cuda-gemm-from-scratch, stage 3, 1D coarsening. (There BM = BN = BK * TM, and sizes are multiples of the tile.)
#include "portable.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 64 // rows a block
#endif
#ifndef BN
#define BN 64 // columns a block
#endif
#ifndef BK
#define BK 4 // depth of the tiles
#endif
#ifndef TM
#define TM 16 // outputs a thread, in one column
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#define THREADS (BM / TM * BN)

#if BM % TM != 0
#error "the columns of TM outputs must fill the block: TM must divide BM"
#endif
#if THREADS % BK != 0 || BM * BK % THREADS != 0
#error "the threads must be whole rows of the tile of A, and fill it in whole rounds"
#endif
#if THREADS % BN != 0 || BK * BN % THREADS != 0
#error "the threads must be whole rows of the tile of B, and fill it in whole rounds"
#endif

KERNEL LAUNCH_BOUNDS(THREADS, 0)
void sgemm_coarsened_1d(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                        GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ float tile_a[BM][BK];
    __shared__ float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first element that it copies of each tile.
    const int thread = threadIdx.x, tx = thread % BN, ty = thread / BN * TM;
    const int column0 = blockIdx.x * BN, row0 = blockIdx.y * BM;
    const int ai = thread / BK, ak = thread % BK, bk = thread / BN, bj = thread % BN;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)(row0 + ai) * K + ak;
    B += b * K * N + (size_t)bk * N + column0 + bj;
    C += b * M * N;

    float sum[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) {
        sum[i] = 0.0f;
    }

    for (int k0 = 0; k0 < K; k0 += BK) {
        // Stage: neighbouring threads copy neighbouring elements.
#pragma unroll
        for (int i = 0; i < BM; i += THREADS / BK) {
            tile_a[ai + i][ak] = row0 + ai + i < M && k0 + ak < K ? A[(size_t)i * K + k0] : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < BK; k += THREADS / BN) {
            tile_b[bk + k][bj] = k0 + bk + k < K && column0 + bj < N ? B[(size_t)(k0 + k) * N] : 0.0f;
        }
        __syncthreads();

        // Multiply.
#pragma unroll 8 // all BK steps written out could outgrow the instruction cache
        for (int k = 0; k < BK; k++) {
            const float element_b = tile_b[k][tx];
#pragma unroll
            for (int i = 0; i < TM; i++) {
                sum[i] += tile_a[ty + i][k] * element_b;
            }
        }
        __syncthreads(); // nobody may stage the next tile while another thread still multiplies this one
    }

    // Write.
#pragma unroll
    for (int i = 0; i < TM; i++) {
        const int row = row0 + ty + i, column = column0 + tx;
        if (row < M && column < N) {
            GLOBAL float *c = C + (size_t)row * N + column;
            *c = SCALED(alpha, sum[i], beta, *c);
        }
    }
}
