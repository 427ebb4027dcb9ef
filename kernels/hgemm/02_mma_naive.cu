// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync, one warp a block.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). The warp computes
// block_m x block_n outputs as tiles of 16 x 8, each a sum of products of 16 x 8 and 8 x 8 halves.
// Against 01_wmma_naive: operands are staged through shared memory, from where ldmatrix deals them to the lanes as
// mma.sync wants them, and one warp computes many tiles, so that an element of A is read from global memory once for
// block_n outputs, one of B once for block_m. What lies outside the matrices is staged as 0, so any size works.
// It is no faster for that, on an H200 at 4096, tuned: 5.0 ms against 4.9. The only warp of a block copies its tiles
// two bytes at a time and waits for them, while 01's operands come through the L1 cache; the next stages mend both.
// Idea: cuda-gemm-from-scratch, stage 8.
#include "portable.h"

#include "hgemm.h"

#ifndef block_m
#define block_m 64 // rows a block
#endif
#ifndef block_n
#define block_n 32 // columns a block
#endif
#ifndef block_k
#define block_k 8 // depth of a tile
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
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

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_naive(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N, int K,
                    int batch, float alpha, float beta) {
    __shared__ __align__(16) half tile_a[block_m][block_k];
    __shared__ __align__(16) half tile_b[block_k][block_n];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, and this thread in it.
    const int lane = threadIdx.x;
    const int column0 = blockIdx.x * block_n, row0 = blockIdx.y * block_m;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    float sum[TILES_M][TILES_N][4] = {};
    for (int k0 = 0; k0 < K; k0 += block_k) {
        // Stage.
        for (int i = threadIdx.x; i < block_m * block_k; i += THREADS) {
            const int row = row0 + i / block_k, k = k0 + i % block_k;
            tile_a[i / block_k][i % block_k] = row < M && k < K ? A[(size_t)row * K + k] : 0;
        }
        for (int i = threadIdx.x; i < block_k * block_n; i += THREADS) {
            const int k = k0 + i / block_n, column = column0 + i % block_n;
            tile_b[i / block_n][i % block_n] = k < K && column < N ? B[(size_t)k * N + column] : 0;
        }
        __syncthreads();

        // Multiply.
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
        __syncthreads(); // nobody may stage the next tile while another thread still multiplies this one
    }

    // Write.
#pragma unroll
    for (int i = 0; i < TILES_M; i++) {
#pragma unroll
        for (int j = 0; j < TILES_N; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = row0 + i * 16 + lane / 4 + e / 2 * 8, column = column0 + j * 8 + lane % 4 * 2 + e % 2;
                if (row < M && column < N) {
                    float *c = C + (size_t)row * N + column;
                    *c = SCALED(alpha, sum[i][j][e], beta, *c);
                }
            }
        }
    }
}
