// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, on the host: three loops, as the definition reads.
//
// A is M x K, B is K x N, C is M x N. The inner loop walks down a column of B, whose elements lie N floats apart: each
// step touches another cache line. The stages after this one repair that.
// Idea: the starting point of a university lecture on CUDA matrix multiplication.
#include <stddef.h>

#ifndef openmp
#define openmp 0 // 1: rows are spread over the cores
#endif

void sgemm_host_simple(float *restrict C, const float *restrict A, const float *restrict B, int M, int N, int K,
                       int batch, float alpha, float beta) {
#if openmp
#pragma omp parallel for collapse(2) schedule(static)
#endif
    for (int b = 0; b < batch; b++) {
        for (int i = 0; i < M; i++) {
            const float *a = A + ((size_t)b * M + i) * K;
            float *c = C + ((size_t)b * M + i) * N;
            for (int j = 0; j < N; j++) {
                const float *column = B + (size_t)b * K * N + j;
                float sum = 0.0f;
                for (int k = 0; k < K; k++) {
                    sum += a[k] * column[(size_t)k * N];
                }
                c[j] = beta == 0.0f ? alpha * sum : alpha * sum + beta * c[j];
            }
        }
    }
}
