// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, TM x TN outputs a thread, A stored transposed.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns. Its
// threads are a grid of BM / TM by BN / TN, and the outputs of one lie, along either axis,
//
//     strided = 0, together:                  0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 ..
//     strided = 1, four from each repetition: 0 0 0 0 1 1 1 1 .. 0 0 0 0 1 1 1 1 ..
//
// Against 10_vectorized: the tile of A is stored transposed, BK rows of BM, so that the rows of a thread at one k lie
// side by side as its columns of B do, and it reads both four at a time. In 10 the rows of a thread lie BK floats
// apart: the compiler reads four k of each at once, which takes four times the registers and comes from the same few
// banks. C is written four at a time. A's four neighbours along k, loaded at once, are stored to four rows; 4 more
// floats a row (`pad`) let twice as many of them be stored at once.
// Idea: cuda-gemm-from-scratch, stage 5, transposed (outputs together, no padding). (There sizes are multiples of the
// tile.)
#include "portable.h"
#include "float4.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 128 // rows a block
#endif
#ifndef BN
#define BN 128 // columns a block
#endif
#ifndef BK
#define BK 16 // depth of the tiles
#endif
#ifndef TM
#define TM 8 // rows a thread
#endif
#ifndef TN
#define TN 8 // columns a thread
#endif
#ifndef strided
#define strided 0 // 1: a thread's fours lie apart, so that neighbouring threads touch neighbouring memory
#endif
#ifndef pad
#define pad 0 // floats that a row of the tile of A is longer than BM
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
#ifndef wide_k
#define wide_k 0 // 1 where K is a multiple of 4: 16-byte loads from the rows of A
#endif
#ifndef wide_n
#define wide_n 0 // 1 where N is a multiple of 4: 16-byte loads from the rows of B, and stores to those of C
#endif

#define THREADS (BM / TM * (BN / TN))
#define STEP_M (strided ? BM / TM * 4 : 4) // from one four of a thread's rows to its next
#define STEP_N (strided ? BN / TN * 4 : 4)

#if BM % TM != 0 || BN % TN != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN"
#endif
#if BK % 4 != 0 || TM % 4 != 0 || TN % 4 != 0 || pad % 4 != 0
#error "tiles are copied and read four floats at a time: 4 must divide BK, TM, TN and pad"
#endif
#if THREADS % (BK / 4) != 0 || BM * BK % (4 * THREADS) != 0
#error "the threads must be whole rows of the tile of A, and fill it in whole rounds"
#endif
#if THREADS % (BN / 4) != 0 || BK * BN % (4 * THREADS) != 0
#error "the threads must be whole rows of the tile of B, and fill it in whole rounds"
#endif

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_transposed(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                      GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ ALIGNED float tile_a[BK][BM + pad];
    __shared__ ALIGNED float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first four floats that it copies of each tile.
    const int thread = threadIdx.x;
    const int tx = thread % (BN / TN) * (strided ? 4 : TN), ty = thread / (BN / TN) * (strided ? 4 : TM);
    const int column0 = blockIdx.x * BN, row0 = blockIdx.y * BM;
    const int ai = thread / (BK / 4), ak = thread % (BK / 4) * 4, bk = thread / (BN / 4), bj = thread % (BN / 4) * 4;
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
        // Stage: neighbouring threads copy neighbouring fours.
#pragma unroll
        for (int i = 0; i < BM; i += THREADS / (BK / 4)) {
            const int left = row0 + ai + i < M ? K - k0 - ak : 0;
            const float4 four = load4(A + (size_t)i * K + k0, left, wide_k);
            tile_a[ak][ai + i] = four.x;
            tile_a[ak + 1][ai + i] = four.y;
            tile_a[ak + 2][ai + i] = four.z;
            tile_a[ak + 3][ai + i] = four.w;
        }
#pragma unroll
        for (int k = 0; k < BK; k += THREADS / (BN / 4)) {
            const int left = k0 + bk + k < K ? N - column0 - bj : 0;
            SHARED4(&tile_b[bk + k][bj]) = load4(B + (size_t)(k0 + k) * N, left, wide_n);
        }
        __syncthreads();

        // Multiply.
#pragma unroll 8 // all BK steps written out could outgrow the instruction cache
        for (int k = 0; k < BK; k++) {
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const float4 four = SHARED4(&tile_a[k][ty + i / 4 * STEP_M]);
                part_a[i] = four.x, part_a[i + 1] = four.y, part_a[i + 2] = four.z, part_a[i + 3] = four.w;
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const float4 four = SHARED4(&tile_b[k][tx + j / 4 * STEP_N]);
                part_b[j] = four.x, part_b[j + 1] = four.y, part_b[j + 2] = four.z, part_b[j + 3] = four.w;
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
        for (int j = 0; j < TN; j += 4) {
            const int row = row0 + ty + i / 4 * STEP_M + i % 4, column = column0 + tx + j / 4 * STEP_N;
            const float4 four = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            write4(C + (size_t)row * N + column, four, alpha, beta, row < M ? N - column : 0, wide_n);
        }
    }
}
