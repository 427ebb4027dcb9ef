// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, a rectangle of WM x WN outputs per warp.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns. Each
// of its warps computes WM rows by WN columns of them, as sub_m x sub_n smaller rectangles. In each of these a lane has
// TM x TN outputs that lie together, so that a thread has sub_m * TM by sub_n * TN in all. With sub_m = 1, sub_n = 4:
//
//     columns          0..TN-1  TN..2TN-1  ..  WN/4..WN/4+TN-1  ..  WN/2..  ..
//     rows 0..TM-1     lane 0   lane 1     ..  lane 0           ..  lane 0  ..
//     rows TM..2TM-1   lane 4   lane 5     ..  lane 4           ..  lane 4  ..     (where 4 lanes span WN / 4)
//
// Against 11_transposed: the outputs of a warp are a compact rectangle, not a strip as wide as the block. Its 32 lanes
// therefore read few different values of either operand, and those lie in different banks of shared memory.
// With `quads`, lanes 4i to 4i + 3 form a square. The first two read the same columns, and so do the last two; the
// first and the third read the same rows, and so do the second and the fourth. Then shared memory can serve the 16-byte
// reads of half a warp at once, where it otherwise serves those of a quarter.
// Idea: cuda-gemm-from-scratch, stage 6, warp tiling. (There WN follows from the number of threads by a formula that
// holds for its own constants only; here the number of threads follows from WM and WN.)
#include "portable.h"
#include "float4.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 128 // rows per block
#endif
#ifndef BN
#define BN 128 // columns per block
#endif
#ifndef BK
#define BK 8 // depth of the tiles
#endif
#ifndef WM
#define WM 64 // rows per warp
#endif
#ifndef WN
#define WN 64 // columns per warp
#endif
#ifndef TM
#define TM 8 // rows per thread that lie together
#endif
#ifndef TN
#define TN 4 // columns per thread that lie together
#endif
#ifndef sub_m
#define sub_m 1 // rectangles per thread, below one another
#endif
#ifndef sub_n
#define sub_n 4 // rectangles per thread, side by side
#endif
#ifndef quads
#define quads 0 // 1: lanes are numbered in squares of 2 x 2; 0: row by row
#endif
#ifndef pad
#define pad 0 // floats by which a row of the tile of A is longer than BM
#endif
#ifndef min_blocks
#define min_blocks 0 // blocks that a multiprocessor must hold at once, whatever that costs in registers; 0: any number
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
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
#define ROWS (sub_m * TM) // per thread
#define COLUMNS (sub_n * TN)
#define LANES_M (WM / ROWS)                         // lanes per warp, below one another
#define LANES_N (WN / COLUMNS)                      // side by side
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
#error "the threads must copy whole rows of the tile of A, in whole rounds"
#endif
#if THREADS % (BN / 4) != 0 || BK * BN % (4 * THREADS) != 0
#error "the threads must copy whole rows of the tile of B, in whole rounds"
#endif

#include "outputs.h"
#include "transposed.h"

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
    const int thread_column = warp % (BN / WN) * WN + lane_x * TN, thread_row = warp / (BN / WN) * WM + lane_y * TM;
    const int block_column = blockIdx.x * BN, block_row = blockIdx.y * BM;
    const int copy_row_a = thread / (BK / 4), copy_k_a = thread % (BK / 4) * 4;
    const int copy_k_b = thread / (BN / 4), copy_column_b = thread % (BN / 4) * 4;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)(block_row + copy_row_a) * K + copy_k_a;
    B += b * K * N + (size_t)copy_k_b * N + block_column + copy_column_b;
    C += b * M * N;

    float sum[ROWS][COLUMNS], fragment_a[ROWS], fragment_b[COLUMNS];
    clear(sum);

    for (int k0 = 0; k0 < K; k0 += BK) {
        load_tile_a(tile_a, A, M, K, block_row, k0, copy_row_a, copy_k_a);
        load_tile_b(tile_b, B, N, K, block_column, k0, copy_k_b, copy_column_b);
        __syncthreads();

#pragma unroll 8 // all BK steps unrolled could outgrow the instruction cache
        for (int k = 0; k < BK; k++) {
            read_fragments(fragment_a, fragment_b, tile_a, tile_b, thread_row, thread_column, k);
            multiply(sum, fragment_a, fragment_b);
        }
        __syncthreads(); // nobody may load the next tile while another thread still multiplies this one
    }

    write_outputs(C, sum, block_row, block_column, thread_row, thread_column, M, N, alpha, beta);
}
