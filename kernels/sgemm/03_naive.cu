// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, one thread per output, with columns along x.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch).
// Against 02_naive_uncoalesced: x and y have changed places. The threads of a warp now share a row of A, which is one
// broadcast. They read neighbouring columns of B and write neighbouring outputs, which is one wide transaction each.
// N and K may be compiled in (fixed_sizes): 16 steps then take 56 instructions instead of 89. Tuned so, it takes 20 ms
// on an H200 at 4096. With the tutorial's 16 x 16 threads, compiled for any size, it takes 41 ms.
// Ideas: Kernel Tuner's matrix multiplication tutorial, whose sizes are constants; cuda-gemm-from-scratch, stage 1.
#include "portable.h"

#ifndef block_size_x
#define block_size_x 16 // columns per block
#endif
#ifndef block_size_y
#define block_size_y 16 // rows per block
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

KERNEL void sgemm_naive(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                        GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha, float beta) {
    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;
    const int column = blockIdx.x * block_size_x + threadIdx.x;
    const int row = blockIdx.y * block_size_y + threadIdx.y;
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
