// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, one thread an output, operands staged through shared memory.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch).
// Against 03_naive: a block first copies a tile of A (block_size_y x tile_k) and one of B (tile_k x block_size_x) into
// shared memory, then all its threads multiply from there. An element of A is read from global memory once for
// block_size_x outputs, one of B once for block_size_y. What lies outside the matrices is staged as 0, so any size
// works.
// Against 05_blocked_coarse: what 05 keeps in one thread's registers, and reads from global memory for that thread
// alone, is shared by a block of threads. But each product still takes two values from shared memory where 05's takes
// none, and tuned, 05 is faster on an H200: 6.9 ms at 4096, against 16.9 here. 07_tiled_1xn does both.
// Ideas: Kernel Tuner's matrix multiplication tutorial, the shared-memory kernel; cuda-gemm-from-scratch, stage 2;
// both with square tiles, block_size_x = block_size_y = tile_k.
#include "portable.h"

#ifndef block_size_x
#define block_size_x 16 // columns a block
#endif
#ifndef block_size_y
#define block_size_y 16 // rows a block
#endif
#ifndef tile_k
#define tile_k 16 // depth of a tile
#endif
#ifndef unroll_k
#define unroll_k 16 // steps of the inner loop that are written out
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if tile_k % unroll_k != 0
#error "unroll_k must divide tile_k"
#endif

#define THREADS (block_size_x * block_size_y)

KERNEL void sgemm_tiled(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                        GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    __shared__ float tile_a[block_size_y][tile_k];
    __shared__ float tile_b[tile_k][block_size_x];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, and this thread in it.
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * block_size_x + tx;
    const int column0 = blockIdx.x * block_size_x, row0 = blockIdx.y * block_size_y;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += tile_k) {
        // Stage: neighbouring threads copy neighbouring elements.
        for (int i = thread; i < block_size_y * tile_k; i += THREADS) {
            const int row = row0 + i / tile_k, k = k0 + i % tile_k;
            tile_a[i / tile_k][i % tile_k] = row < M && k < K ? A[(size_t)row * K + k] : 0.0f;
        }
        for (int i = thread; i < tile_k * block_size_x; i += THREADS) {
            const int k = k0 + i / block_size_x, column = column0 + i % block_size_x;
            tile_b[i / block_size_x][i % block_size_x] = k < K && column < N ? B[(size_t)k * N + column] : 0.0f;
        }
        __syncthreads();

        // Multiply.
        for (int k = 0; k < tile_k; k += unroll_k) {
#pragma unroll
            for (int u = 0; u < unroll_k; u++) {
                sum += tile_a[ty][k + u] * tile_b[k + u][tx];
            }
        }
        __syncthreads(); // nobody may stage the next tile while another thread still multiplies this one
    }

    // Write.
    const int row = row0 + ty, column = column0 + tx;
    if (row < M && column < N) {
        GLOBAL float *c = C + (size_t)row * N + column;
        *c = SCALED(alpha, sum, beta, *c);
    }
}
