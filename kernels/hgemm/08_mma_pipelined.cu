// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: a pipeline from global memory on.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch). A block computes
// block_m x block_n outputs, and each of its warps warp_m x warp_n of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// Against 07_mma_unrolled, which fetches one tile ahead, through registers, and reads a step when it is due:
// - stages: shared memory has this many slots, each for a tile of A and a tile of B.
// - cp_async: the hardware copies tiles to the slots in the background, past the registers, stages - 1 tiles ahead.
//   Global memory has longer to answer, and one barrier per tile is enough.
// - fragments = 2: a warp reads what it multiplies in the next step before it multiplies in this one, from one tile to
//   the next too. The tensor cores then do not wait for shared memory.
// - mma_k = 16: an mma is twice as deep, so that half as many instructions do.
// - min_blocks = 2: a thread gets so few registers that two blocks fit on a multiprocessor. One can multiply while the
//   other waits.
// - group_m: blocks are walked in bands of group_m block rows. Those that run at the same time then share rows of A and
//   columns of B in the L2 cache.
// With all of these off it does what 07 does. That is its default, with the constants that are published for 07: on an
// H200 at 4096 it takes 0.480 ms, and the best configuration 0.315.
// Ideas: besides the tutorial's, cuda-gemm-from-scratch, which ends with 07. sgemm/13_double_buffered has them for
// floats, all but mma_k.
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
#ifndef mma_k
#define mma_k 8 // depth of one mma: 8 or 16
#endif
#ifndef fragments
#define fragments 1 // sets of registers per warp; with 2 it reads the next step before it multiplies this one
#endif
#ifndef stages
#define stages 1 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef cp_async
#define cp_async 0 // 1: tiles are copied by cp.async, stages - 1 of them ahead; 0: through registers, one ahead
#endif
#ifndef min_blocks
#define min_blocks 1 // blocks that a multiprocessor must hold at once: bounds the registers of a thread
#endif
#ifndef group_m
#define group_m 1 // block rows per band
#endif

#if warp_m % 16 != 0 || warp_n % 16 != 0 || warp_k % 16 != 0 || (mma_k != 8 && mma_k != 16)
#error "a warp's outputs are made of pairs of mma tiles, 16 x 8 x 8 or 16 x 8 x 16"
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
#define STEPS (block_k / warp_k)   // per tile
#define SIZE_A (block_m * block_k) // halves per tile
#define SIZE_B (block_k * block_n)
#define AHEAD (cp_async ? stages - 1 : 1) // how many tiles ahead of the multiplied one the fetched one is
#define IN_FLIGHT                                                                                                      \
    (stages > 2 ? stages - 2 : 0) // groups of copies that may be under way when the next tile must be there

using TileA = SwizzledTile<block_m, block_k, THREADS>;
using TileB = SwizzledTile<block_k, block_n, THREADS>;

// Copies 16 bytes from global to shared memory in the background: the first `bytes` (0 or 16) of them, then zeros.
INLINE void copy_async(unsigned address, const void *source, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(__cvta_generic_to_global(source)), "r"(bytes)
                 : "memory");
}

// Makes a group of the copies that this thread has begun since the last call.
INLINE void commit_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }

// Waits until all but this thread's latest `groups` groups are done.
template <int groups> INLINE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}

// Does what Tile::copy does, in the background where the matrix is aligned.
template <class Tile>
INLINE void copy_in_background(half *tile, const half *matrix, int pitch, int rows, int columns, bool aligned) {
    const int row = threadIdx.x / Tile::PER_ROW, column = threadIdx.x % Tile::PER_ROW * 8;
    const half *const source = matrix + (size_t)row * pitch + column;
    if (aligned && rows >= Tile::ROWS && columns >= Tile::COLUMNS) { // the whole block goes one way
#pragma unroll
        for (int i = 0; i < Tile::PIECES; i++) {
            copy_async(shared_address(Tile::at(tile, row + i * Tile::ROW_STEP, column)),
                       source + (size_t)pitch * (i * Tile::ROW_STEP), 16);
        }
    } else {
        for (int i = 0; i < Tile::PIECES; i++) {
            const int count = row + i * Tile::ROW_STEP < rows ? columns - column : 0;
            const half *from = source + (size_t)pitch * (i * Tile::ROW_STEP);
            half *target = Tile::at(tile, row + i * Tile::ROW_STEP, column);
            if (aligned) {
                copy_async(shared_address(target), count > 0 ? from : matrix, count > 0 ? 16 : 0);
            } else {
                *(uint4 *)target = load8(from, count, false);
            }
        }
    }
}

