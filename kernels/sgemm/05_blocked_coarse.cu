// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, a thread computes a block of LBLK x LBLK outputs by itself.
//
// A is M x K, B is K x N, C is M x N; blocks of threads are (columns, rows, batch). A thread walks along K, LBLK at a
// time: it copies a block of A and one of B into arrays of its own, multiplies them, and adds the product to a third,
// as 01_host_blocked does.
// Against 03_naive: an element that a thread has copied serves LBLK outputs, so less is read from global memory. But
// blocks as large as the host's do not fit a thread's registers; they lie in local memory, which is as far away as
// global memory. They leave few threads for a whole GPU, and neighbouring threads read LBLK columns apart. Small
// blocks do fit: of 8 x 8 it takes 6.9 ms on an H200 at 4096, where 03 takes 19.6. The next stage shares one block
// among the threads instead.
// Idea: university lecture, blocked matrix multiplication, attempt 1 with local memory (LBLK = 32; 20 Gflops at 1024,
// after 200 for the naive one, as printed there). It starts one block of 32 x 32 threads, enough for 1024 x 1024, and
// N must be a multiple of LBLK; here there are as many blocks as the sizes need, and what lies outside counts as 0.
#include "portable.h"

#ifndef block_size_x
#define block_size_x 32 // threads a block in x
#endif
#ifndef block_size_y
#define block_size_y 32 // and in y
#endif
#ifndef LBLK
#define LBLK 32 // rows and columns of a thread's blocks
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if LBLK <= 8
#define WRITTEN_OUT LBLK // steps of a loop: arrays are in registers only where every index is a constant
#else
#define WRITTEN_OUT 1
#endif

KERNEL void sgemm_blocked_coarse(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                                 GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                                 float beta) {
    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place this thread's block.
    const int column0 = (blockIdx.x * block_size_x + threadIdx.x) * LBLK;
    const int row0 = (blockIdx.y * block_size_y + threadIdx.y) * LBLK;
    if (row0 >= M || column0 >= N) {
        return;
    }
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)row0 * K;
    B += b * K * N + column0;
    C += b * M * N + (size_t)row0 * N + column0;

    float sub_a[LBLK][LBLK], sub_b[LBLK][LBLK], sub_c[LBLK][LBLK];
#pragma unroll WRITTEN_OUT
    for (int i = 0; i < LBLK; i++) {
#pragma unroll WRITTEN_OUT
        for (int j = 0; j < LBLK; j++) {
            sub_c[i][j] = 0.0f;
        }
    }

    for (int k0 = 0; k0 < K; k0 += LBLK) {
        // Stage.
#pragma unroll WRITTEN_OUT
        for (int i = 0; i < LBLK; i++) {
#pragma unroll WRITTEN_OUT
            for (int j = 0; j < LBLK; j++) {
                sub_a[i][j] = row0 + i < M && k0 + j < K ? A[(size_t)i * K + k0 + j] : 0.0f;
                sub_b[i][j] = k0 + i < K && column0 + j < N ? B[(size_t)(k0 + i) * N + j] : 0.0f;
            }
        }

        // Multiply.
#pragma unroll WRITTEN_OUT
        for (int i = 0; i < LBLK; i++) {
#pragma unroll WRITTEN_OUT
            for (int j = 0; j < LBLK; j++) {
                float sum = 0.0f;
#pragma unroll WRITTEN_OUT
                for (int k = 0; k < LBLK; k++) {
                    sum += sub_a[i][k] * sub_b[k][j];
                }
                sub_c[i][j] += sum;
            }
        }
    }

    // Write.
#pragma unroll WRITTEN_OUT
    for (int i = 0; i < LBLK; i++) {
#pragma unroll WRITTEN_OUT
        for (int j = 0; j < LBLK; j++) {
            if (row0 + i < M && column0 + j < N) {
                GLOBAL float *c = C + (size_t)i * N + j;
                *c = SCALED(alpha, sub_c[i][j], beta, *c);
            }
        }
    }
}
