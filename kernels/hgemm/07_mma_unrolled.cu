// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: fewer and wider reads.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, and each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 06_mma_buffered: ldmatrix reads four matrices of 8 x 8 at once, where 06 reads two of A or one of B. The
// addresses are worked out before the loop (FragmentReader in hgemm.h): one for every 16 columns of the tile of A, and
// one for every 16 columns of the warp's part of B. From there the others are constant distances away. So nearly all
// instructions left are ldmatrix and mma. Sizes are not compiled in any more (fixed_sizes), since what depends on them
// is worked out before the loop.
// Idea: cuda-gemm-from-scratch, stage 13.
#include "portable.h"
#include "hgemm.h"

#ifndef block_m
#define block_m 128 // rows per block
#endif
#ifndef block_n
#define block_n 128 // columns per block
#endif
#ifndef block_k
#define block_k 32 // depth of a tile
#endif
#ifndef warp_m
#define warp_m 64 // rows per warp
#endif
#ifndef warp_n
#define warp_n 64 // columns per warp
#endif
#ifndef warp_k
#define warp_k 32 // depth of what a warp holds in registers
#endif
#if warp_m % 16 != 0 || warp_n % 16 != 0 || warp_k % 16 != 0
#error "a warp's outputs are made of pairs of mma tiles, read 16 x 16 halves at a time"
#endif
#if block_m % warp_m != 0 || block_n % warp_n != 0 || block_k % warp_k != 0
#error "a block is made of whole warp tiles"
#endif

#define THREADS (block_m / warp_m * (block_n / warp_n) * 32)

using TileA = SwizzledTile<block_m, block_k, THREADS>;
using TileB = SwizzledTile<block_k, block_n, THREADS>;

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_unrolled(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
                       int K, int batch, float alpha, float beta) {
    __shared__ __align__(128) half tile_a[block_m * block_k];
    __shared__ __align__(128) half tile_b[block_k * block_n];

    // Place the block, this thread's warp in it, and the thread in its warp.
    Place place;
    place.lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    place.warp_row = warp / (block_n / warp_n) * warp_m, place.warp_column = warp % (block_n / warp_n) * warp_n;
    place.block_column = blockIdx.x * block_n, place.block_row = blockIdx.y * block_m;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)place.block_row * K;
    B += b * K * N + place.block_column;
    C += b * M * N;
    const bool aligned_a = is_aligned(A, K), aligned_b = is_aligned(B, N);

    const FragmentReader<TileA, TileB, warp_m, warp_n> reader(tile_a, tile_b, place);

    // Load the first tile, and store it to shared memory.
    uint4 next_a[TileA::PIECES], next_b[TileB::PIECES];
    TileA::load(next_a, A, K, M - place.block_row, K, aligned_a);
    TileB::load(next_b, B, N, K, N - place.block_column, aligned_b);
    TileA::store(tile_a, next_a);
    TileB::store(tile_b, next_b);
    __syncthreads();

    float sum[warp_m / 16][warp_n / 8][4] = {};
    for (int k0 = 0; k0 < K; k0 += block_k) {
        const int next_k = k0 + block_k; // where the next tile begins
        if (next_k < K) {
            TileA::load(next_a, A + next_k, K, M - place.block_row, K - next_k, aligned_a);
            TileB::load(next_b, B + (size_t)next_k * N, N, K - next_k, N - place.block_column, aligned_b);
        }

#pragma unroll
        for (int step = 0; step < block_k / warp_k; step++) {
            Fragments<warp_m, warp_n, warp_k> fragments;
            reader.read(fragments, step);
            multiply_fragments<8>(sum, fragments);
        }
        __syncthreads(); // nobody may store the next tile while another thread still multiplies this one

        if (next_k < K) {
            TileA::store(tile_a, next_a);
            TileB::store(tile_b, next_b);
            __syncthreads();
        }
    }

    write_tiles(C, sum, place, M, N, alpha, beta);
}
