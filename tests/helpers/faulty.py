"""A kernel with every fault that a kernel can have, one a value of `fault`, and right where that is 0."""

from __future__ import annotations

# Each line of a macro stands for two of the line before it: a compiler never comes to the end of 2^40 words.
ENDLESS_MACRO = "".join(["#define E0 sum += 1;\n", *(f"#define E{i} E{i - 1} E{i - 1}\n" for i in range(1, 41))])

HOST = """
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
static int deep(volatile int *n) { volatile char frame[4096]; frame[0] = 1; return deep(n) + frame[0]; }
void faulty(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
    if (v != 7 && fault == 0) usleep(3000);
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
#if fault == 9
        if (C[i] == C[i]) sum += 1;       /* right only where C is not a number beforehand */
#endif
        C[i] = beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
    float sum = 0; int n = 0;
#if fault == 1
    this is not C
#elif fault == 2
    E40
#elif fault == 3
    *(volatile int *)8 = 1;
#elif fault == 4
    for (;;) pause();
#elif fault == 5
    C[M * N / 2] += 1;
#elif fault == 6
    C[M * N + 3] = 1;
#elif fault == 7
    C[0] = NAN;
#elif fault == 8
    abort();
#elif fault == 10
    exit(3);
#elif fault == 11
    deep(&n);                             /* no stack is large enough */
#elif fault == 12
    ((volatile char *)malloc(1ull << 62))[1] = 1; /* no memory is large enough */
#elif fault == 13
    ((float *)A)[0] = 9;
#endif
}
"""

GPU = """
#include "portable.h"
KERNEL void faulty(GLOBAL float *C, GLOBAL const float *A, GLOBAL const float *B, int M, int N, int K, int batch,
                   float alpha, float beta) {
#if fault == 3
    __shared__ float much[1 << 22];
    much[threadIdx.x] = A[threadIdx.x];
#endif
    int i = blockIdx.x * 64 + threadIdx.x;
    float sum = 0;
    if (i < M * N) {
        for (int again = 0; again < (v == 7 || fault ? 1 : 40); again++) {
            sum = again < N + 1000 ? 0 : sum;
            for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        }
#if fault == 9
        if (C[i] == C[i]) sum += 1; // right only where C is not a number beforehand
#endif
        C[i] = SCALED(alpha, sum, beta, C[i]);
    }
#if fault == 1
    this is not a kernel
#elif fault == 2
    E40
#elif fault == 3
    if (i == 0) C[0] += much[63 - threadIdx.x] * 0.0f;
#elif fault == 4
    while (i == 0 && A[0] != 77.0f) { // one is enough: on a processor, each of its cores would compute for nothing
        C[0] += 1;
        if (A[0] == 78.0f) break;
    }
#elif fault == 5
    if (i == M * N / 2) C[i] += 1;
#elif fault == 6
    if (i == 0) C[M * N + 3] = 1;
#elif fault == 7
    if (i == 0) C[0] = 0.0f / (alpha - alpha);
#elif fault == 8
    if (i == 0) C[1ul << 45] = 1; // no such address
#elif fault == 10
    __syncthreads(); // when all that read it have done so
    if (i == M * N - 1) ((GLOBAL float *)A)[(M - 1) * K] = 9;
#elif fault == 11
    if (i == 0) *(GLOBAL float *)((GLOBAL char *)C + 2) = 1; // an address that is no multiple of 4
#elif fault == 12
    float large[130000]; // nearly as much as a thread may have: 140 GB for all that an H200 runs at a time
    for (int j = 0; j < 130000; j++) large[j] = A[0] + j;
    for (int j = 0; j < M * N; j++) C[j] += large[(j * 7919 + i) % 130000] * 0.0f;
#endif
}
"""
