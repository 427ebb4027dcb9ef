// C = A B, row-major, from global memory alone: A is M x K, B is K x N.
//
// A thread computes `rows` outputs of one column, so that what it reads of B serves that many. Neighbouring threads
// compute neighbouring columns: they read one row of B together, and one element of A for all. What several warps of a
// block read again comes from the cache. Tuned are the shape of the block, the rows of a thread, and the steps of the
// loop that are unrolled.
#include "portable.h"
#include "block.h"

#ifndef block_x
#define block_x 32 // columns per block
#endif
#ifndef block_y
#define block_y 8
#endif
#ifndef rows
#define rows 1 // per thread
#endif
#ifndef unroll
#define unroll 4
#endif

KERNEL BLOCK(block_x, block_y)
void matmul_naive(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                  GLOBAL const float *__restrict__ B, int M, int N, int K) {
    const int column = blockIdx.x * block_x + threadIdx.x;
    const int first_row = (blockIdx.y * block_y + threadIdx.y) * rows;
    if (column >= N || first_row >= M) {
        return;
    }
    float sum[rows];
#pragma unroll
    for (int i = 0; i < rows; i++) {
        sum[i] = 0.0f;
    }
#pragma unroll unroll
    for (int k = 0; k < K; k++) {
        const float b = B[(size_t)k * N + column];
#pragma unroll
        for (int i = 0; i < rows; i++) {
            const int row = first_row + i < M ? first_row + i : M - 1; // beyond the last row, it is read again
            sum[i] += A[(size_t)row * K + k] * b;
        }
    }
#pragma unroll
    for (int i = 0; i < rows; i++) {
        if (first_row + i < M) {
            C[(size_t)(first_row + i) * N + column] = sum[i];
        }
    }
}
