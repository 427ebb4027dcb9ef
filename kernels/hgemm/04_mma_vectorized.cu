// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: 16-byte copies.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 03_mma_hierarchical: tiles are copied 16 bytes at a time, an eighth of the instructions, and outputs are
// written 8 bytes at a time, past the caches, which they would only crowd. Where rows of a matrix do not begin at
// multiples of 16 bytes, and at its edges, a slower copy takes what is there, so any size works.
// Idea: cuda-gemm-from-scratch, stage 10.
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
#if block_n % 8 != 0 || block_k % 8 != 0
#error "rows of the tiles are copied 16 bytes, 8 halves, at a time"
#endif
#if block_m % warp_m != 0 || block_n % warp_n != 0 || block_k % warp_k != 0
#error "a block is made of whole warp tiles"
#endif

#define THREADS (block_m / warp_m * (block_n / warp_n) * 32)
#define TILES_M (warp_m / 16)
#define TILES_N (warp_n / 8)
#define TILES_K (warp_k / 8)

#if block_m * block_k / 8 % THREADS != 0 || block_k * block_n / 8 % THREADS != 0
#error "all threads copy equally many pieces of 16 bytes"
#endif
#if THREADS % (block_k / 8) != 0 || THREADS % (block_n / 8) != 0
#error "all pieces that a thread copies are from the same columns"
#endif

// Copies a tile of ROWS x COLUMNS halves. `rows` and `columns` are what there is of the matrix from here on; beyond it
// is 0.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void stage(half *tile, const half *matrix, int pitch, int rows, int columns, bool aligned) {
    constexpr int APART = THREADS / (COLUMNS / 8); // rows from one of a thread's pieces to its next
    const int row = threadIdx.x / (COLUMNS / 8), column = threadIdx.x % (COLUMNS / 8) * 8;
    const half *const source = matrix + (size_t)row * pitch + column;
    if (aligned && rows >= ROWS && columns >= COLUMNS) { // the whole block goes one way
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            *(uint4 *)(tile + (row + i * APART) * COLUMNS + column) =
                *(const uint4 *)(source + (size_t)pitch * (i * APART));
        }
    } else {
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            const int count = row + i * APART < rows ? columns - column : 0;
            *(uint4 *)(tile + (row + i * APART) * COLUMNS + column) =
                eight(source + (size_t)pitch * (i * APART), count, aligned);
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

    // Place the block, and this thread in it.
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / (block_n / warp_n) * warp_m, warp_column = warp % (block_n / warp_n) * warp_n;
    const int column0 = blockIdx.x * block_n, row0 = blockIdx.y * block_m;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)row0 * K;
    B += b * K * N + column0;
    C += b * M * N;
    const bool aligned_a = is_aligned(A, K), aligned_b = is_aligned(B, N);

    float sum[TILES_M][TILES_N][4] = {};
    for (int k0 = 0; k0 < K; k0 += block_k) {
        // Stage, 16 bytes at a time.
        stage<block_m, block_k>(&tile_a[0][0], A + k0, K, M - row0, K - k0, aligned_a);
        stage<block_k, block_n>(&tile_b[0][0], B + (size_t)k0 * N, N, K - k0, N - column0, aligned_b);
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

    // Write, two neighbours at a time.
    const bool paired = N % 2 == 0 && (size_t)C % 8 == 0;
    const int column = column0 + warp_column + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * TILES_M; i++) {
        const int row = row0 + warp_row + i * 8 + lane / 4;
        if (row < M) {
            write_row(C + (size_t)row * N + column, sum[i / 2], i % 2 * 2, alpha, beta, N - column, paired);
        }
    }
}
