// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by mma.sync: rows need not begin at multiples of
// 16 bytes.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats; blocks are (columns, rows, batch * splits). A block
// computes block_m x block_n outputs over its part of the depth, and each of its warps warp_m x warp_n of them, as in
// 12_split_k.
//
// Global memory gives 16 bytes at once only from multiples of 16 bytes. Where K or N is no multiple of 8, most rows begin
// elsewhere, and the stages before load half by half. Here nearly all loads are of 16 bytes:
//
// - How far a row begins behind such a multiple, its shift, is the same for every eighth row. A thread loads the two
//   vectors that cover a piece of eight halves, from rows that are a multiple of eight apart, and moves all its pieces
//   by the same shift, in registers. While a tile is multiplied, each step stores a part of the next one, and loads the
//   same part of the one behind.
// - sort_rows = 1: A needs no moving if a block takes rows of one shift, `classes` rows apart. Its tiles begin `shift`
//   halves before the rows do, at depth -shift, where all of them can be copied in the background. What lies before the
//   begin of a row or behind its end becomes 0. The tiles of B begin at the same depth, which for B is only another row:
//
//       memory    | . . . a0 a1 a2 a3 a4 | a5 ..      | multiples of 16 bytes, shift = 3
//       tile 0    | 0 0 0 a0 a1 a2 a3 a4 | a5 ..
//
//   Few rows are too few for that, as each class has blocks of its own.
// - wide_n: where N is a multiple of 8, B is copied in the background.
//
// Against 08_mma_pipelined and 12_split_k: as above. On an H200 at 4095 the default takes 0.552 ms, where cuBLAS takes
// 0.918; 14_packed is for that.
// Idea: to move what is not aligned in registers is common; to sort rows by their shifts is ours.
#include "portable.h"
#include "background.h"
#include "hgemm.h"
#include "shifted.h"

#ifndef splits
#define splits 1 // parts of the depth
#endif
#ifndef together
#define together 1 // splits whose blocks are a cluster: 1, or all
#endif
#ifndef meet
#define meet 0 // how others meet in the workspace: 0 all at once, 1 in pairs
#endif
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
#define stages 3 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef min_blocks
#define min_blocks 1 // blocks that a multiprocessor must hold at once: bounds the registers of a thread
#endif
#ifndef group_m
#define group_m 1 // block rows per band
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif
#ifndef sort_rows
#define sort_rows 1 // 1: the rows of a block have the same shift; 0: they are neighbours
#endif
#ifndef classes
#define classes 8 // where rows are sorted: K * classes is a multiple of 8; else 1
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

// A thread's pieces of a tile, on their way through registers, all from one column and from rows of one shift.
template <class Tile> struct Pieces {
    uint4 low[Tile::PIECES], high[Tile::PIECES];
    int row, column, shift;
    ptrdiff_t from; // where the vectors of the first piece lie from the begin of the tile in the matrix, in halves
    int to;         // where it is stored in the tile

    // The first tile that is loaded begins at `matrix`; rows of the matrix begin `pitch` halves apart.
    INLINE Pieces(const half *matrix, int pitch)
        : row(threadIdx.x / Tile::PER_ROW), column(threadIdx.x % Tile::PER_ROW * 8),
          shift(shift_of(matrix + (ptrdiff_t)row * pitch)), from((ptrdiff_t)row * pitch + column - shift),
          to((int)(Tile::at((half *)0, row, column) - (half *)0)) {}

    // Loads piece i of the tile that begins at `matrix`, whose vectors lie in it, if its row is `there`.
    INLINE void load(int i, const half *matrix, int pitch, bool there) {
        const half *const vectors = matrix + from + (ptrdiff_t)(i * Tile::ROW_STEP) * pitch;
        low[i] = there ? *(const uint4 *)vectors : make_uint4(0, 0, 0, 0);
        high[i] = there ? *(const uint4 *)(vectors + 8) : make_uint4(0, 0, 0, 0);
    }

    // Loads all, where the matrix has `rows` rows from row `first` of the tile on.
    INLINE void load_all(const half *matrix, int pitch, int first, int rows) {
#pragma unroll
        for (int i = 0; i < Tile::PIECES; i++) {
            load(i, matrix, pitch, (unsigned)(row + i * Tile::ROW_STEP - first) < (unsigned)rows);
        }
    }

    INLINE void store(int i, half *tile) const {
        *(uint4 *)(tile + to + i * (Tile::ROW_STEP * Tile::COLUMNS)) = moved(low[i], high[i], shift);
    }

    INLINE void store_all(half *tile) const {
#pragma unroll
        for (int i = 0; i < Tile::PIECES; i++) {
            store(i, tile);
        }
    }

    // In step `step` of STEPS, stores its part of the pieces and loads the same pieces of another tile.
    INLINE void turn(int step, half *tile, const half *matrix, int pitch) {
#pragma unroll
        for (int i = 0; i < Tile::PIECES; i++) {
            if (i * STEPS / Tile::PIECES == step) {
                store(i, tile);
                load(i, matrix, pitch, true);
            }
        }
    }

    // Copies the tile half by half, where vectors would lie outside. The matrix has `columns` columns from there on.
    INLINE void copy(half *tile, const half *matrix, int pitch, int first, int rows, int columns) const {
#pragma unroll 1
        for (int i = 0; i < Tile::PIECES; i++) {
            const int place = row + i * Tile::ROW_STEP;
            const int count = (unsigned)(place - first) < (unsigned)rows ? columns - column : 0;
            *(uint4 *)Tile::at(tile, place, column) = load8(matrix + (ptrdiff_t)place * pitch + column, count, false);
        }
    }
};

