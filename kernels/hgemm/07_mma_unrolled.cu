// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: fewer, wider reads.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 06_mma_buffered: ldmatrix reads four matrices of 8 x 8 at a time instead of two or one, at addresses that are
// worked out before the loop, one for each step in k of A and one for every 16 columns of B; from there the others are
// constant distances away. So nearly all instructions left are ldmatrix and mma. Sizes are not compiled in any more
// (fixed_sizes), since what depends on them is worked out before the loop.
// Idea: cuda-gemm-from-scratch, stage 13. Besides, and off by default: mma twice as deep (mma_k); several tiles in
// shared memory (stages), copied there in the background and past the registers (cp_async); the next step read into
// registers while one is multiplied, across tiles too (fragments); and an order of blocks that keeps those which run at
// one time near one another, so that more of what they read is in the L2 cache (group_m); and registers for two blocks
// a multiprocessor (min_blocks).
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
#ifndef mma_k
#define mma_k 8 // depth of an mma: 8 or 16
#endif
#ifndef fragments
#define fragments 1 // 2: a warp reads the next step into registers before it multiplies this one
#endif
#ifndef stages
#define stages 1 // tiles of each operand in shared memory
#endif
#ifndef cp_async
#define cp_async 0 // 1: tiles are copied by cp.async, stages - 1 of them ahead; 0: through registers, one ahead
#endif
#ifndef min_blocks
#define min_blocks 1 // blocks that a multiprocessor should hold: bounds the registers of a thread
#endif
#ifndef group_m
#define group_m 1 // rows of blocks that are walked together, column by column
#endif

#if warp_m % 16 != 0 || warp_n % 16 != 0 || warp_k % 16 != 0 || (mma_k != 8 && mma_k != 16)
#error "a warp's outputs are made of pairs of mma tiles, 16 x 8 x 8 or 16 x 8 x 16"
#endif
#if (block_n & (block_n - 1)) != 0 || (block_k & (block_k - 1)) != 0
#error "pieces of 16 bytes, 8 halves, are exchanged within rows of the tiles, which hold a power of two of them"
#endif
#if block_m % warp_m != 0 || block_n % warp_n != 0 || block_k % warp_k != 0
#error "a block is made of whole warp tiles"
#endif
#if fragments != 1 && (fragments != 2 || block_k / warp_k % 2 != 0)
#error "two sets of registers take turns, so that a tile has an even number of steps"
#endif
#if stages < 1 || (cp_async && stages < 2) || (!cp_async && stages > 2)
#error "copies in the background need a second tile to copy to; through registers only one tile is ahead"
#endif

#define THREADS (block_m / warp_m * (block_n / warp_n) * 32)
#define TILES_M (warp_m / 16)
#define TILES_N (warp_n / 16)
#define TILES_K (warp_k / 16)
#define STEPS (block_k / warp_k)
#define SIZE_A (block_m * block_k)
#define SIZE_B (block_k * block_n)
#define WAITING (stages > 2 ? stages - 2 : 0) // groups of copies that may be under way when the next tile must be there

#if SIZE_A / 8 % THREADS != 0 || SIZE_B / 8 % THREADS != 0
#error "all threads copy equally many pieces of 16 bytes"
#endif
#if THREADS % (block_k / 8) != 0 || THREADS % (block_n / 8) != 0
#error "all pieces that a thread copies are from the same columns"
#endif

// Where in a tile with rows of COLUMNS halves the 16 bytes from `column` of `row` on lie, in halves. The pieces of a
// row are exchanged, differently in each of the rows that ldmatrix reads at once, so that these lie in different banks.
// The exchange is the same every 8 rows.
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

