// C = alpha A B, row-major, through tiles in shared memory: A is M x K, B is K x N.
//
// Tuned are the rectangles of outputs of a block and of a warp, the depth of the tiles, and how they are copied. Larger
// rectangles mean fewer reads for the same work, and fewer threads that hide their delays. alpha is that of BLAS, and
// its product takes sums out of the registers that they were summed in; see product.h. sgemm/ gets there step by step.
#include "portable.h"
#include "product.h"

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void matmul_tiled(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A, GLOBAL const float *__restrict__ B,
                  int M, int N, int K, float alpha) {
    SHARED_TILES(tiles);

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN;
    float sum[8][COLUMNS];
    multiply(sum, tiles, A, B, M, N, K, block_row, block_column);

#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            Four four;
#pragma unroll
            for (int v = 0; v < 4; v++) {
                four.at[v] = alpha * sum[i][j + v];
            }
            write_four(C, four, block_row + FIRST_ROW + ROW(i), block_column + FIRST_COLUMN + COLUMN(j), M, N);
        }
    }
}