static_assert(sort_rows || TileA::ROW_STEP % 8 == 0, "all rows of A that a thread loads have the same shift");
static_assert(wide_n || TileB::ROW_STEP % 8 == 0, "all rows of B that a thread loads have the same shift");

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

// Begins to copy the tile of A from depth k on, where rows are sorted: -shift, or a multiple of block_k behind that. The
// tile's first row begins at *A, which is `shift` halves behind a multiple of 16 bytes; the next row is `pitch` halves
// behind it, and there are `rows` of them, of K halves. `inside` tells that the tile lies in them.
INLINE void copy_sorted(half *tile, const half *A, int pitch, int rows, int k, int shift, int K, bool inside) {
    const int row = threadIdx.x / TileA::PER_ROW, column = threadIdx.x % TileA::PER_ROW * 8;
    const half *const source = A + (ptrdiff_t)row * pitch + k + column;
    if (inside) {
#pragma unroll
        for (int i = 0; i < TileA::PIECES; i++) {
            copy_async(shared_address(TileA::at(tile, row + i * TileA::ROW_STEP, column)),
                       source + (size_t)pitch * (i * TileA::ROW_STEP), 16);
        }
    } else if (k + column < 0) {
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

// Begins to copy the tile of B from depth k on, where N is a multiple of 8. `columns` are there from *B on. `inside`
// tells that all rows are there.
INLINE void copy_wide(half *tile, const half *B, int N, int K, int k, int columns, bool inside) {
    const int row = threadIdx.x / TileB::PER_ROW, column = threadIdx.x % TileB::PER_ROW * 8;
#pragma unroll
    for (int i = 0; i < TileB::PIECES; i++) {
        const int in_b = k + row + i * TileB::ROW_STEP;
        const bool there = (inside || (unsigned)in_b < (unsigned)K) && column < columns;
        copy_async(shared_address(TileB::at(tile, row + i * TileB::ROW_STEP, column)),
                   there ? B + (size_t)in_b * N + column : B, there ? 16 : 0);
    }
}

KERNEL void __launch_bounds__(THREADS, min_blocks) CLUSTER
    hgemm_unaligned(float *__restrict__ C, const half *__restrict__ A, const half *__restrict__ B,
                    float *__restrict__ workspace, int *__restrict__ semaphores, int M, int N, int K, int batch,
                    float alpha, float beta) {
    extern __shared__ uint4 shared[]; // `stages` tiles of A, then as many of B; for a cluster, then the sums
    half *const tile_a = (half *)shared, *const tile_b = tile_a + stages * SIZE_A;

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block in a band of group_m block rows, this thread's warp in the block, and the thread in its warp.
    Place place;
    place.lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    place.warp_row = warp / (block_n / warp_n) * warp_m, place.warp_column = warp % (block_n / warp_n) * warp_n;
    const int block = blockIdx.y * gridDim.x + blockIdx.x, band = block / (group_m * gridDim.x) * group_m;
    const int band_rows = min(group_m, (int)gridDim.y - band), in_band = block - band * gridDim.x;
    place.block_column = in_band / band_rows * block_n;
    // The rows from first_row on, `classes` apart; a class may have none in the last group, and then zeros are summed.
    const int block_y = band + in_band % band_rows;
    const int first_row = block_y % classes + block_y / classes * (block_m * classes);
    const int rows = max(M - first_row + classes - 1, 0) / classes, columns = N - place.block_column;
    const half *const end_b = B + (size_t)batch * K * N;
    const size_t b = blockIdx.z / splits;
    A += rows > 0 ? (b * M + first_row) * K : 0;
    B += b * K * N + place.block_column;
    C += (b * M + first_row) * N;
    const int shift_a = sort_rows ? shift_of(A) : 0, split = blockIdx.z % splits;
    const Depths depths(split, -shift_a, K);
    const FragmentReader<TileA, TileB, warp_m, warp_n> reader(tile_a, tile_b, place);
    Pieces<TileA> pieces_a(A, K);
    Pieces<TileB> pieces_b(B - (ptrdiff_t)shift_a * N, N);

    // Whether vectors of the tiles from depth k on would lie behind the end of a row of A, where zeros must be, or of B.
    const auto is_last_a = [&](int k) { return k + block_k + 8 > K; };
    const auto is_last_b = [&](int k) {
        return B + (ptrdiff_t)(min(k + block_k, K) - 1) * N + block_n + 8 > end_b;
    };
    // Loads the tiles from depth k on that come through registers.
    const auto load = [&](int k) {
        if (!sort_rows && k < depths.end && !is_last_a(k)) {
            pieces_a.load_all(A + k, K, 0, rows);
        }
        if (!wide_n && k < depths.end && !is_last_b(k)) {
            pieces_b.load_all(B + (ptrdiff_t)k * N, N, -k, K);
        }
    };
    // Stores them to a slot.
    const auto store = [&](int slot, int k) {
        if (!sort_rows && k < depths.end) {
            half *const tile = tile_a + slot * SIZE_A;
            if (is_last_a(k)) {
                pieces_a.copy(tile, A + k, K, 0, rows, K - k);
            } else {
                pieces_a.store_all(tile);
            }
        }
        if (!wide_n && k < depths.end) {
            half *const tile = tile_b + slot * SIZE_B;
            if (is_last_b(k)) {
                pieces_b.copy(tile, B + (ptrdiff_t)k * N, N, -k, K, columns);
            } else {
                pieces_b.store_all(tile);
            }
        }
    };
    // Begins to copy the others from depth k on to a slot; a group for each slot, so that they can be counted.
    const auto fetch = [&](int slot, int k, bool inside) {
        if (sort_rows && (inside || k < depths.end)) {
            copy_sorted(tile_a + slot * SIZE_A, A, K * classes, rows, k, shift_a, K, inside);
        }
        if (wide_n && (inside || k < depths.end)) {
            copy_wide(tile_b + slot * SIZE_B, B, N, K, k, columns, inside);
        }
        commit_copies();
    };

    // Have the first tiles in shared memory, and the second ones in registers.
#pragma unroll 1
    for (int slot = 0; slot < stages - 1; slot++) {
        fetch(slot, depths.begin + slot * block_k, false);
    }
    load(depths.begin);
    store(0, depths.begin);
    load(depths.begin + block_k);
    wait_for_copies<stages - 2>();
    __syncthreads();

    float sum[warp_m / 16][warp_n / 8][4] = {};
    Fragments<warp_m, warp_n, 16> held[fragments];
    if (fragments == 2) {
        reader.read(held[0], 0);
    }
    int slot = 0; // of the tile that is multiplied
    // Multiplies the tiles from k0 on, stores the next ones, and loads those behind them. `inside` is a constant: whether
    // all that it touches lies in the matrices and among the depths of the block. Then each step does a part of this.
    const auto multiply_tiles = [&](int k0, bool inside) {
        const int next = slot + 1 < stages ? slot + 1 : 0;
        // Into the slot before this one, which was read last before the latest barrier.
        fetch(slot > 0 ? slot - 1 : stages - 1, k0 + (stages - 1) * block_k, inside);
        if (!inside) {
            store(next, k0 + block_k);
            load(k0 + 2 * block_k);
        }
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int set = step % fragments;
            if (fragments == 1) {
                reader.read(held[0], step, slot);
            } else if (step + 1 < STEPS) {
                reader.read(held[1 - set], step + 1, slot);
            }
            if (inside && !sort_rows) {
                pieces_a.turn(step, tile_a + next * SIZE_A, A + k0 + 2 * block_k, K);
            }
            if (inside && !wide_n) {
                pieces_b.turn(step, tile_b + next * SIZE_B, B + (ptrdiff_t)(k0 + 2 * block_k) * N, N);
            }
            if (step + 1 == STEPS) { // this warp has read the last of this tile
                wait_for_copies<stages - 2>();
                __syncthreads();
                if (fragments == 2) {
                    reader.read(held[1 - set], 0, next);
                }
            }
            multiply_fragments<16>(sum, held[set]);
        }
        slot = next;
    };
    int k0 = depths.begin;
    const int reach = (stages > 3 ? stages : 3) * block_k; // of what multiplying at k0 touches
    if (rows >= block_m) {
        for (; k0 + block_k > 0 && k0 + reach + 8 <= depths.end && !is_last_b(k0 + 2 * block_k); k0 += block_k) {
            multiply_tiles(k0, true);
        }
    }
    for (; k0 < depths.end; k0 += block_k) {
        multiply_tiles(k0, false);
    }

    add_and_write(Rows{C, rows, classes}, sum, place, N, alpha, beta, split, (float4 *)shared, workspace, semaphores,
                  (b * gridDim.y + block_y) * gridDim.x + place.block_column / block_n);
}
