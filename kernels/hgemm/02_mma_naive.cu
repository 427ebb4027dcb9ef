// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync, one warp per block.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). The warp computes
// block_m x block_n outputs as tiles of 16 x 8, each a sum of products of 16 x 8 and 8 x 8 halves.
// Against 01_wmma_naive: operands are copied to shared memory, from where ldmatrix deals them to the lanes as mma.sync
// takes them. One warp computes many tiles, so that an element of A is read from global memory once for block_n
// outputs, an element of B once for block_m. The copies are 0 outside the matrices, so any size works.
// It is no faster for that, on an H200 at 4096, tuned: 5.0 ms against 4.9. The only warp of a block copies its tiles
// two bytes at a time and waits for them, while 01's operands come through the L1 cache. The next stages mend both.
// Idea: cuda-gemm-from-scratch, stage 8.
#include "portable.h"
#include "hgemm.h"

#ifndef block_m
#define block_m 64 // rows per block
#endif
#ifndef block_n
#define block_n 32 // columns per block
#endif
#ifndef block_k
#define block_k 8 // depth of a tile
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if block_m % 16 != 0 || block_n % 8 != 0 || block_k % 8 != 0
#error "a block is made of mma tiles, 16 x 8 x 8"
#endif

#define THREADS 32
#define TILES_M (block_m / 16)
#define TILES_N (block_n / 8)

// sum += the product of the tiles, each read as matrices of 8 x 8.
INLINE void multiply_tiles(float (&sum)[TILES_M][TILES_N][4], const half (&tile_a)[block_m][block_k],
                           const half (&tile_b)[block_k][block_n], int lane) {
#pragma unroll
    for (int k = 0; k < block_k; k += 8) {
#pragma unroll
        for (int i = 0; i < TILES_M; i++) {
            unsigned in_a[2];
            ldmatrix_2(in_a, shared_address(&tile_a[i * 16 + lane % 16][k]));
#pragma unroll
            for (int j = 0; j < TILES_N; j++) {
                unsigned in_b;
                ldmatrix_1_transposed(in_b, shared_address(&tile_b[k + lane % 8][j * 8]));
                mma_16x8x8(sum[i][j], in_a[0], in_a[1], in_b);
            }
        }
    }
}

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_naive(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N, int K,
                    int batch, float alpha, float beta) {
    __shared__ __align__(16) half tile_a[block_m][block_k];
    __shared__ __align__(16) half tile_b[block_k][block_n];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, and this thread in it.
    const int lane = threadIdx.x;
    const int block_column = blockIdx.x * block_n, block_row = blockIdx.y * block_m;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    float sum[TILES_M][TILES_N][4] = {};
    for (int k0 = 0; k0 < K; k0 += block_k) {
        copy_elements<THREADS>(tile_a, A, K, block_row, k0, M, K);
        copy_elements<THREADS>(tile_b, B, N, k0, block_column, K, N);
        __syncthreads();

        multiply_tiles(sum, tile_a, tile_b, lane);
        __syncthreads(); // nobody may copy the next tile while another thread still multiplies this one
    }

    // Write.
#pragma unroll
    for (int i = 0; i < TILES_M; i++) {
#pragma unroll
        for (int j = 0; j < TILES_N; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = block_row + i * 16 + lane / 4 + e / 2 * 8;
                const int column = block_column + j * 8 + lane % 4 * 2 + e % 2;
                if (row < M && column < N) {
                    float *c = C + (size_t)row * N + column;
                    *c = SCALED(alpha, sum[i][j][e], beta, *c);
                }
            }
        }
    }
}
