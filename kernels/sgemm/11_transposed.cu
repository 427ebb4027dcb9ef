// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, TM x TN outputs per thread, A stored transposed.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns. Its
// threads are a grid of BM / TM by BN / TN. Along either axis, the outputs of a thread lie
//
//     strided = 0, together:                  0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 ..
//     strided = 1, four in each repetition:   0 0 0 0 1 1 1 1 .. 0 0 0 0 1 1 1 1 ..
//
// Against 10_vectorized: the tile of A is stored transposed, as BK rows of BM. At one k the rows of a thread then lie
// side by side, as its columns of B do, and it reads both four at a time. In 10 the rows of a thread lie BK floats
// apart. There the compiler reads four k of each row at once, which takes four times the registers and comes from the
// same few banks. C is written four at a time.
// Four neighbours of A along k are loaded at once and stored to four rows of the tile. With rows that are 4 floats
// longer (`pad`), twice as many of them are stored at once.
// Idea: cuda-gemm-from-scratch, stage 5, transposed (outputs together, no padding). (There sizes are multiples of the
// tile.)
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
#define strided 0 // 1: a thread's fours lie apart, so that neighbouring threads touch neighbouring memory
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

#define THREADS (BM / TM * (BN / TN))
#define ROWS TM // per thread
#define COLUMNS TN
#define ROW(i) ((i) / 4 * (strided ? BM / TM * 4 : 4) + (i) % 4) // from a thread's first row to its row i
#define COLUMN(j) ((j) / 4 * (strided ? BN / TN * 4 : 4) + (j) % 4)

#if BM % TM != 0 || BN % TN != 0
#error "the outputs of the threads must fill the block: TM must divide BM, and TN BN"
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
void sgemm_transposed(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                      GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ ALIGNED float tile_a[BK][BM + pad];
    __shared__ ALIGNED float tile_b[BK][BN];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread in it, and the first four floats that it copies of each tile.
    const int thread = threadIdx.x;
    const int thread_column = thread % (BN / TN) * (strided ? 4 : TN);
    const int thread_row = thread / (BN / TN) * (strided ? 4 : TM);
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
