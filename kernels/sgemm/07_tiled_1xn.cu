// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, tile_size_y x tile_size_x outputs a thread.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes
// (block_size_y * tile_size_y) rows by (block_size_x * tile_size_x) columns; a thread's outputs lie block_size_y rows
// and block_size_x columns apart, so that neighbouring threads still touch neighbouring memory:
//
//       x: thread 0 1 2 .. block_size_x - 1 | 0 1 2 ..      tile_size_x times
//
// Against 06_tiled: each value that a thread reads from shared memory serves several outputs kept in registers, so
// there are fewer shared reads, fewer threads and fewer barriers for the same work. The tile of A is square, as deep as
// it has rows, so that each thread copies tile_size_y elements of it.
// Idea: Kernel Tuner's matrix multiplication tutorial, 1xN tiling in both directions. (There the sums start
// uninitialised and sizes must be multiples of the tile; here neither.)
#include "portable.h"

#ifndef block_size_x
#define block_size_x 32 // threads in x; also the depth of the tiles
#endif
#ifndef block_size_y
#define block_size_y 8 // threads in y
#endif
#ifndef tile_size_x
#define tile_size_x 4 // outputs a thread in x
#endif
#ifndef tile_size_y
#define tile_size_y 4 // outputs a thread in y
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if block_size_x != block_size_y * tile_size_y
#error "the rows of a tile must be as many as it is deep: block_size_x == block_size_y * tile_size_y"
#endif

#define DEPTH block_size_x

KERNEL void sgemm_tiled_1xn(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                            GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                            float beta) {
    __shared__ float tile_a[DEPTH][DEPTH];
    __shared__ float tile_b[DEPTH][block_size_x * tile_size_x];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, and this thread in it.
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int column0 = blockIdx.x * (block_size_x * tile_size_x) + tx;
    const int row0 = blockIdx.y * (block_size_y * tile_size_y) + ty;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    float sum[tile_size_y][tile_size_x];
    for (int i = 0; i < tile_size_y; i++) {
        for (int j = 0; j < tile_size_x; j++) {
            sum[i][j] = 0.0f;
        }
    }

    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        // Stage. Thread (tx, ty) copies what has its x and, every block_size_y rows, its y.
#pragma unroll
        for (int i = 0; i < tile_size_y; i++) {
            const int row = row0 + i * block_size_y, k = k0 + tx;
            tile_a[ty + i * block_size_y][tx] = row < M && k < K ? A[(size_t)row * K + k] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < tile_size_y; i++) {
            const int k = k0 + ty + i * block_size_y;
#pragma unroll
            for (int j = 0; j < tile_size_x; j++) {
                const int column = column0 + j * block_size_x;
                tile_b[ty + i * block_size_y][tx + j * block_size_x] =
                    k < K && column < N ? B[(size_t)k * N + column] : 0.0f;
            }
        }
        __syncthreads();

        // Multiply.
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
#pragma unroll
            for (int i = 0; i < tile_size_y; i++) {
#pragma unroll
                for (int j = 0; j < tile_size_x; j++) {
                    sum[i][j] += tile_a[ty + i * block_size_y][k] * tile_b[k][tx + j * block_size_x];
                }
            }
        }
        __syncthreads(); // nobody may stage the next tile while another thread still multiplies this one
    }

    // Write.
    for (int i = 0; i < tile_size_y; i++) {
        for (int j = 0; j < tile_size_x; j++) {
            const int row = row0 + i * block_size_y, column = column0 + j * block_size_x;
            if (row < M && column < N) {
                GLOBAL float *c = C + (size_t)row * N + column;
                *c = SCALED(alpha, sum[i][j], beta, *c);
            }
        }
    }
}