// Does what `fetch` and `put` do, in the background where the matrix is aligned.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void copy(half *tile, const half *matrix, int pitch, int rows, int columns, bool aligned) {
    constexpr int APART = THREADS / (COLUMNS / 8); // rows from one of a thread's pieces to its next
    const int row = threadIdx.x / (COLUMNS / 8), column = threadIdx.x % (COLUMNS / 8) * 8;
    const half *const source = matrix + (size_t)row * pitch + column;
    if (aligned && rows >= ROWS && columns >= COLUMNS) { // the whole block goes one way
#pragma unroll
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            copy_async(shared_address(tile + swizzled<COLUMNS>(row + i * APART, column)),
                       source + (size_t)pitch * (i * APART), 16);
        }
    } else {
        for (int i = 0; i < ROWS * COLUMNS / 8 / THREADS; i++) {
            const int count = row + i * APART < rows ? columns - column : 0;
            const half *from = source + (size_t)pitch * (i * APART);
            half *target = tile + swizzled<COLUMNS>(row + i * APART, column);
            if (aligned) {
                copy_async(shared_address(target), count > 0 ? from : matrix, count > 0 ? 16 : 0);
            } else {
                *(uint4 *)target = eight(from, count, false);
            }
        }
    }
}

// Reads what a warp multiplies in one step, from the tiles that begin `from_a` and `from_b` bytes after the first ones.
__device__ __forceinline__ void read(unsigned (&in_a)[TILES_K][TILES_M][4], unsigned (&in_b)[TILES_K][TILES_N][4],
                                     const unsigned (&at_a)[block_k / 16], const unsigned (&at_b)[TILES_N],
                                     unsigned from_a, unsigned from_b, int step) {
#pragma unroll
    for (int l = 0; l < TILES_K; l++) {
        const int deep = step * TILES_K + l;
#pragma unroll
        for (int i = 0; i < TILES_M; i++) {
            ldmatrix_4(in_a[l][i], from_a + at_a[deep] + i * 16 * block_k * 2);
        }
#pragma unroll
        for (int j = 0; j < TILES_N; j++) {
            ldmatrix_4_transposed(in_b[l][j], from_b + at_b[j] + deep * 16 * block_n * 2);
        }
    }
}

KERNEL void __launch_bounds__(THREADS, min_blocks)
    hgemm_mma_unrolled(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
                       int K, int batch, float alpha, float beta) {
    extern __shared__ uint4 shared[]; // `stages` tiles of A, then as many of B
    half *const tile_a = (half *)shared, *const tile_b = tile_a + stages * SIZE_A;

    // Place the block, and this thread in it.
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / (block_n / warp_n) * warp_m, warp_column = warp % (block_n / warp_n) * warp_n;
    const int block = blockIdx.y * gridDim.x + blockIdx.x, group = block / (group_m * gridDim.x) * group_m;
    const int together = min(group_m, (int)gridDim.y - group), place = block - group * gridDim.x;
    const int column0 = place / together * block_n, row0 = (group + place % together) * block_m;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)row0 * K;
    B += b * K * N + column0;
    C += b * M * N;
    const bool aligned_a = is_aligned(A, K), aligned_b = is_aligned(B, N);

    // Where this lane finds the fragments of A at each k of a tile, and those of B at every 16 columns, in bytes.
    unsigned at_a[block_k / 16], at_b[TILES_N];
#pragma unroll
    for (int l = 0; l < block_k / 16; l++) {
        at_a[l] = shared_address(tile_a + swizzled<block_k>(warp_row + lane % 16, l * 16 + lane / 16 * 8));
    }
