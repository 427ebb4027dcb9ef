// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, one thread per output, operands read from tiles in shared memory.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch).
// Against 03_naive: a block first copies a tile of A (block_size_y x tile_k) and one of B (tile_k x block_size_x) to
// shared memory, then all its threads multiply from there. An element of A is read from global memory once for
// block_size_x outputs, an element of B once for block_size_y. Tiles are 0 outside the matrices, so any size works.
// Against 05_blocked_coarse: there a thread reads its squares from global memory for itself alone; here a block of
// threads shares what it reads. But each product still takes two values from shared memory, where 05 takes them from
// registers. Tuned, 05 is faster on an H200: 6.9 ms at 4096, against 16.9 here. 07_tiled_1xn does both.
// Ideas: Kernel Tuner's matrix multiplication tutorial, the shared-memory kernel; cuda-gemm-from-scratch, stage 2;
// both with square tiles, block_size_x = block_size_y = tile_k.
#include "portable.h"
#include "inline.h"

#ifndef block_size_x
#define block_size_x 16 // columns per block
#endif
#ifndef block_size_y
#define block_size_y 16 // rows per block
#endif
#ifndef tile_k
#define tile_k 16 // depth of a tile
#endif
#ifndef unroll_k
#define unroll_k 16 // steps of the inner loop that are unrolled
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if tile_k % unroll_k != 0
#error "unroll_k must divide tile_k"
#endif

#define THREADS (block_size_x * block_size_y)

// sum + the product of a row of the tile of A and a column of the tile of B.
INLINE float multiply_tiles(float sum, LOCAL const float *row_a, LOCAL float (*tile_b)[block_size_x], int column) {
    for (int k = 0; k < tile_k; k += unroll_k) {
#pragma unroll
        for (int u = 0; u < unroll_k; u++) {
            sum += row_a[k + u] * tile_b[k + u][column];
        }
    }
    return sum;
}

KERNEL void sgemm_tiled(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                        GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ float tile_a[block_size_y][tile_k];
    __shared__ float tile_b[tile_k][block_size_x];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, and this thread in it.
    const int thread_x = threadIdx.x, thread_y = threadIdx.y, thread = thread_y * block_size_x + thread_x;
    const int block_column = blockIdx.x * block_size_x, block_row = blockIdx.y * block_size_y;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += tile_k) {
        // Load both tiles: neighbouring threads copy neighbouring elements, and 0 outside the matrices.
        for (int i = thread; i < block_size_y * tile_k; i += THREADS) {
            const int row = block_row + i / tile_k, k = k0 + i % tile_k;
            tile_a[i / tile_k][i % tile_k] = row < M && k < K ? A[(size_t)row * K + k] : 0.0f;
        }
        for (int i = thread; i < tile_k * block_size_x; i += THREADS) {
            const int k = k0 + i / block_size_x, column = block_column + i % block_size_x;
            tile_b[i / block_size_x][i % block_size_x] = k < K && column < N ? B[(size_t)k * N + column] : 0.0f;
        }
        __syncthreads();
        sum = multiply_tiles(sum, tile_a[thread_y], tile_b, thread_x);
        __syncthreads(); // nobody may load the next tile while another thread still multiplies this one
    }

    // Write.
    const int row = block_row + thread_y, column = block_column + thread_x;
    if (row < M && column < N) {
        GLOBAL float *c = C + (size_t)row * N + column;
        *c = SCALED(alpha, sum, beta, *c);
    }
}
