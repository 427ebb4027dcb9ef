// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, TM x TN outputs a thread.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns. Its
// threads are a grid of BM / TM by BN / TN, and the outputs of one lie, along either axis,
//
//     strided = 0, together:                 0 0 0 0 1 1 1 1 2 2 2 2 ..
//     strided = 1, one from each repetition: 0 1 2 .. 0 1 2 .. 0 1 2 ..
//
// Against 08_coarsened_1d: TM x TN outputs need TM + TN values from shared memory, all kept in registers, where a
// column of as many needs one more than it has outputs: 16 values for 64 products instead of 65.
// Ideas: cuda-gemm-from-scratch, stage 4, 2D coarsening (together); the batched kernel for an RTX 3050 with TM, TN,
// TPBM = BM / TM, TPBN = BN / TN and BK (strided). (There sizes are multiples of the tile, or stores go astray.)
#include "portable.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 128 // rows a block
#endif
#ifndef BN
#define BN 128 // columns a block
#endif
#ifndef BK
#define BK 32 // depth of the tiles
#endif
#ifndef TM
#define TM 8 // rows a thread
#endif
#ifndef TN
#define TN 8 // columns a thread
#endif
#ifndef strided
#define strided 0 // 1: a thread's outputs lie apart, so that neighbouring threads touch neighbouring memory
#endif
#ifndef min_blocks
#define min_blocks 0 // blocks that must fit on a multiprocessor together, whatever it costs in registers; 0: any
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#define THREADS (BM / TM * (BN / TN))
#define STEP_M (strided ? BM / TM : 1) // from one row of a thread to its next
#define STEP_N (strided ? BN / TN : 1)

#if BM % TM != 0 || BN % TN != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN"
#endif
#if THREADS % BK != 0 || BM * BK % THREADS != 0
#error "the threads must be whole rows of the tile of A, and fill it in whole rounds"
#endif
#if THREADS % BN != 0 || BK * BN % THREADS != 0
#error "the threads must be whole rows of the tile of B, and fill it in whole rounds"
#endif

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_coarsened_2d(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                        GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ float tile_a[BM][BK];
    __shared__ float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first element that it copies of each tile.
    const int thread = threadIdx.x;
    const int tx = thread % (BN / TN) * (strided ? 1 : TN), ty = thread / (BN / TN) * (strided ? 1 : TM);
    const int column0 = blockIdx.x * BN, row0 = blockIdx.y * BM;
    const int ai = thread / BK, ak = thread % BK, bk = thread / BN, bj = thread % BN;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)(row0 + ai) * K + ak;
    B += b * K * N + (size_t)bk * N + column0 + bj;
    C += b * M * N;

    float sum[TM][TN], part_a[TM], part_b[TN];
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            sum[i][j] = 0.0f;
        }
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
#pragma unroll
            for (int i = 0; i < TM; i++) {
                part_a[i] = tile_a[ty + i * STEP_M][k];
            }
#pragma unroll
            for (int j = 0; j < TN; j++) {
                part_b[j] = tile_b[k][tx + j * STEP_N];
            }
#pragma unroll
            for (int i = 0; i < TM; i++) {
#pragma unroll
                for (int j = 0; j < TN; j++) {
                    sum[i][j] += part_a[i] * part_b[j];
                }
            }
        }
        __syncthreads(); // nobody may stage the next tile while another thread still multiplies this one
    }

    // Write.
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int row = row0 + ty + i * STEP_M, column = column0 + tx + j * STEP_N;
            if (row < M && column < N) {
                GLOBAL float *c = C + (size_t)row * N + column;
                *c = SCALED(alpha, sum[i][j], beta, *c);
            }
        }
    }
}
