// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, on the host, in square blocks.
//
// Against 00_host_simple: the loops are cut into blocks of block_size, so that the parts of A, B and C in use fit the
// cache. The loop over k encloses the loop over j, so that the inner loop runs along rows of B and C and the compiler
// vectorises it.
// Idea: cache blocking, as in a university lecture on CUDA matrix multiplication.
#include <stddef.h>

#ifndef block_size
#define block_size 32 // rows of A, columns of B and depth of one block
#endif
#ifndef openmp
#define openmp 0 // 1: blocks of C are spread over the cores
#endif

static inline int least(int a, int b) { return a < b ? a : b; }

void sgemm_host_blocked(float *restrict C, const float *restrict A, const float *restrict B, int M, int N, int K,
                        int batch, float alpha, float beta) {
#if openmp
#pragma omp parallel for collapse(3) schedule(static)
#endif
    for (int b = 0; b < batch; b++) {
        for (int i0 = 0; i0 < M; i0 += block_size) {
            for (int j0 = 0; j0 < N; j0 += block_size) {
                const int rows = least(block_size, M - i0), columns = least(block_size, N - j0);
                float sum[block_size][block_size] = {{0.0f}};

                for (int k0 = 0; k0 < K; k0 += block_size) {
                    const int depth = least(block_size, K - k0);
                    for (int i = 0; i < rows; i++) {
                        const float *a = A + ((size_t)b * M + i0 + i) * K + k0;
                        for (int k = 0; k < depth; k++) {
                            const float *row = B + ((size_t)b * K + k0 + k) * N + j0;
                            for (int j = 0; j < columns; j++) {
                                sum[i][j] += a[k] * row[j];
                            }
                        }
                    }
                }

                for (int i = 0; i < rows; i++) {
                    float *c = C + ((size_t)b * M + i0 + i) * N + j0;
                    for (int j = 0; j < columns; j++) {
                        c[j] = beta == 0.0f ? alpha * sum[i][j] : alpha * sum[i][j] + beta * c[j];
                    }
                }
            }
        }
    }
}
