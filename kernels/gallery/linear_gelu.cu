// Y = GELU(X W + bias), row-major: X is M x K, W is K x N. GELU(z) = z (1 + tanh(u)) / 2 = z / (1 + exp(-2 u)), where
// u = sqrt(2 / pi) (z + 0.044715 z^3).
//
// The bias is added and GELU taken while an output is in a register: done by kernels of their own, each would read and
// write Y again. Tuned are the rectangles of outputs of a block and of a warp, the depth of the tiles, and how they are
// copied, as in matmul_tiled; see product.h.
#include "portable.h"
#include "product.h"

INLINE float gelu(float z) { return z / (1.0f + exp(-2 * 0.7978845608f * (z + 0.044715f * z * z * z))); }

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void linear_gelu(GLOBAL float *__restrict__ Y, GLOBAL const float *__restrict__ X, GLOBAL const float *__restrict__ W,
                 GLOBAL const float *__restrict__ bias, int M, int N, int K) {
    SHARED_TILES(tiles);

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN;
    float sum[8][COLUMNS];
    multiply(sum, tiles, X, W, M, N, K, block_row, block_column);

#pragma unroll
    for (int j = 0; j < COLUMNS; j += 4) {
        const int column = block_column + FIRST_COLUMN + COLUMN(j);
        const Four shift = four_of(bias + column, N - column);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Four four;
#pragma unroll
            for (int v = 0; v < 4; v++) {
                four.at[v] = gelu(sum[i][j + v] + shift.at[v]);
            }
            write_four(Y, four, block_row + FIRST_ROW + ROW(i), column, M, N);
        }
    }
}
