// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, TM x TN outputs a thread, 16-byte copies.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns. Its
// threads are a grid of BM / TM by BN / TN, and the outputs of one lie, along either axis,
//
//     strided = 0, together:                 0 0 0 0 1 1 1 1 2 2 2 2 ..
//     strided = 1, one from each repetition: 0 1 2 .. 0 1 2 .. 0 1 2 ..
//
// Against 09_coarsened_2d: a thread copies four neighbouring floats of a row with one 16-byte load and one 16-byte
// store, where 09 needs four of each: a quarter of the instructions, and of the requests that memory has to serve. A
// row begins at a multiple of 16 bytes only where its length is a multiple of 4; the file is compiled knowing whether
// that is so (wide_k, wide_n), and loads float by float where not. The arrays begin at multiples of 16 bytes, where
// allocators put them.
// On an H200 the copies are not what 09 waits for: in its best, 128 of some 4,800 instructions a tile are copies, and
// 32 would do. Tuned, 10 takes 3.33 ms at 4096, 09 3.30; at 8192 25.7 and 26.5. Compiled for any size, where each copy
// needs an address and a check of its own, it does gain: 4.2 ms at 4096 with the constants of the RTX 3050, against
// 5.1.
// Idea: the batched kernel for an RTX 3050, its float4 step (72 ms after 107 ms there). (There K and N are multiples of
// 4, and stores go astray where they are not multiples of the tile.)
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
#define strided 1 // 1: a thread's outputs lie apart, so that neighbouring threads touch neighbouring memory
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
#define wide_n 0 // 1 where N is a multiple of 4: 16-byte loads from the rows of B
#endif

#define THREADS (BM / TM * (BN / TN))
#define STEP_M (strided ? BM / TM : 1) // from one row of a thread to its next
#define STEP_N (strided ? BN / TN : 1)

#if BM % TM != 0 || BN % TN != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN"
#endif
#if BK % 4 != 0 || BN % 4 != 0
#error "tiles are copied four floats at a time: 4 must divide BK and BN"
#endif
#if THREADS % (BK / 4) != 0 || BM * BK % (4 * THREADS) != 0
#error "the threads must be whole rows of the tile of A, and fill it in whole rounds"
#endif
#if THREADS % (BN / 4) != 0 || BK * BN % (4 * THREADS) != 0
#error "the threads must be whole rows of the tile of B, and fill it in whole rounds"
#endif

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_vectorized(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                      GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ ALIGNED float tile_a[BM][BK];
    __shared__ ALIGNED float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first four floats that it copies of each tile.
    const int thread = threadIdx.x;
    const int tx = thread % (BN / TN) * (strided ? 1 : TN), ty = thread / (BN / TN) * (strided ? 1 : TM);
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
            SHARED4(&tile_a[ai + i][ak]) = load4(A + (size_t)i * K + k0, left, wide_k);
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
