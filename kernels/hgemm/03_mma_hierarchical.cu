// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: blocks of warps of mma tiles.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 02_mma_naive: several warps share what a block stages, and a warp reads warp_k columns of A and rows of B
// into registers once and multiplies each with each from there, instead of reading B again for every row of tiles.
// Idea: cuda-gemm-from-scratch, stage 9.
#include "portable.h"

#include "hgemm.h"

#ifndef block_m
#define block_m 128 // rows a block
#endif
#ifndef block_n
#define block_n 128 // columns a block
#endif
#ifndef block_k
#define block_k 8 // depth of a tile
#endif
#ifndef warp_m
#define warp_m 128 // rows a warp
#endif
#ifndef warp_n
#define warp_n 32 // columns a warp
#endif
#ifndef warp_k
#define warp_k 8 // depth of what a warp holds in registers
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif

#if warp_m % 16 != 0 || warp_n % 8 != 0 || warp_k % 8 != 0
#error "a warp's outputs are made of mma tiles, 16 x 8 x 8"
#endif
#if block_m % warp_m != 0 || block_n % warp_n != 0 || block_k % warp_k != 0
#error "a block is made of whole warp tiles"
#endif

#define THREADS (block_m / warp_m * (block_n / warp_n) * 32)
#define TILES_M (warp_m / 16)
#define TILES_N (warp_n / 8)
#define TILES_K (warp_k / 8)

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_hierarchical(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
                           int K, int batch, float alpha, float beta) {
    __shared__ __align__(16) half tile_a[block_m][block_k];
    __shared__ __align__(16) half tile_b[block_k][block_n];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, and this thread in it.
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / (block_n / warp_n) * warp_m, warp_column = warp % (block_n / warp_n) * warp_n;
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
        for (int k = 0; k < block_k; k += warp_k) {
            unsigned in_a[TILES_K][TILES_M][2], in_b[TILES_K][TILES_N];
#pragma unroll
            for (int l = 0; l < TILES_K; l++) {
#pragma unroll
                for (int i = 0; i < TILES_M; i++) {
                    ldmatrix_2(in_a[l][i], shared_address(&tile_a[warp_row + i * 16 + lane % 16][k + l * 8]));
                }
#pragma unroll
                for (int j = 0; j < TILES_N; j++) {
                    ldmatrix_1_transposed(in_b[l][j],
                                          shared_address(&tile_b[k + l * 8 + lane % 8][warp_column + j * 8]));
                }
            }
#pragma unroll
            for (int l = 0; l < TILES_K; l++) {
#pragma unroll
                for (int i = 0; i < TILES_M; i++) {
#pragma unroll
                    for (int j = 0; j < TILES_N; j++) {
                        mma_16x8x8(sum[i][j], in_a[l][i][0], in_a[l][i][1], in_b[l][j]);
                    }
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
                const int row = row0 + warp_row + i * 16 + lane / 4 + e / 2 * 8;
                const int column = column0 + warp_column + j * 8 + lane % 4 * 2 + e % 2;
                if (row < M && column < N) {
                    float *c = C + (size_t)row * N + column;
                    *c = SCALED(alpha, sum[i][j][e], beta, *c);
                }
            }
        }
    }
}
