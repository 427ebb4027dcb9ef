// C = A B, row-major, through tiles in shared memory: A is M x K, B is K x N.
//
// Tuned are the tile, the outputs of a thread and the floats per load; see product.h. More outputs per thread mean
// fewer reads of shared memory per product, and fewer threads that hide its delay. sgemm/ goes on from here.
#include "portable.h"
#include "product.h"

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void matmul_tiled(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A, GLOBAL const float *__restrict__ B,
                  int M, int N, int K) {
    __shared__ float tile_a[BK][BM + 1];
    __shared__ float tile_b[BK][BN];

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN;
    const int thread_row = threadIdx.x / COLUMNS_APART, thread_column = threadIdx.x % COLUMNS_APART;
    float sum[TM][TN];
    multiply(sum, tile_a, tile_b, A, B, M, N, K, block_row, block_column, thread_row, thread_column);

#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int row = block_row + thread_row + i * ROWS_APART;
            const int column = block_column + thread_column + j * COLUMNS_APART;
            if (row < M && column < N) {
                C[(size_t)row * N + column] = sum[i][j];
            }
        }
    }
}
