// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, shared tiles, tile_size_y x tile_size_x outputs per thread.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes block_size_y * tile_size_y
// rows by block_size_x * tile_size_x columns. The outputs of a thread lie block_size_y rows and block_size_x columns
// apart, so that neighbouring threads still touch neighbouring memory:
//
//       x: thread 0 1 2 .. block_size_x - 1 | 0 1 2 ..      tile_size_x times
//
// Against 06_tiled: each value that a thread reads from shared memory serves several outputs, which it keeps in
// registers. The same work takes fewer shared reads, fewer threads and fewer barriers. The tile of A is square, as deep
// as it has rows, so that each thread copies tile_size_y elements of it.
// Idea: Kernel Tuner's matrix multiplication tutorial, 1xN tiling in both directions. (There the sums start
// uninitialised and sizes must be multiples of the tile; here neither is so.)
#include "portable.h"

#ifndef block_size_x
#define block_size_x 32 // threads in x; also the depth of the tiles
#endif
#ifndef block_size_y
#define block_size_y 8 // threads in y
#endif
#ifndef tile_size_x
#define tile_size_x 4 // outputs per thread in x
#endif
#ifndef tile_size_y
#define tile_size_y 4 // outputs per thread in y
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if block_size_x != block_size_y * tile_size_y
#error "the tile of A must have as many rows as it is deep: block_size_x == block_size_y * tile_size_y"
#endif

#define DEPTH block_size_x
#define ROWS tile_size_y // per thread
#define COLUMNS tile_size_x

#include "outputs.h"

// Copy the tile of A from k0 on: a thread copies one element every block_size_y rows. What lies outside of A becomes 0.
INLINE void load_tile_a(LOCAL float (*tile_a)[DEPTH], GLOBAL const float *A, int M, int K, int first_row, int k0,
                        int thread_x, int thread_y) {
#pragma unroll
    for (int i = 0; i < tile_size_y; i++) {
        const int row = first_row + i * block_size_y, k = k0 + thread_x;
        tile_a[thread_y + i * block_size_y][thread_x] = row < M && k < K ? A[(size_t)row * K + k] : 0.0f;
    }
}

// The same for B, every block_size_x columns.
INLINE void load_tile_b(LOCAL float (*tile_b)[block_size_x * tile_size_x], GLOBAL const float *B, int N, int K,
                        int first_column, int k0, int thread_x, int thread_y) {
#pragma unroll
    for (int i = 0; i < tile_size_y; i++) {
        const int k = k0 + thread_y + i * block_size_y;
#pragma unroll
        for (int j = 0; j < tile_size_x; j++) {
            const int column = first_column + j * block_size_x;
            tile_b[thread_y + i * block_size_y][thread_x + j * block_size_x] =
                k < K && column < N ? B[(size_t)k * N + column] : 0.0f;
        }
    }
}

// sum += the product of the tiles, for this thread's outputs.
INLINE void multiply_tiles(float (*sum)[tile_size_x], LOCAL float (*tile_a)[DEPTH],
                           LOCAL float (*tile_b)[block_size_x * tile_size_x], int thread_x, int thread_y) {
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
#pragma unroll
        for (int i = 0; i < tile_size_y; i++) {
#pragma unroll
            for (int j = 0; j < tile_size_x; j++) {
                sum[i][j] += tile_a[thread_y + i * block_size_y][k] * tile_b[k][thread_x + j * block_size_x];
            }
        }
    }
}

KERNEL void sgemm_tiled_1xn(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                            GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                            float beta) {
    __shared__ float tile_a[DEPTH][DEPTH];
    __shared__ float tile_b[DEPTH][block_size_x * tile_size_x];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, and this thread in it.
    const int thread_x = threadIdx.x, thread_y = threadIdx.y;
    const int first_column = blockIdx.x * (block_size_x * tile_size_x) + thread_x;
    const int first_row = blockIdx.y * (block_size_y * tile_size_y) + thread_y;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    float sum[tile_size_y][tile_size_x];
    clear(sum);

    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        load_tile_a(tile_a, A, M, K, first_row, k0, thread_x, thread_y);
        load_tile_b(tile_b, B, N, K, first_column, k0, thread_x, thread_y);
        __syncthreads();
        multiply_tiles(sum, tile_a, tile_b, thread_x, thread_y);
        __syncthreads(); // nobody may load the next tile while another thread still multiplies this one
    }

    // Write.
    for (int i = 0; i < tile_size_y; i++) {
        for (int j = 0; j < tile_size_x; j++) {
            const int row = first_row + i * block_size_y, column = first_column + j * block_size_x;
            if (row < M && column < N) {
                GLOBAL float *c = C + (size_t)row * N + column;
                *c = SCALED(alpha, sum[i][j], beta, *c);
            }
        }
    }
}