KERNEL void __launch_bounds__(THREADS, min_blocks)
    hgemm_mma_pipelined(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N,
                        int K, int batch, float alpha, float beta) {
    extern __shared__ uint4 shared[]; // `stages` tiles of A, then as many of B
    half *const tile_a = (half *)shared, *const tile_b = tile_a + stages * SIZE_A;

    // Place the block in a band of group_m block rows, this thread's warp in the block, and the thread in its warp.
    Place place;
    place.lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    place.warp_row = warp / (block_n / warp_n) * warp_m, place.warp_column = warp % (block_n / warp_n) * warp_n;
    const int block = blockIdx.y * gridDim.x + blockIdx.x, band = block / (group_m * gridDim.x) * group_m;
    const int band_rows = min(group_m, (int)gridDim.y - band), in_band = block - band * gridDim.x;
    place.block_column = in_band / band_rows * block_n, place.block_row = (band + in_band % band_rows) * block_m;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)place.block_row * K;
    B += b * K * N + place.block_column;
    C += b * M * N;
    const bool aligned_a = is_aligned(A, K), aligned_b = is_aligned(B, N);
    const FragmentReader<TileA, TileB, warp_m, warp_n> reader(tile_a, tile_b, place);

    // Have the first tile in shared memory.
    uint4 next_a[TileA::PIECES], next_b[TileB::PIECES]; // on their way through registers
    const auto store = [&](int slot) {
        TileA::store(tile_a + slot * SIZE_A, next_a);
        TileB::store(tile_b + slot * SIZE_B, next_b);
    };
    if (cp_async) {
#pragma unroll
        for (int slot = 0; slot < stages - 1; slot++) {
            const int k = slot * block_k;
            if (k < K) {
                copy_in_background<TileA>(tile_a + slot * SIZE_A, A + k, K, M - place.block_row, K - k, aligned_a);
                copy_in_background<TileB>(tile_b + slot * SIZE_B, B + (size_t)k * N, N, K - k, N - place.block_column,
                                          aligned_b);
            }
            commit_copies(); // a group for each tile, so that they can be counted; one of no copies is done at once
        }
        wait_for_copies<IN_FLIGHT>();
    } else {
        TileA::load(next_a, A, K, M - place.block_row, K, aligned_a);
        TileB::load(next_b, B, N, K, N - place.block_column, aligned_b);
        store(0);
    }
    __syncthreads();

    float sum[warp_m / 16][warp_n / 8][4] = {};
    Fragments<warp_m, warp_n, warp_k> held[fragments];
    if (fragments == 2) {
        reader.read(held[0], 0);
    }
    int slot = 0; // of the tile that is multiplied

    // Begins to fetch the tile from k on.
    const auto fetch = [&](int k) {
        if (cp_async) {
            if (k < K) { // into the slot before this one, which was read last before the latest barrier
                const int to = slot > 0 ? slot - 1 : stages - 1;
                copy_in_background<TileA>(tile_a + to * SIZE_A, A + k, K, M - place.block_row, K - k, aligned_a);
                copy_in_background<TileB>(tile_b + to * SIZE_B, B + (size_t)k * N, N, K - k, N - place.block_column,
                                          aligned_b);
            }
            commit_copies();
        } else if (k < K) {
            TileA::load(next_a, A + k, K, M - place.block_row, K - k, aligned_a);
            TileB::load(next_b, B + (size_t)k * N, N, K - k, N - place.block_column, aligned_b);
        }
    };

    // Has the next tile in shared memory, in slot `next`; called when this warp has read the last of this one. The next
    // tile begins at k where it comes through registers.
    const auto complete = [&](int next, int k) {
        if (cp_async) {
            wait_for_copies<IN_FLIGHT>();
        } else if (k < K) {
            if (stages == 1) {
                __syncthreads(); // nobody may store the next tile where another thread still reads this one
            }
            store(next);
        }
        __syncthreads();
    };

    for (int k0 = 0; k0 < K; k0 += block_k) {
        const int fetch_k = k0 + AHEAD * block_k, next = slot + 1 < stages ? slot + 1 : 0;
        fetch(fetch_k);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int set = step % fragments;
            if (fragments == 1) {
                reader.read(held[0], step, slot);
            } else if (step + 1 < STEPS) {
                reader.read(held[1 - set], step + 1, slot);
            } else {
                complete(next, fetch_k);
                reader.read(held[1 - set], 0, next);
            }
            multiply_fragments<mma_k>(sum, held[set]);
        }
        if (fragments == 1) {
            complete(next, fetch_k);
        }
        slot = next;
    }

    write_tiles(C, sum, place, M, N, alpha, beta);
}
