// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, TM x TN outputs per thread.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns. Its
// threads are a grid of BM / TM by BN / TN. Along either axis, the outputs of a thread lie
//
//     strided = 0, together:                 0 0 0 0 1 1 1 1 2 2 2 2 ..
//     strided = 1, one in each repetition:   0 1 2 .. 0 1 2 .. 0 1 2 ..
//
// Against 08_coarsened_1d: TM x TN outputs need TM + TN values from shared memory, all kept in registers. A column of
// as many outputs needs one value more than it has outputs: 65 for 64 products, where 8 x 8 outputs need 16.
// Ideas: cuda-gemm-from-scratch, stage 4, 2D coarsening (together); the batched kernel for an RTX 3050 with TM, TN,
// TPBM = BM / TM, TPBN = BN / TN and BK (strided). (There sizes are multiples of the tile, or stores go astray.)
#include "portable.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 128 // rows per block
#endif
#ifndef BN
#define BN 128 // columns per block
#endif
#ifndef BK
#define BK 32 // depth of the tiles
#endif
#ifndef TM
#define TM 8 // rows per thread
#endif
#ifndef TN
#define TN 8 // columns per thread
#endif
#ifndef strided
#define strided 0 // 1: a thread's outputs lie apart, so that neighbouring threads touch neighbouring memory
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

#define THREADS (BM / TM * (BN / TN))
#define ROWS TM // per thread
#define COLUMNS TN
#define ROW(i) ((i) * (strided ? BM / TM : 1)) // from a thread's first row to its row i
#define COLUMN(j) ((j) * (strided ? BN / TN : 1))

#if BM % TM != 0 || BN % TN != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN"
#endif
#if THREADS % BK != 0 || BM * BK % THREADS != 0
#error "the threads must copy whole rows of the tile of A, in whole rounds"
#endif
#if THREADS % BN != 0 || BK * BN % THREADS != 0
#error "the threads must copy whole rows of the tile of B, in whole rounds"
#endif

#include "floats.h"
#include "outputs.h"

// Copy the tile of A from k0 on: neighbouring threads copy neighbouring elements. Of this thread's first one, copy_row
// and copy_k are the place in the tile, and *A is the place in A where k0 is 0.
INLINE void load_tile_a(LOCAL float (*tile_a)[BK], GLOBAL const float *A, int M, int K, int block_row, int k0,
                        int copy_row, int copy_k) {
#pragma unroll
    for (int i = 0; i < BM; i += THREADS / BK) {
        tile_a[copy_row + i][copy_k] = block_row + copy_row + i < M && k0 + copy_k < K ? A[(size_t)i * K + k0] : 0.0f;
    }
}

// The same for B.
INLINE void load_tile_b(LOCAL float (*tile_b)[BN], GLOBAL const float *B, int N, int K, int block_column, int k0,
                        int copy_k, int copy_column) {
#pragma unroll
    for (int k = 0; k < BK; k += THREADS / BN) {
        tile_b[copy_k + k][copy_column] =
            k0 + copy_k + k < K && block_column + copy_column < N ? B[(size_t)(k0 + k) * N] : 0.0f;
    }
}

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_coarsened_2d(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                        GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ float tile_a[BM][BK];
    __shared__ float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first element that it copies of each tile.
    const int thread = threadIdx.x;
    const int thread_column = thread % (BN / TN) * (strided ? 1 : TN);
    const int thread_row = thread / (BN / TN) * (strided ? 1 : TM);
    const int block_column = blockIdx.x * BN, block_row = blockIdx.y * BM;
    const int copy_row_a = thread / BK, copy_k_a = thread % BK, copy_k_b = thread / BN, copy_column_b = thread % BN;
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
