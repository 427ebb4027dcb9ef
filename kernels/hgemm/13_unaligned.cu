// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: rows need not begin at multiples of
// 16 bytes.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, classes * groups of rows, batch). A
// block computes block_m x block_n outputs, and each of its warps warp_m x warp_n of them, as in 08_mma_pipelined.
//
// Global memory gives 16 bytes at once only from multiples of 16 bytes. Where K or N is no multiple of 8, most rows begin
// elsewhere, and the stages before load half by half. Here all loads are of 16 bytes:
//
// - A: how far a row begins behind such a multiple, its shift, is the same for every `classes`-th row (for every eighth
//   where K is odd). So a block takes rows of one class, `classes` rows apart. Its tiles begin `shift` halves before the
//   rows do, at depth -shift, where all of them can be copied in the background. What lies before a row's begin or behind
//   its end becomes 0. The tiles of B begin at the same depth, which for B is only another row:
//
//       memory    | . . . a0 a1 a2 a3 a4 | a5 ..      | multiples of 16 bytes, shift = 3
//       tile 0    | 0 0 0 a0 a1 a2 a3 a4 | a5 ..
//
// - B: its rows have different shifts within a tile, and mma takes the same columns of all. So a thread loads the two
//   vectors that cover a piece of eight halves, and moves the piece out of them in registers, where a thread's rows all
//   have the same shift. It loads one tile ahead, and stores when this tile has been multiplied.
//
// Idea: to sort rows by their shifts is ours; to move what is not aligned in registers is common.
#include "portable.h"
#include "background.h"
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
#ifndef fragments
#define fragments 1 // sets of registers per warp; with 2 it reads the next step before it multiplies this one
#endif
#ifndef stages
#define stages 2 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef min_blocks
#define min_blocks 1 // blocks that a multiprocessor must hold at once: bounds the registers of a thread
#endif
#ifndef group_m
#define group_m 1 // block rows per band
#endif
#ifndef classes
#define classes 8 // K * classes is a multiple of 8: 1, 2, 4 or 8
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

using TileA = SwizzledTile<block_m, block_k, THREADS>;
using TileB = SwizzledTile<block_k, block_n, THREADS>;
static_assert(TileB::ROW_STEP % 8 == 0, "all rows of B that a thread loads have the same shift");

// How many halves behind a multiple of 16 bytes.
INLINE int shift_of(const half *address) { return (int)((size_t)address / 2 % 8); }

