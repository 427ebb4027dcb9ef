// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, a rectangle of WM x WN outputs a warp.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns, and
// each of its warps WM rows by WN columns of them, as sub_m x sub_n smaller rectangles. In each of these a lane has
// TM x TN outputs that lie together, so that a thread has sub_m * TM by sub_n * TN in all. With sub_m = 1, sub_n = 4:
//
//     columns          0..TN-1  TN..2TN-1  ..  WN/4..WN/4+TN-1  ..  WN/2..  ..
//     rows 0..TM-1     lane 0   lane 1     ..  lane 0           ..  lane 0  ..
//     rows TM..2TM-1   lane 4   lane 5     ..  lane 4           ..  lane 4  ..     (where 4 lanes span WN / 4)
//
// Against 11_transposed: the outputs of a warp are a compact rectangle, not a strip as wide as the block, so that its
// 32 lanes read few different values of either operand, and those lie in different banks of shared memory.
// `quads`: of the lanes 4i to 4i + 3 the first two read the same columns, and so do the last two; the first and the
// third read the same rows, and so do the second and the fourth. Then shared memory can serve the 16-byte reads of half
// a warp at once, where it otherwise serves a quarter.
// Idea: cuda-gemm-from-scratch, stage 6, warp tiling. (There WN follows from the number of threads by a formula that
// holds for its own constants only; here the number of threads follows from WM and WN.)
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
#define BK 8 // depth of the tiles
#endif
#ifndef WM
#define WM 64 // rows a warp
#endif
#ifndef WN
#define WN 64 // columns a warp
#endif
#ifndef TM
#define TM 8 // rows of a thread that lie together
#endif
#ifndef TN
#define TN 4 // columns of a thread that lie together
#endif
#ifndef sub_m
#define sub_m 1 // such rectangles of a thread below one another
#endif
#ifndef sub_n
#define sub_n 4 // and beside one another
#endif
#ifndef quads
#define quads 0 // 1: lanes are numbered in quads of 2 x 2; 0: row by row
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

#define THREADS (BM / WM * (BN / WN) * 32)
#define ROWS (sub_m * TM) // of a thread
#define COLUMNS (sub_n * TN)
#define LANES_M (WM / ROWS)
#define LANES_N (WN / COLUMNS)
#define ROW(i) ((i) / TM * (WM / sub_m) + (i) % TM) // from a thread's first row to its row i
#define COLUMN(j) ((j) / TN * (WN / sub_n) + (j) % TN)

#if BM % WM != 0 || BN % WN != 0
#error "the warps must fill the block: WM must divide BM, and WN BN"
#endif
#if WM % ROWS != 0 || WN % COLUMNS != 0 || LANES_M * LANES_N != 32
#error "32 lanes must fill the warp's rectangle: WM / (sub_m * TM) by WN / (sub_n * TN)"
#endif
#if quads && (LANES_M % 2 != 0 || LANES_N % 2 != 0)
#error "quads need an even number of lanes either way"
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
void sgemm_warptiled(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                     GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ ALIGNED float tile_a[BK][BM + pad];
    __shared__ ALIGNED float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first four floats that it copies of each tile.
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, quad = lane / 4;
    const int lane_x = quads ? quad % (LANES_N / 2) * 2 + lane / 2 % 2 : lane % LANES_N;
    const int lane_y = quads ? quad / (LANES_N / 2) * 2 + lane % 2 : lane / LANES_N;
    const int tx = warp % (BN / WN) * WN + lane_x * TN, ty = warp / (BN / WN) * WM + lane_y * TM;
    const int column0 = blockIdx.x * BN, row0 = blockIdx.y * BM;
    const int ai = thread / (BK / 4), ak = thread % (BK / 4) * 4, bk = thread / (BN / 4), bj = thread % (BN / 4) * 4;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)(row0 + ai) * K + ak;
    B += b * K * N + (size_t)bk * N + column0 + bj;
    C += b * M * N;

    float sum[ROWS][COLUMNS], part_a[ROWS], part_b[COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
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
            for (int i = 0; i < ROWS; i += 4) {
                const float4 four = SHARED4(&tile_a[k][ty + ROW(i)]);
                part_a[i] = four.x, part_a[i + 1] = four.y, part_a[i + 2] = four.z, part_a[i + 3] = four.w;
            }
#pragma unroll
            for (int j = 0; j < COLUMNS; j += 4) {
                const float4 four = SHARED4(&tile_b[k][tx + COLUMN(j)]);
                part_b[j] = four.x, part_b[j + 1] = four.y, part_b[j + 2] = four.z, part_b[j + 3] = four.w;
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    sum[i][j] += part_a[i] * part_b[j];
                }
            }
        }
        __syncthreads(); // nobody may stage the next tile while another thread still multiplies this one
    }

    // Write.
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            const int row = row0 + ty + ROW(i), column = column0 + tx + COLUMN(j);
            const float4 four = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            write4(C + (size_t)row * N + column, four, alpha, beta, row < M ? N - column : 0, wide_n);
        }
    }
}