#pragma unroll
    for (int j = 0; j < TILES_N; j++) {
        at_b[j] = shared_address(tile_b + swizzled<block_n>(lane % 16, warp_column + j * 16 + lane / 16 * 8));
    }

    // Stage the first tiles.
    uint4 next_a[SIZE_A / 8 / THREADS], next_b[SIZE_B / 8 / THREADS];
    if (cp_async) {
#pragma unroll
        for (int s = 0; s < stages - 1; s++) {
            const int k1 = s * block_k;
            if (k1 < K) {
                copy<block_m, block_k>(tile_a + s * SIZE_A, A + k1, K, M - row0, K - k1, aligned_a);
                copy<block_k, block_n>(tile_b + s * SIZE_B, B + (size_t)k1 * N, N, K - k1, N - column0, aligned_b);
            }
            commit_copies(); // a group for each tile, so that they can be counted; one of no copies is done at once
        }
        wait_for_copies<WAITING>();
    } else {
        fetch<block_m, block_k>(next_a, A, K, M - row0, K, aligned_a);
        fetch<block_k, block_n>(next_b, B, N, K, N - column0, aligned_b);
        put<block_m, block_k>(tile_a, next_a);
        put<block_k, block_n>(tile_b, next_b);
    }
    __syncthreads();

    float sum[TILES_M][2 * TILES_N][4] = {};
    unsigned in_a[fragments][TILES_K][TILES_M][4], in_b[fragments][TILES_K][TILES_N][4];
    if (fragments == 2) {
        read(in_a[0], in_b[0], at_a, at_b, 0, 0, 0);
    }
    int slot = 0; // where the tile at k0 is
    for (int k0 = 0; k0 < K; k0 += block_k) {
        // Stage the next tile, or one after it: ask for it.
        const int k1 = k0 + (cp_async ? stages - 1 : 1) * block_k, next = slot + 1 < stages ? slot + 1 : 0;
        if (cp_async) {
            if (k1 < K) { // into the slot before this one, which was read last before the latest barrier
                const int to = slot > 0 ? slot - 1 : stages - 1;
                copy<block_m, block_k>(tile_a + to * SIZE_A, A + k1, K, M - row0, K - k1, aligned_a);
                copy<block_k, block_n>(tile_b + to * SIZE_B, B + (size_t)k1 * N, N, K - k1, N - column0, aligned_b);
            }
            commit_copies();
        } else if (k1 < K) {
            fetch<block_m, block_k>(next_a, A + k1, K, M - row0, K - k1, aligned_a);
            fetch<block_k, block_n>(next_b, B + (size_t)k1 * N, N, K - k1, N - column0, aligned_b);
        }

        // Stage the next tile: have it in shared memory. Called when this warp has read the last of this one.
        const auto turn = [&]() {
            if (cp_async) {
                wait_for_copies<WAITING>();
            } else if (k1 < K) {
                if (stages == 1) {
                    __syncthreads(); // nobody may put the next tile where another thread still reads this one
                }
                put<block_m, block_k>(tile_a + next * SIZE_A, next_a);
                put<block_k, block_n>(tile_b + next * SIZE_B, next_b);
            }
            __syncthreads();
        };

        // Multiply.
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int set = step % fragments;
            if (fragments == 1) {
                read(in_a[0], in_b[0], at_a, at_b, slot * SIZE_A * 2, slot * SIZE_B * 2, step);
            } else if (step + 1 < STEPS) {
                read(in_a[1 - set], in_b[1 - set], at_a, at_b, slot * SIZE_A * 2, slot * SIZE_B * 2, step + 1);
            } else {
                turn();
                read(in_a[1 - set], in_b[1 - set], at_a, at_b, next * SIZE_A * 2, next * SIZE_B * 2, 0);
            }
#pragma unroll
            for (int l = 0; l < 16 / mma_k * TILES_K; l++) {
#pragma unroll
                for (int i = 0; i < TILES_M; i++) {
#pragma unroll
                    for (int j = 0; j < 2 * TILES_N; j++) {
#if mma_k == 16
                        const unsigned(&in)[4] = in_b[set][l][j / 2];
                        mma_16x8x16(sum[i][j], in_a[set][l][i], in[j % 2 * 2], in[j % 2 * 2 + 1]);
#else
                        const unsigned(&in)[4] = in_a[set][l / 2][i];
                        mma_16x8x8(sum[i][j], in[l % 2 * 2], in[l % 2 * 2 + 1],
                                   in_b[set][l / 2][j / 2][j % 2 * 2 + l % 2]);
#endif
                    }
                }
            }
        }
        if (fragments == 1) {
            turn();
        }
        slot = next;
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
