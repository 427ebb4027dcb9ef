// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: blocks of warps of mma tiles.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, and each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 02_mma_naive: several warps share what a block copies. A warp reads warp_k columns of A and rows of B into
// registers once and multiplies each with each from there, where 02 reads B again for every row of tiles.
// Idea: cuda-gemm-from-scratch, stage 9.
#include "portable.h"
#include "hgemm.h"

#ifndef block_m
#define block_m 128 // rows per block
#endif
#ifndef block_n
#define block_n 128 // columns per block
#endif
#ifndef block_k
#define block_k 8 // depth of a tile
#endif
#ifndef warp_m
#define warp_m 128 // rows per warp
#endif
#ifndef warp_n
#define warp_n 32 // columns per warp
#endif
#ifndef warp_k
#define warp_k 8 // depth of what a warp holds in registers
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
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

using TileA = PlainTile<block_m, block_k>;
using TileB = PlainTile<block_k, block_n>;

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_hierarchical(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
                           int K, int batch, float alpha, float beta) {
    __shared__ __align__(16) half tile_a[block_m][block_k];
    __shared__ __align__(16) half tile_b[block_k][block_n];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, this thread's warp in it, and the thread in its warp.
    Place place;
    place.lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    place.warp_row = warp / (block_n / warp_n) * warp_m, place.warp_column = warp % (block_n / warp_n) * warp_n;
    place.block_column = blockIdx.x * block_n, place.block_row = blockIdx.y * block_m;
    const size_t b = blockIdx.z;
    A += b * M * K;
    B += b * K * N;
    C += b * M * N;

    float sum[TILES_M][TILES_N][4] = {};
    for (int k0 = 0; k0 < K; k0 += block_k) {
        copy_elements<THREADS>(tile_a, A, K, place.block_row, k0, M, K);
        copy_elements<THREADS>(tile_b, B, N, k0, place.block_column, K, N);
        __syncthreads();

#pragma unroll
        for (int k = 0; k < block_k; k += warp_k) {
            unsigned in_a[warp_k / 8][warp_m / 16][2], in_b[warp_k / 8][warp_n / 8];
            read_fragments<TileA, TileB>(in_a, in_b, &tile_a[0][0], &tile_b[0][0], place, k);
            multiply_fragments(sum, in_a, in_b);
        }
        __syncthreads(); // nobody may copy the next tile while another thread still multiplies this one
    }

    // Write.
#pragma unroll
    for (int i = 0; i < TILES_M; i++) {
#pragma unroll
        for (int j = 0; j < TILES_N; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = place.block_row + place.warp_row + i * 16 + place.lane / 4 + e / 2 * 8;
                const int column = place.block_column + place.warp_column + j * 8 + place.lane % 4 * 2 + e % 2;
                if (row < M && column < N) {
                    float *c = C + (size_t)row * N + column;
                    *c = SCALED(alpha, sum[i][j][e], beta, *c);
                }
            }
        }
    }
}
