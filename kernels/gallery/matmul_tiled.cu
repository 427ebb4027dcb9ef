// C = A B, row-major, through tiles in shared memory: A is M x K, B is K x N.
//
// Tuned are the tile, the outputs of a thread and the floats per load and read; see product.h. More outputs per thread
// mean fewer reads of shared memory per product, and fewer threads that hide its delay. sgemm/ goes on from here.
#include "portable.h"
#include "product.h"

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void matmul_tiled(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A, GLOBAL const float *__restrict__ B,
                  int M, int N, int K) {
    __shared__ Tiles tiles[2];

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN;
    const int first_row = block_row + FIRST_ROW, first_column = block_column + FIRST_COLUMN;
    float sum[TM][TN];
    multiply(sum, tiles, A, B, M, N, K, block_row, block_column);

#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int row = first_row + ROW(i);
            const int column = first_column + COLUMN(j);
            if (row < M && column < N) {
                C[(size_t)row * N + column] = sum[i][j];
            }
        }
    }
}
