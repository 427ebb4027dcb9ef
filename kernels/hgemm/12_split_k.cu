// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: the depth is split among blocks, for
// products of few tiles, and of few rows.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch * splits). A block
// computes block_m x block_n outputs over its part of the depth, and each of its warps warp_m x warp_n of them, as in
// 08_mma_pipelined: tiles are copied to `stages` slots of shared memory in the background, and with fragments = 2 a warp
// reads what it multiplies one step ahead.
//
// Against 08_mma_pipelined: where C has fewer tiles than the device has places for blocks, most of it would idle. Here
// the depth is cut into `splits`, and each tile of C has a block for each of them. Their sums meet as in
// sgemm/14_split_k, with the same bits each time:
// - meet = 0: in a workspace, where the last block of a tile adds up all.
// - meet = 1: in pairs, and pairs of pairs.
// - together = splits: as a cluster, where each block adds up an equal part of the outputs, from the shared memory of all
//   (from sm_90 on).
// Tiles go down to 16 rows, the least of an mma. For M up to 16, B is read once and bounds the time: many slots and
// splits then keep as much of it on its way as memory takes to answer.
// On an H200 the best take 0.037 ms at 16x8192x8192, where cuBLAS takes 0.041, and 0.040 at 512x512x16384, where cuBLAS
// takes 0.021: with enough rows only wgmma keeps tensor cores busy.
// Idea: split-K, as in CUTLASS.
#include "portable.h"
#include "background.h"
#include "hgemm.h"

#ifndef splits
#define splits 4 // parts of the depth
#endif
#ifndef together
#define together 1 // splits whose blocks are a cluster: 1, or all
#endif
#ifndef meet
#define meet 0 // how others meet in the workspace: 0 all at once, 1 in pairs
#endif
#ifndef block_m
#define block_m 64 // rows per block
#endif
#ifndef block_n
#define block_n 128 // columns per block
#endif
#ifndef block_k
#define block_k 64 // depth of a tile
#endif
#ifndef warp_m
#define warp_m 32 // rows per warp
#endif
#ifndef warp_n
#define warp_n 64 // columns per warp
#endif
#ifndef fragments
#define fragments 2 // sets of registers per warp; with 2 it reads the next step before it multiplies this one
#endif
#ifndef stages
#define stages 3 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef min_blocks
#define min_blocks 1 // blocks that a multiprocessor must hold at once: bounds the registers of a thread
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif
#ifndef wide_k
#define wide_k 0 // 1 where K is a multiple of 8: 16-byte copies from the rows of A
#endif
#ifndef wide_n
#define wide_n 0 // 1 where N is a multiple of 8: 16-byte copies from the rows of B
#endif

#if warp_m % 16 != 0 || warp_n % 16 != 0
#error "a warp's outputs are made of pairs of mma tiles, 16 x 8"
#endif
#if block_m % warp_m != 0 || block_n % warp_n != 0 || block_k % (16 * fragments) != 0
#error "a block is made of whole warp tiles; sets of registers take turns in whole rounds"
#endif
#if stages < 2
#error "copies in the background need a second tile to copy to"
#endif

#define THREADS (block_m / warp_m * (block_n / warp_n) * 32)
#define STEPS (block_k / 16)       // per tile
#define SIZE_A (block_m * block_k) // halves per tile
#define SIZE_B (block_k * block_n)

#include "splits.h"

using TileA = SwizzledTile<block_m, block_k, THREADS>;
using TileB = SwizzledTile<block_k, block_n, THREADS>;

