// C = A B, row-major: A is M x K, B is K x N; for products of few outputs and great depth.
//
// Where C has fewer tiles than the device has places for blocks, most of it would idle. So K is cut into `splits`, and
// a tile of C has a block for each. Each leaves its sums in a workspace, in the order of its threads, so that these
// write and read side by side. The semaphore of a tile counts the blocks that have done so; the last one adds up all
// sums in a fixed order, so that C does not depend on who was last, and sets the semaphore back to 0; see parts.h.
// Tuned are the splits and, as in matmul_tiled, the rectangles of outputs of a block and of a warp, the depth of the
// tiles, and how they are copied; see product.h. More splits: more blocks, and more sums to write and read.
#include "portable.h"
#include "parts.h"
#include "product.h"

#ifndef splits
#define splits 4
#endif
#ifndef depth
#define depth 64 // of a split: a multiple of BK
#endif

#define PART (BM * BN) // sums of a block

#ifdef __OPENCL_VERSION__
#define READ_PART(p) (*(GLOBAL volatile const float *)(p))
#define WRITE_PART(p, sum) (*(GLOBAL volatile float *)(p) = (sum))
#else
#define READ_PART(p) __ldcg(p) // other multiprocessors have written it: not from the L1 cache
#define WRITE_PART(p, sum) __stcg(p, sum)
#endif

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void split_k(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A, GLOBAL const float *__restrict__ B,
             GLOBAL float *workspace, GLOBAL int *semaphores, int M, int N, int K) {
    SHARED_TILES(tiles);
    __shared__ int is_last;

    const int block_row = blockIdx.y * BM, block_column = blockIdx.x * BN, tile = blockIdx.y * gridDim.x + blockIdx.x;
    const int first = blockIdx.z * depth, end = first + depth < K ? first + depth : K;
    float sum[8][COLUMNS];
    multiply_part(sum, tiles, A, B, M, N, K, block_row, block_column, first, end);

    GLOBAL float *parts = workspace + (size_t)tile * splits * PART + threadIdx.x; // of this thread
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            WRITE_PART(parts + (size_t)blockIdx.z * PART + (i * COLUMNS + j) * THREADS, sum[i][j]);
        }
    }
    if (!is_last_block(semaphores + tile, &is_last, splits)) {
        return;
    }
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < COLUMNS; j += 4) {
            Four four = {{0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
            for (int s = 0; s < splits; s++) {
#pragma unroll
                for (int v = 0; v < 4; v++) {
                    four.at[v] += READ_PART(parts + s * PART + (i * COLUMNS + j + v) * THREADS);
                }
            }
            write_four(C, four, block_row + FIRST_ROW + ROW(i), block_column + FIRST_COLUMN + COLUMN(j), M, N);
        }
    }
}
