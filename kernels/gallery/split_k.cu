// C = A B, row-major: A is M x K, B is K x N; for products of few outputs and great depth.
//
// Where C has fewer tiles than the device has places for blocks, most of it would idle. So K is cut into `splits`, and
// a tile of C has a block for each. Each leaves its sums in a workspace of splits x M x N floats. The semaphore of a
// tile counts the blocks that have done so; the last one adds up all sums in a fixed order, so that C does not depend
// on who was last, and sets the semaphore back to 0. Tuned are the splits and, as in matmul_tiled, the tile, the
// outputs of a thread and the floats per load and read; see product.h. More splits: more blocks, and more sums to
// write and read.
#include "portable.h"
#include "atomic.h"
#include "product.h"

#ifndef splits
#define splits 4
#endif

#ifdef __OPENCL_VERSION__
#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#else
#define FENCE() __threadfence()
#endif

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void split_k(GLOBAL float *C, GLOBAL const float *__restrict__ A, GLOBAL const float *__restrict__ B,
             GLOBAL volatile float *workspace, GLOBAL int *semaphores, int M, int N, int K) {
    __shared__ Tiles tiles[2];
    __shared__ int is_last;

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN;
    const int first_row = block_row + FIRST_ROW, first_column = block_column + FIRST_COLUMN;
    const int depth = ((K + BK - 1) / BK + splits - 1) / splits * BK; // of a split
    const int split = blockIdx.z, first = split * depth, end = first + depth < K ? first + depth : K;
    float sum[TM][TN];
    multiply_part(sum, tiles, A, B, M, N, K, block_row, block_column, first, end);

    const size_t outputs = (size_t)M * N;
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int row = first_row + ROW(i);
            const int column = first_column + COLUMN(j);
            if (row < M && column < N) {
                workspace[split * outputs + (size_t)row * N + column] = sum[i][j];
            }
        }
    }

    FENCE(); // who sees the semaphore counted sees these sums
    __syncthreads();
    GLOBAL int *semaphore = semaphores + blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0) {
        is_last = GLOBAL_ADD(semaphore, 1) == splits - 1;
        FENCE();
    }
    __syncthreads();
    if (!is_last) {
        return;
    }
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const int row = first_row + ROW(i);
            const int column = first_column + COLUMN(j);
            if (row < M && column < N) {
                GLOBAL volatile const float *part = workspace + (size_t)row * N + column;
                float all = 0.0f;
#pragma unroll 4
                for (int s = 0; s < splits; s++) {
                    all += part[s * outputs];
                }
                C[(size_t)row * N + column] = all;
            }
        }
    }
    if (threadIdx.x == 0) {
        *semaphore = 0; // for the next launch
    }
}