// Begins to copy this thread's pieces of a tile. `matrix` points to the first half of the tile, and the matrix goes on
// from there for `rows` rows, which begin `pitch` halves apart, and `columns` columns; beyond them the tile is 0. `wide`
// is a constant: whether rows begin at multiples of 16 bytes. Else halves are loaded one by one.
template <class Tile, bool wide>
INLINE void copy_in_background(half *tile, const half *matrix, int pitch, int rows, int columns) {
    const int row = threadIdx.x / Tile::PER_ROW, column = threadIdx.x % Tile::PER_ROW * 8;
    const half *const source = matrix + (size_t)row * pitch + column;
    if (wide && rows >= Tile::ROWS && columns >= Tile::COLUMNS) { // the whole block goes one way
#pragma unroll
        for (int i = 0; i < Tile::PIECES; i++) {
            copy_async(shared_address(Tile::at(tile, row + i * Tile::ROW_STEP, column)),
                       source + (size_t)pitch * (i * Tile::ROW_STEP), 16);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < Tile::PIECES; i++) {
        const int count = row + i * Tile::ROW_STEP < rows ? columns - column : 0;
        const half *const from = source + (size_t)pitch * (i * Tile::ROW_STEP);
        half *const to = Tile::at(tile, row + i * Tile::ROW_STEP, column);
        if (wide) {
            copy_async(shared_address(to), count > 0 ? from : matrix, count > 0 ? 16 : 0);
        } else {
            *(uint4 *)to = load8(from, count, false);
        }
    }
}

KERNEL void __launch_bounds__(THREADS, min_blocks) CLUSTER
    hgemm_split_k(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B,
                  float *__restrict__ workspace, int *__restrict__ semaphores, int M, int N, int K, int batch,
                  float alpha, float beta) {
    extern __shared__ uint4 shared[]; // `stages` tiles of A, then as many of B; for a cluster, then the sums
    half *const tile_a = (half *)shared, *const tile_b = tile_a + stages * SIZE_A;

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, its part of the depth, this thread's warp in the block, and the thread in its warp.
    Place place;
    place.lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    place.warp_row = warp / (block_n / warp_n) * warp_m, place.warp_column = warp % (block_n / warp_n) * warp_n;
    place.block_column = blockIdx.x * block_n, place.block_row = blockIdx.y * block_m;
    const int split = blockIdx.z % splits;
    const Depths depths(split, 0, K);
    const size_t b = blockIdx.z / splits;
    A += b * M * K + (size_t)place.block_row * K;
    B += b * K * N + place.block_column;
    C += b * M * N;
    const FragmentReader<TileA, TileB, warp_m, warp_n> reader(tile_a, tile_b, place);

    // Begins to fetch the tile from k on to a slot. A group for each tile, so that they can be counted; one of no copies
    // is done at once.
    const auto fetch = [&](int to, int k) {
        if (k < depths.end) {
            copy_in_background<TileA, wide_k>(tile_a + to * SIZE_A, A + k, K, M - place.block_row, K - k);
            copy_in_background<TileB, wide_n>(tile_b + to * SIZE_B, B + (size_t)k * N, N, K - k,
                                              N - place.block_column);
        }
        commit_copies();
    };

    // Have the first tile in shared memory.
#pragma unroll
    for (int slot = 0; slot < stages - 1; slot++) {
        fetch(slot, depths.begin + slot * block_k);
    }
    wait_for_copies<stages - 2>();
    __syncthreads();

    float sum[warp_m / 16][warp_n / 8][4] = {};
    Fragments<warp_m, warp_n, 16> held[fragments];
    if (fragments == 2) {
        reader.read(held[0], 0);
    }
    int slot = 0; // of the tile that is multiplied
    for (int k0 = depths.begin; k0 < depths.end; k0 += block_k) {
        const int next = slot + 1 < stages ? slot + 1 : 0;
        // Into the slot before this one, which was read last before the latest barrier.
        fetch(slot > 0 ? slot - 1 : stages - 1, k0 + (stages - 1) * block_k);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int set = step % fragments;
            if (fragments == 1) {
                reader.read(held[0], step, slot);
            }
            if (step + 1 == STEPS) { // this warp has read the last of this tile
                wait_for_copies<stages - 2>();
                __syncthreads();
            }
            if (fragments == 2) {
                reader.read(held[1 - set], (step + 1) % STEPS, step + 1 < STEPS ? slot : next);
            }
            multiply_fragments<16>(sum, held[set]);
        }
        slot = next;
    }

    const int rows = max(M - place.block_row, 0);
    add_and_write(Rows{C + (size_t)place.block_row * N, rows, 1}, sum, place, N, alpha, beta, split, (float4 *)shared,
                  workspace, semaphores, (b * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
}
