// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, each thread computes LBLK x LBLK outputs by itself.
//
// A is M x K, B is K x N, C is M x N; blocks of threads are (columns, rows, batch). A thread walks along K, LBLK at a
// time, as 01_host_blocked does: it copies a square of A and one of B to arrays of its own, multiplies them, and adds
// the product to a third array.
// Against 03_naive: an element that a thread has copied serves LBLK outputs, so less is read from global memory. But
// squares as large as the host's do not fit a thread's registers. They lie in local memory, which is as far away as
// global memory. Large squares also leave few threads for a whole GPU, and neighbouring threads read LBLK columns
// apart. Small squares do fit: with 8 x 8 it takes 6.9 ms on an H200 at 4096, where 03 takes 19.6. The next stage
// shares tiles among the threads of a block instead.
// Idea: university lecture, blocked matrix multiplication, attempt 1 with local memory (LBLK = 32; 20 Gflops at 1024,
// after 200 for the naive one, as printed there). It starts one block of 32 x 32 threads, enough for 1024 x 1024, and
// its N must be a multiple of LBLK. Here there are as many blocks as the sizes need, and what lies outside counts as 0.
#include "portable.h"
#include "inline.h"

#ifndef block_size_x
#define block_size_x 32 // threads per block in x
#endif
#ifndef block_size_y
#define block_size_y 32 // threads per block in y
#endif
#ifndef LBLK
#define LBLK 32 // rows and columns of a thread's squares
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if LBLK <= 8
#define UNROLL LBLK // steps of a loop: arrays are in registers only where every index is a constant
#else
#define UNROLL 1
#endif

// sub_c += sub_a sub_b.
INLINE void multiply_squares(float (*sub_c)[LBLK], float (*sub_a)[LBLK], float (*sub_b)[LBLK]) {
#pragma unroll UNROLL
    for (int i = 0; i < LBLK; i++) {
#pragma unroll UNROLL
        for (int j = 0; j < LBLK; j++) {
            float sum = 0.0f;
#pragma unroll UNROLL
            for (int k = 0; k < LBLK; k++) {
                sum += sub_a[i][k] * sub_b[k][j];
            }
            sub_c[i][j] += sum;
        }
    }
}

KERNEL void sgemm_blocked_coarse(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                                 GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                                 float beta) {
    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place this thread's outputs.
    const int first_column = (blockIdx.x * block_size_x + threadIdx.x) * LBLK;
    const int first_row = (blockIdx.y * block_size_y + threadIdx.y) * LBLK;
    if (first_row >= M || first_column >= N) {
        return;
    }
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)first_row * K;
    B += b * K * N + first_column;
    C += b * M * N + (size_t)first_row * N + first_column;

    float sub_a[LBLK][LBLK], sub_b[LBLK][LBLK], sub_c[LBLK][LBLK];
#pragma unroll UNROLL
    for (int i = 0; i < LBLK; i++) {
#pragma unroll UNROLL
        for (int j = 0; j < LBLK; j++) {
            sub_c[i][j] = 0.0f;
        }
    }

    for (int k0 = 0; k0 < K; k0 += LBLK) {
        // Load both squares; what lies outside the matrices becomes 0.
#pragma unroll UNROLL
        for (int i = 0; i < LBLK; i++) {
#pragma unroll UNROLL
            for (int j = 0; j < LBLK; j++) {
                sub_a[i][j] = first_row + i < M && k0 + j < K ? A[(size_t)i * K + k0 + j] : 0.0f;
                sub_b[i][j] = k0 + i < K && first_column + j < N ? B[(size_t)(k0 + i) * N + j] : 0.0f;
            }
        }
        multiply_squares(sub_c, sub_a, sub_b);
    }

    // Write.
#pragma unroll UNROLL
    for (int i = 0; i < LBLK; i++) {
#pragma unroll UNROLL
        for (int j = 0; j < LBLK; j++) {
            if (first_row + i < M && first_column + j < N) {
                GLOBAL float *c = C + (size_t)i * N + j;
                *c = SCALED(alpha, sub_c[i][j], beta, *c);
            }
        }
    }
}
