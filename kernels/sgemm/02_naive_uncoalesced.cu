// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, one thread per output, with rows along x.
//
// A is M x K, B is K x N, C is M x N; blocks are (rows, columns, batch).
// Against the host stages: the outer loops are gone, and each thread runs the inner one. The threads of a warp differ
// in x, which here is their row. At each step a warp therefore reads 32 elements of A that lie K floats apart, each a
// memory transaction of its own, and one element of B, a broadcast. At the end it writes 32 outputs that lie N floats
// apart.
// 03_naive swaps x and y.
// Idea: the first CUDA kernel of a university lecture, which maps x to rows in this way.
#include "portable.h"

#ifndef block_size_x
#define block_size_x 32 // rows per block
#endif
#ifndef block_size_y
#define block_size_y 32 // columns per block
#endif

KERNEL void sgemm_naive_uncoalesced(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                                    GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                                    float beta) {
    const int row = blockIdx.x * block_size_x + threadIdx.x;
    const int column = blockIdx.y * block_size_y + threadIdx.y;
    if (row >= M || column >= N) {
        return;
    }
    const size_t b = blockIdx.z;
    A += (b * M + row) * K;
    B += b * K * N + column;
    C += (b * M + row) * N + column;

    float sum = 0.0f;
    for (int k = 0; k < K; k++) {
        sum += A[k] * B[(size_t)k * N];
    }
    *C = SCALED(alpha, sum, beta, *C);
}