// Eight neighbours, of which the first lies `shift` halves behind the first of the sixteen halves `low` and `high`.
INLINE uint4 moved(const uint4 &low, const uint4 &high, int shift) {
    const unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    unsigned by_two[6], by_one[5], out[4];
#pragma unroll
    for (int i = 0; i < 6; i++) {
        by_two[i] = shift & 4 ? words[i + 2] : words[i];
    }
#pragma unroll
    for (int i = 0; i < 5; i++) {
        by_one[i] = shift & 2 ? by_two[i + 1] : by_two[i];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[i] = __funnelshift_r(by_one[i], by_one[i + 1], shift % 2 * 16);
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

// The first eight halves of a tile's row, which begins `shift` halves before the row of `count` halves at `source` does.
INLINE uint4 load_first8(const half *source, int shift, int count) {
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int first = 2 * i - shift, second = first + 1;
        const unsigned low = first >= 0 && first < count ? source[first] : 0;
        const unsigned high = second >= 0 && second < count ? source[second] : 0;
        pairs[i] = low | high << 16;
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// Begins to copy the tile of A from depth k on, which is negative at most at its first `shift` columns. `A` is where
// depth 0 of the tile's first row lies; the next row is `pitch` halves behind it, and there are `rows` of them.
INLINE void copy_tile_a(half *tile, const half *A, int pitch, int rows, int k, int shift, int K) {
    const int row = threadIdx.x / TileA::PER_ROW, column = threadIdx.x % TileA::PER_ROW * 8;
    const half *const source = A + (ptrdiff_t)row * pitch + k + column;
    if (k < 0 && column == 0) {
#pragma unroll 1
        for (int i = 0; i < TileA::PIECES; i++) {
            *(uint4 *)TileA::at(tile, row + i * TileA::ROW_STEP, 0) =
                load_first8(source + (size_t)pitch * (i * TileA::ROW_STEP) + shift, shift,
                            row + i * TileA::ROW_STEP < rows ? K : 0);
        }
    } else {
        const int bytes = min(max(K - k - column, 0), 8) * 2;
#pragma unroll
        for (int i = 0; i < TileA::PIECES; i++) {
            const bool there = row + i * TileA::ROW_STEP < rows && bytes > 0;
            copy_async(shared_address(TileA::at(tile, row + i * TileA::ROW_STEP, column)),
                       there ? source + (size_t)pitch * (i * TileA::ROW_STEP) : A - shift, there ? bytes : 0);
        }
    }
}

// Pieces of B on their way through registers: two vectors for each, as they lie in memory.
struct Pieces {
    uint4 low[TileB::PIECES], high[TileB::PIECES];
};

KERNEL void __launch_bounds__(THREADS, min_blocks)
    hgemm_unaligned(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B, int M, int N, int K,
                    int batch, float alpha, float beta) {
    extern __shared__ uint4 shared[]; // `stages` tiles of A, then as many of B
    half *const tile_a = (half *)shared, *const tile_b = tile_a + stages * SIZE_A;

    // Place the block in a band of group_m block rows, this thread's warp in the block, and the thread in its warp.
    Place place;
    place.lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    place.warp_row = warp / (block_n / warp_n) * warp_m, place.warp_column = warp % (block_n / warp_n) * warp_n;
    const int block = blockIdx.y * gridDim.x + blockIdx.x, band = block / (group_m * gridDim.x) * group_m;
    const int band_rows = min(group_m, (int)gridDim.y - band), in_band = block - band * gridDim.x;
    place.block_column = in_band / band_rows * block_n;
    const int block_y = band + in_band % band_rows; // classes take turns
    const int first_row = block_y % classes + block_y / classes * (block_m * classes); // the others follow, `classes` apart
    const int rows = (M - first_row + classes - 1) / classes; // from there on
    const half *const end_b = B + (size_t)batch * K * N;
    const size_t b = blockIdx.z;
    A += (b * M + first_row) * K;
    B += b * K * N + place.block_column;
    C += b * M * N;
    if (first_row >= M) {
        return; // the whole block: the last group may lack a class
    }
    const int shift_a = shift_of(A);
    const FragmentReader<TileA, TileB, warp_m, warp_n> reader(tile_a, tile_b, place);

    // The pieces of B that this thread loads.
    const int row_b = threadIdx.x / TileB::PER_ROW, column_b = threadIdx.x % TileB::PER_ROW * 8;
    const int shift_b = shift_of(B + (ptrdiff_t)(row_b - shift_a) * N);
    const half *const source_b = B + (ptrdiff_t)row_b * N + column_b - shift_b; // at a multiple of 16 bytes, for k = -shift_a

    Pieces pieces;
    // Whether vectors of the tile of B from depth k on would reach behind the end of B.
    const auto reaches_out = [&](int k) {
        return B + (ptrdiff_t)(min(k + block_k, K) - 1) * N + block_n + 8 > end_b;
    };
    const auto load_b = [&](int k) {
        if (!reaches_out(k)) {
#pragma unroll
            for (int i = 0; i < TileB::PIECES; i++) {
                const int row = k + row_b + i * TileB::ROW_STEP;
                const uint4 *const from = (const uint4 *)(source_b + (ptrdiff_t)(k + i * TileB::ROW_STEP) * N);
                const bool there = row >= 0 && row < K;
                pieces.low[i] = there ? from[0] : make_uint4(0, 0, 0, 0);
                pieces.high[i] = there ? from[1] : make_uint4(0, 0, 0, 0);
            }
        }
    };
    const auto store_b = [&](half *tile, int k) {
        if (!reaches_out(k)) {
#pragma unroll
            for (int i = 0; i < TileB::PIECES; i++) {
                *(uint4 *)TileB::at(tile, row_b + i * TileB::ROW_STEP, column_b) =
                    moved(pieces.low[i], pieces.high[i], shift_b);
            }
        } else {
#pragma unroll 1
            for (int i = 0; i < TileB::PIECES; i++) {
                const int row = k + row_b + i * TileB::ROW_STEP;
                const int count = row >= 0 && row < K ? N - place.block_column - column_b : 0;
                *(uint4 *)TileB::at(tile, row_b + i * TileB::ROW_STEP, column_b) =
                    load8(B + (ptrdiff_t)row * N + column_b, count, false);
            }
        }
    };
    // Begins to copy the tile of A from depth k on to a slot; a group for each tile, so that they can be counted.
    const auto fetch_a = [&](int to, int k) {
        if (k < K) {
            copy_tile_a(tile_a + to * SIZE_A, A, K * classes, rows, k, shift_a, K);
        }
        commit_copies();
    };

    // Have the first tiles in shared memory.
#pragma unroll 1
    for (int slot = 0; slot < stages - 1; slot++) {
        fetch_a(slot, slot * block_k - shift_a);
    }
    load_b(-shift_a);
    store_b(tile_b, -shift_a);
    wait_for_copies<stages - 2>();
    __syncthreads();

    float sum[warp_m / 16][warp_n / 8][4] = {};
    Fragments<warp_m, warp_n, 16> held[fragments];
    if (fragments == 2) {
        reader.read(held[0], 0);
    }
    int slot = 0; // of the tile that is multiplied
    for (int k0 = -shift_a; k0 < K; k0 += block_k) {
        const int next = slot + 1 < stages ? slot + 1 : 0, next_k = k0 + block_k;
        // Into the slot before this one, which was read last before the latest barrier.
        fetch_a(slot > 0 ? slot - 1 : stages - 1, k0 + (stages - 1) * block_k);
        if (next_k < K) {
            load_b(next_k);
        }
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int set = step % fragments;
            if (fragments == 1) {
                reader.read(held[0], step, slot);
            } else if (step + 1 < STEPS) {
                reader.read(held[1 - set], step + 1, slot);
            }
            if (step + 1 == STEPS) { // this warp has read the last of this tile
                if (next_k < K) {
                    store_b(tile_b + next * SIZE_B, next_k);
                }
                wait_for_copies<stages - 2>();
                __syncthreads();
                if (fragments == 2) {
                    reader.read(held[1 - set], 0, next);
                }
            }
            multiply_fragments<16>(sum, held[set]);
        }
        slot = next;
    }

    // Write.
    const bool paired = N % 2 == 0 && (size_t)C % 8 == 0;
    const int column = place.block_column + place.warp_column + place.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < warp_m / 8; i++) {
        const int row = place.warp_row + i * 8 + place.lane / 4;
        if (row < rows) {
            write_row(C + (first_row + (size_t)row * classes) * N + column, sum[i / 2], i % 2 * 2, alpha, beta,
                      N - column, paired);
        }
    }
}
