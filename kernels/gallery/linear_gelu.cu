// Y = GELU(X W + bias), row-major: X is M x K, W is K x N. GELU(z) = z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2.
//
// The bias is added and GELU taken while an output is in a register: done by kernels of their own, each would read and
// write Y again. Tuned are the tile, the outputs of a thread and the floats per load, as in matmul_tiled; see
// product.h.
#include "portable.h"
#include "product.h"

INLINE float gelu(float z) { return 0.5f * z * (1.0f + tanh(0.7978845608f * (z + 0.044715f * z * z * z))); }

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void linear_gelu(GLOBAL float *__restrict__ Y, GLOBAL const float *__restrict__ X, GLOBAL const float *__restrict__ W,
                 GLOBAL const float *__restrict__ bias, int M, int N, int K) {
    __shared__ float tile_a[BK][BM + 1];
    __shared__ float tile_b[BK][BN];

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN;
    const int thread_row = threadIdx.x / COLUMNS_APART, thread_column = threadIdx.x % COLUMNS_APART;
    float sum[TM][TN];
    multiply(sum, tile_a, tile_b, X, W, M, N, K, block_row, block_column, thread_row, thread_column);

#pragma unroll
    for (int j = 0; j < TN; j++) {
        const int column = block_column + thread_column + j * COLUMNS_APART;
        const float shift = column < N ? bias[column] : 0.0f;
#pragma unroll
        for (int i = 0; i < TM; i++) {
            const int row = block_row + thread_row + i * ROWS_APART;
            if (row < M && column < N) {
                Y[(size_t)row * N + column] = gelu(sum[i][j] + shift);
            }
        }
    }
}
