// Y = GELU(X W + bias), row-major: X is M x K, W is K x N. GELU(z) = z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))) / 2.
//
// The bias is added and GELU taken while an output is in a register: done by kernels of their own, each would read and
// write Y again. Tuned are the tile, the outputs of a thread and the floats per load and read, as in
// matmul_tiled; see product.h.
#include "portable.h"
#include "product.h"

INLINE float gelu(float z) { return 0.5f * z * (1.0f + tanh(0.7978845608f * (z + 0.044715f * z * z * z))); }

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void linear_gelu(GLOBAL float *__restrict__ Y, GLOBAL const float *__restrict__ X, GLOBAL const float *__restrict__ W,
                 GLOBAL const float *__restrict__ bias, int M, int N, int K) {
    __shared__ Tiles tiles[2];

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN;
    const int first_row = block_row + FIRST_ROW, first_column = block_column + FIRST_COLUMN;
    float sum[TM][TN];
    multiply(sum, tiles, X, W, M, N, K, block_row, block_column);

#pragma unroll
    for (int j = 0; j < TN; j++) {
        const int column = first_column + COLUMN(j);
        const float shift = column < N ? bias[column] : 0.0f;
#pragma unroll
        for (int i = 0; i < TM; i++) {
            const int row = first_row + ROW(i);
            if (row < M && column < N) {
                Y[(size_t)row * N + column] = gelu(sum[i][j] + shift);
            }
        }
    }
}
