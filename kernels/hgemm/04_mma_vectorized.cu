// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: 16-byte copies.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, and each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 03_mma_hierarchical: tiles are copied 16 bytes at a time, with an eighth of the instructions. Outputs are
// written 8 bytes at a time, past the caches, which they would only crowd. Where rows of a matrix do not begin at
// multiples of 16 bytes, and at its edges, a slower copy takes what is there, so any size works.
// Idea: cuda-gemm-from-scratch, stage 10.
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
#if block_n % 8 != 0 || block_k % 8 != 0
#error "rows of the tiles are copied 16 bytes, 8 halves, at a time"
#endif
#if block_m % warp_m != 0 || block_n % warp_n != 0 || block_k % warp_k != 0
#error "a block is made of whole warp tiles"
#endif

#define THREADS (block_m / warp_m * (block_n / warp_n) * 32)

#if block_m * block_k / 8 % THREADS != 0 || block_k * block_n / 8 % THREADS != 0
#error "all threads copy equally many pieces of 16 bytes"
#endif
#if THREADS % (block_k / 8) != 0 || THREADS % (block_n / 8) != 0
#error "all pieces that a thread copies are from the same columns"
#endif

using TileA = PlainTile<block_m, block_k>;
using TileB = PlainTile<block_k, block_n>;

// Copies a tile of ROWS x COLUMNS halves, in pieces of 16 bytes. `matrix` points to the first half, and the matrix goes
// on from there for `rows` rows, which begin `pitch` halves apart, and `columns` columns. Beyond them the tile is 0.
template <int ROWS, int COLUMNS>
INLINE void copy_tile(half *tile, const half *matrix, int pitch, int rows, int columns, bool aligned) {
    constexpr int ROW_STEP = THREADS / (COLUMNS / 8); // rows from one of a thread's pieces to its next
    const int row = threadIdx.x / (COLUMNS / 8), column = threadIdx.x % (COLUMNS / 8) * 8;
    const half *const source = matrix + (size_t)row * pitch + column;
    if (aligned && rows >= ROWS && columns >= COLUMNS) { // the whole block goes one way
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            *(uint4 *)(tile + (row + i * ROW_STEP) * COLUMNS + column) =
                *(const uint4 *)(source + (size_t)pitch * (i * ROW_STEP));
        }
    } else {
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            const int count = row + i * ROW_STEP < rows ? columns - column : 0;
            *(uint4 *)(tile + (row + i * ROW_STEP) * COLUMNS + column) =
                load8(source + (size_t)pitch * (i * ROW_STEP), count, aligned);
        }
    }
}

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_vectorized(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
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
    A += b * M * K + (size_t)place.block_row * K;
    B += b * K * N + place.block_column;
    C += b * M * N;
    const bool aligned_a = is_aligned(A, K), aligned_b = is_aligned(B, N);

    float sum[warp_m / 16][warp_n / 8][4] = {};
    for (int k0 = 0; k0 < K; k0 += block_k) {
        copy_tile<block_m, block_k>(&tile_a[0][0], A + k0, K, M - place.block_row, K - k0, aligned_a);
        copy_tile<block_k, block_n>(&tile_b[0][0], B + (size_t)k0 * N, N, K - k0, N - place.block_column, aligned_b);
        __syncthreads();

#pragma unroll
        for (int k = 0; k < block_k; k += warp_k) {
            unsigned in_a[warp_k / 8][warp_m / 16][2], in_b[warp_k / 8][warp_n / 8];
            read_fragments<TileA, TileB>(in_a, in_b, &tile_a[0][0], &tile_b[0][0], place, k);
            multiply_fragments(sum, in_a, in_b);
        }
        __syncthreads(); // nobody may copy the next tile while another thread still multiplies this one
    }

    write_tiles(C, sum, place, M, N, alpha, beta);
}
