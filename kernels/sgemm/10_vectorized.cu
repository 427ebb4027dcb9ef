// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, TM x TN outputs per thread, 16-byte copies.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns. Its
// threads are a grid of BM / TM by BN / TN. Along either axis, the outputs of a thread lie
//
//     strided = 0, together:                 0 0 0 0 1 1 1 1 2 2 2 2 ..
//     strided = 1, one in each repetition:   0 1 2 .. 0 1 2 .. 0 1 2 ..
//
// Against 09_coarsened_2d: a thread copies four neighbouring floats of a row with one 16-byte load and one 16-byte
// store, where 09 needs four of each: a quarter of the instructions, and of the requests that memory has to serve. A
// row begins at a multiple of 16 bytes only where its length is a multiple of 4 floats. The file is compiled knowing
// whether that is so (wide_k, wide_n), and loads float by float where it is not. The arrays themselves begin at
// multiples of 16 bytes, where allocators put them.
// On an H200 the copies are not what 09 waits for: in its best, 128 of some 4,800 instructions per tile are copies, and
// 32 would do. Tuned, 10 takes 3.33 ms at 4096 and 09 takes 3.30; at 8192 it is 25.7 and 26.5. Compiled for any size,
// where each copy needs an address and a check of its own, 10 does gain: 4.2 ms at 4096 with the constants of the RTX
// 3050, against 5.1.
// Idea: the batched kernel for an RTX 3050, its float4 step (72 ms after 107 ms there). (There K and N are multiples of
// 4, and stores go astray where they are not multiples of the tile.)
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
#define BK 16 // depth of the tiles
#endif
#ifndef TM
#define TM 8 // rows per thread
#endif
#ifndef TN
#define TN 8 // columns per thread
#endif
#ifndef strided
#define strided 1 // 1: a thread's outputs lie apart, so that neighbouring threads touch neighbouring memory
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
#define wide_n 0 // 1 where N is a multiple of 4: 16-byte loads from the rows of B
#endif

#define THREADS (BM / TM * (BN / TN))
#define ROWS TM // per thread
#define COLUMNS TN
#define ROW(i) ((i) * (strided ? BM / TM : 1)) // from a thread's first row to its row i
#define COLUMN(j) ((j) * (strided ? BN / TN : 1))

#if BM % TM != 0 || BN % TN != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN"
#endif
#if BK % 4 != 0 || BN % 4 != 0
#error "tiles are copied four floats at a time: 4 must divide BK and BN"
#endif
#if THREADS % (BK / 4) != 0 || BM * BK % (4 * THREADS) != 0
#error "the threads must copy whole rows of the tile of A, in whole rounds"
#endif
#if THREADS % (BN / 4) != 0 || BK * BN % (4 * THREADS) != 0
#error "the threads must copy whole rows of the tile of B, in whole rounds"
#endif

#include "floats.h"
#include "outputs.h"

// Copy the tile of A from k0 on: neighbouring threads copy four neighbouring floats each. Of this thread's first ones,
// copy_row and copy_k are the place in the tile, and *A is the place in A where k0 is 0.
INLINE void load_tile_a(LOCAL float (*tile_a)[BK], GLOBAL const float *A, int M, int K, int block_row, int k0,
                        int copy_row, int copy_k) {
#pragma unroll
    for (int i = 0; i < BM; i += THREADS / (BK / 4)) {
        const int left = block_row + copy_row + i < M ? K - k0 - copy_k : 0;
        SHARED4(&tile_a[copy_row + i][copy_k]) = load4(A + (size_t)i * K + k0, left, wide_k);
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

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_vectorized(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                      GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ ALIGNED float tile_a[BM][BK];
    __shared__ ALIGNED float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first four floats that it copies of each tile.
    const int thread = threadIdx.x;
    const int thread_column = thread % (BN / TN) * (strided ? 1 : TN);
    const int thread_row = thread / (BN / TN) * (strided ? 1 : TM);
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
