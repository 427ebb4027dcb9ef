// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: the next tile is fetched ahead.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, and each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 05_mma_swizzled: the next tile is on its way from global memory to registers while this one is multiplied. It
// is stored to shared memory when all warps are done with this one, so that nobody waits for global memory.
// Idea: cuda-gemm-from-scratch, stage 12.
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

using TileA = SwizzledTile<block_m, block_k, THREADS>;
using TileB = SwizzledTile<block_k, block_n, THREADS>;

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_buffered(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
                       int K, int batch, float alpha, float beta) {
    __shared__ __align__(128) half tile_a[block_m * block_k];
    __shared__ __align__(128) half tile_b[block_k * block_n];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

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
        for (int k = 0; k < block_k; k += warp_k) {
            unsigned in_a[warp_k / 8][warp_m / 16][2], in_b[warp_k / 8][warp_n / 8];
            read_fragments<TileA, TileB>(in_a, in_b, tile_a, tile_b, place, k);
            multiply_fragments(sum, in_a, in_b);
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
