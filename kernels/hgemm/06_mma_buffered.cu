// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: next tile fetched ahead.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 05_mma_swizzled: the next tile is on its way from global memory to registers while this one is multiplied,
// and is put into shared memory when all are done with this one, so that nobody waits for global memory.
// Idea: cuda-gemm-from-scratch, stage 12.
#include "portable.h"

#include "hgemm.h"

#ifndef block_m
#define block_m 128 // rows a block
#endif
#ifndef block_n
#define block_n 128 // columns a block
#endif
#ifndef block_k
#define block_k 32 // depth of a tile
#endif
#ifndef warp_m
#define warp_m 64 // rows a warp
#endif
#ifndef warp_n
#define warp_n 64 // columns a warp
#endif
#ifndef warp_k
#define warp_k 32 // depth of what a warp holds in registers
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
#if (block_n & (block_n - 1)) != 0 || (block_k & (block_k - 1)) != 0
#error "pieces of 16 bytes, 8 halves, are exchanged within rows of the tiles, which hold a power of two of them"
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

// Where in a tile with rows of COLUMNS halves the 16 bytes from `column` of `row` on lie, in halves. The pieces of a
// row are exchanged, differently in each of the rows that ldmatrix reads at once, so that these lie in different banks.
template <int COLUMNS> __device__ __forceinline__ int swizzled(int row, int column) {
    constexpr int PIECES = COLUMNS / 8, EXCHANGED = PIECES < 8 ? PIECES : 8; // 8 pieces are all 32 banks
    return row * COLUMNS + (column / 8 ^ row / (8 / EXCHANGED) % EXCHANGED) * 8;
}

// Reads this thread's pieces of a tile of ROWS x COLUMNS halves. `rows` and `columns` are what there is of the matrix
// from here on; beyond it is 0.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void fetch(uint4 (&pieces)[ROWS * COLUMNS / 8 / THREADS], const half *matrix, int pitch,
                                      int rows, int columns, bool aligned) {
    constexpr int APART = THREADS / (COLUMNS / 8); // rows from one of a thread's pieces to its next
    const int row = threadIdx.x / (COLUMNS / 8), column = threadIdx.x % (COLUMNS / 8) * 8;
    const half *const source = matrix + (size_t)row * pitch + column;
    if (aligned && rows >= ROWS && columns >= COLUMNS) { // the whole block goes one way
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            pieces[i] = *(const uint4 *)(source + (size_t)pitch * (i * APART));
        }
    } else {
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            const int count = row + i * APART < rows ? columns - column : 0;
            pieces[i] = eight(source + (size_t)pitch * (i * APART), count, aligned);
        }
    }
}

// Puts them into shared memory.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void put(half *tile, const uint4 (&pieces)[ROWS * COLUMNS / 8 / THREADS]) {
    constexpr int APART = THREADS / (COLUMNS / 8); // rows from one of a thread's pieces to its next
    const int row = threadIdx.x / (COLUMNS / 8), column = threadIdx.x % (COLUMNS / 8) * 8;
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
        *(uint4 *)(tile + swizzled<COLUMNS>(row + i * APART, column)) = pieces[i];
    }
}

KERNEL void __launch_bounds__(THREADS)
    hgemm_mma_buffered(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
                       int K, int batch, float alpha, float beta) {
    __shared__ __align__(128) half tile_a[block_m * block_k];
    __shared__ __align__(128) half tile_b[block_k * block_n];

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

    // Stage the first tile.
    uint4 next_a[block_m * block_k / 8 / THREADS], next_b[block_k * block_n / 8 / THREADS];
    fetch<block_m, block_k>(next_a, A, K, M - row0, K, aligned_a);
    fetch<block_k, block_n>(next_b, B, N, K, N - column0, aligned_b);
    put<block_m, block_k>(tile_a, next_a);
    put<block_k, block_n>(tile_b, next_b);
    __syncthreads();

    float sum[TILES_M][TILES_N][4] = {};
    for (int k0 = 0; k0 < K; k0 += block_k) {
        // Stage the next tile: ask for it.
        const int k1 = k0 + block_k;
        if (k1 < K) {
            fetch<block_m, block_k>(next_a, A + k1, K, M - row0, K - k1, aligned_a);
            fetch<block_k, block_n>(next_b, B + (size_t)k1 * N, N, K - k1, N - column0, aligned_b);
        }

        // Multiply.
#pragma unroll
        for (int k = 0; k < block_k; k += warp_k) {
            unsigned in_a[TILES_K][TILES_M][2], in_b[TILES_K][TILES_N];
#pragma unroll
            for (int l = 0; l < TILES_K; l++) {
#pragma unroll
                for (int i = 0; i < TILES_M; i++) {
                    const int at = swizzled<block_k>(warp_row + i * 16 + lane % 16, k + l * 8);
                    ldmatrix_2(in_a[l][i], shared_address(tile_a + at));
                }
#pragma unroll
                for (int j = 0; j < TILES_N; j++) {
                    const int at = swizzled<block_n>(k + l * 8 + lane % 8, warp_column + j * 8);
                    ldmatrix_1_transposed(in_b[l][j], shared_address(tile_b + at));
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

        // Stage the next tile: put it where this one was.
        if (k1 < K) {
            put<block_m, block_k>(tile_a, next_a);
            put<block_k, block_n>(tile_b, next_b);
            __syncthreads();
        }
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
