// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by mma.sync: any size, with rows that
// begin anywhere, and few of them.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. A block computes block_m x block_n outputs over its part of the depth, and each of its warps warp_m x warp_n
// of them:
//
//       block_n: warp 0 | warp 1 | ..
//                warp block_n / warp_n | ..         block_m / warp_m rows of warps
//
// The TMA, which feeds the other stages, takes only arrays whose rows begin at multiples of 16 bytes. Here,
// - wide_a, wide_b: where they do, pieces of 16 bytes are copied to shared memory in the background, by cp.async.
// - Else a thread loads the two vectors of 16 bytes that cover a piece, and moves it in registers: see shifted.h. It
//   does so stages - 1 tiles ahead, too: it loads before it multiplies, and stores to shared memory afterwards.
// - together, clusters: the depth of a tile is split among so many blocks, whose sums meet as meet.h says.
// Against hgemm/12_split_k and 13_unaligned, which it joins: 16-bit outputs, bfloat16, and a transposed B, which has
// tiles like those of A. Rows are not sorted.
// On an H200 with bfloat16 the best found in some seconds take 0.0102 ms at 16x4096x4096, where cuBLAS takes 0.0114, and
// 0.0100 at 333x259x1111, where cuBLAS takes 0.0163.
// Ideas: split-K, as in CUTLASS; to move what is not aligned in registers is common.
#include "portable.h"

#ifndef real
#define real __half
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#ifndef block_m
#define block_m 64 // rows per block
#endif
#ifndef block_n
#define block_n 64 // columns per block
#endif
#ifndef block_k
#define block_k 64 // depth of a tile
#endif
#ifndef warp_m
#define warp_m 32 // rows per warp
#endif
#ifndef warp_n
#define warp_n 32 // columns per warp
#endif
#ifndef stages
#define stages 3 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef together
#define together 1 // splits whose blocks are a cluster
#endif
#ifndef clusters
#define clusters 1 // per tile
#endif
#ifndef group_m
#define group_m 1 // block rows per band
#endif
#ifndef wide_a
#define wide_a 0 // 1 where the rows of A begin at multiples of 16 bytes
#endif
#ifndef wide_b
#define wide_b 0 // 1 where those of B do
#endif
#ifndef even_n
#define even_n 0 // 1 where N is even: neighbours of C are written at once
#endif
#ifndef fixed_k
#define fixed_m 0 // the sizes that it is compiled for; 0: for any
#define fixed_n 0
#define fixed_k 0
#endif

#if warp_m % 16 != 0 || warp_n % 16 != 0
#error "a warp's outputs are made of pairs of mma tiles, 16 x 8"
#endif
#if block_m % warp_m != 0 || block_n % warp_n != 0 || block_k % 16 != 0
#error "a block is made of whole warp tiles"
#endif
#if stages < 2
#error "what is fetched ahead needs a second tile to go to"
#endif

#define THREADS (block_m / warp_m * (block_n / warp_n) * 32)
#define WORKERS THREADS
#define STEPS (block_k / 16) // per tile
#define TILES_N (warp_n / 8)

#include "meet.h"
#include "mma.h"

using TileA = MmaTile<block_m, block_k, THREADS>;
#if transposed_b
using TileB = MmaTile<block_n, block_k, THREADS>;
#else
using TileB = MmaTile<block_k, block_n, THREADS>;
#endif

// How a thread brings its pieces of the tiles of a matrix to shared memory; all are from the same columns. The matrix
// has `rows` rows and `columns` columns from the first tile of the block on. Tiles follow one another down its rows where
// `down`, else along its columns. What lies outside becomes 0 along the depth, and may be anything across it, where it
// only counts for outputs outside of C.
template <class Tile, bool wide, bool down> struct Fetcher {
    static_assert(wide || Tile::ROW_STEP % 8 == 0 || Tile::PIECES == 1, "the pieces of a thread have the same shift");
    const Bits *source, *end; // of this thread's first piece; the end of the array
    int row, column, pitch, rows, columns;
    int shift; // of all pieces: tiles follow one another by a multiple of 8 rows, or of 8 columns
    uint4 low[wide ? 1 : Tile::PIECES], high[wide ? 1 : Tile::PIECES]; // on their way through registers

    INLINE Fetcher(const Bits *first, const Bits *end, int pitch, int rows, int columns)
        : end(end), row(threadIdx.x / Tile::PER_ROW), column(threadIdx.x % Tile::PER_ROW * 8), pitch(pitch),
          rows(rows), columns(columns) {
        source = first + (ptrdiff_t)row * pitch + column;
        shift = shift_of(source);
    }

    // How many numbers of a piece of the tile from depth k on lie in the matrix.
    INLINE int count(int i, int k) const {
        return row + i * Tile::ROW_STEP + (down ? k : 0) < rows ? columns - column - (down ? 0 : k) : 0;
    }

    INLINE const Bits *at(int i, int k) const {
        return source + (ptrdiff_t)(i * Tile::ROW_STEP) * pitch + (down ? (ptrdiff_t)k * pitch : (ptrdiff_t)k);
    }

    // Begins to bring the tile from depth k on to a slot.
    INLINE void begin(Bits *tile, int k) {
#pragma unroll
        for (int i = 0; i < Tile::PIECES; i++) {
            const Bits *const from = at(i, k);
            const bool is_there = count(i, k) > 0;
            if (wide) {
                copy_async(shared_address(tile + Tile::at(row + i * Tile::ROW_STEP, column)),
                           is_there ? from : end - 8, is_there ? 16 : 0);
            } else {
                const Bits *const vectors = from - shift;
                low[i] = is_there ? load_before(vectors, end) : make_uint4(0, 0, 0, 0);
                high[i] = is_there ? load_before(vectors + 8, end) : make_uint4(0, 0, 0, 0);
            }
        }
    }

    // Stores to the slot what came through registers.
    INLINE void complete(Bits *tile, int k) const {
        if (!wide) {
#pragma unroll
            for (int i = 0; i < Tile::PIECES; i++) {
                uint4 eight = moved(low[i], high[i], shift);
                if (!down && columns - column - k < 8) {
                    eight = kept(eight, columns - column - k);
                }
                *(uint4 *)(tile + Tile::at(row + i * Tile::ROW_STEP, column)) = eight;
            }
        }
    }
};

// What a warp multiplies in one step, and where its lanes read that in shared memory: see FragmentReader in hgemm.h. A
// transposed B is read like A.
struct Lane {
    int lane, warp_row, warp_column; // of this thread in its warp; the first row and column of the warp in the block
};

struct Step {
    unsigned a[warp_m / 16][4], b[warp_n / 16][4];
};

struct StepReader {
    unsigned a[STEPS], b[transposed_b ? STEPS : warp_n / 16];

    INLINE StepReader(const Bits *tile_a, const Bits *tile_b, const Lane &place) {
        const int lane = place.lane;
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            a[k] = shared_address(tile_a + TileA::at(place.warp_row + lane % 16, k * 16 + lane / 16 * 8));
        }
#if transposed_b
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            b[k] = shared_address(
                tile_b + TileB::at(place.warp_column + lane / 16 * 8 + lane % 8, k * 16 + lane / 8 % 2 * 8));
        }
#else
#pragma unroll
        for (int j = 0; j < warp_n / 16; j++) {
            b[j] = shared_address(tile_b + TileB::at(lane % 16, place.warp_column + j * 16 + lane / 16 * 8));
        }
#endif
    }

    INLINE void read(Step &to, int step, int slot) const {
        const unsigned slot_a = slot * (2 * block_m * block_k), slot_b = slot * (2 * block_n * block_k); // bytes
#pragma unroll
        for (int i = 0; i < warp_m / 16; i++) {
            ldmatrix_4(to.a[i], slot_a + a[step] + i * 16 * TileA::COLUMNS * 2);
        }
#pragma unroll
        for (int j = 0; j < warp_n / 16; j++) {
#if transposed_b
            ldmatrix_4(to.b[j], slot_b + b[step] + j * 16 * TileB::COLUMNS * 2);
#else
            ldmatrix_4_transposed(to.b[j], slot_b + b[j] + step * 16 * TileB::COLUMNS * 2);
#endif
        }
    }
};

KERNEL void __launch_bounds__(THREADS, 1) CLUSTER
    mma_any(real *__restrict__ C, const real *__restrict__ A_numbers, const real *__restrict__ B_numbers,
            float *__restrict__ workspace, int *__restrict__ semaphores, int M, int N, int K, int batch, float alpha,
            float beta) {
    extern __shared__ uint4 shared[]; // `stages` tiles of A, then as many of B; then the sums, for a cluster
    Bits *const tile_a = (Bits *)shared, *const tile_b = tile_a + stages * block_m * block_k;
    const Bits *A = (const Bits *)A_numbers, *B = (const Bits *)B_numbers;
#if fixed_k
    M = fixed_m, N = fixed_n, K = fixed_k;
#endif

    // Place the block in a band of group_m block rows, and its split; this thread's warp in the block.
    const int warp = threadIdx.x / 32;
    const Lane place = {(int)threadIdx.x % 32, warp / (block_n / warp_n) * warp_m, warp % (block_n / warp_n) * warp_n};
    const unsigned high = (M + block_m - 1) / block_m, wide = (N + block_n - 1) / block_n;
    const unsigned tile = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS;
    const unsigned matrix = tile / (high * wide), in_matrix = tile - matrix * (high * wide);
    const unsigned first = in_matrix / (group_m * wide) * group_m, in_band = in_matrix - first * wide;
    const unsigned here = group_m == 1 ? 1 : min(group_m, high - first), beside = in_band / here;
    const int row = (first + in_band - beside * here) * block_m, column = beside * block_n; // the first of the block

    const Steps steps(split, K);
    const Bits *const end_a = A + (size_t)batch * M * K, *const end_b = B + (size_t)batch * K * N;
    Fetcher<TileA, wide_a, false> fetch_a(A + ((size_t)matrix * M + row) * K, end_a, K,
                                          M - row, K);
#if transposed_b
    Fetcher<TileB, wide_b, false> fetch_b(B + ((size_t)matrix * N + column) * K, end_b, K,
                                          N - column, K);
#else
    Fetcher<TileB, wide_b, true> fetch_b(B + (size_t)matrix * K * N + column, end_b, N, K,
                                         N - column);
#endif
    const StepReader reader(tile_a, tile_b, place);

    // Begins to fetch tile number `number` of this split. A group for each, so that they can be counted; one of no copies
    // is done at once.
    const auto begin = [&](int slot, int number) {
        if (number < steps.count) {
            const int k = (steps.begin + number) * block_k;
            fetch_a.begin(tile_a + slot * block_m * block_k, k);
            fetch_b.begin(tile_b + slot * block_n * block_k, k);
        }
        commit_copies();
    };
    const auto complete = [&](int slot, int number) {
        if (number < steps.count) {
            const int k = (steps.begin + number) * block_k;
            fetch_a.complete(tile_a + slot * block_m * block_k, k);
            fetch_b.complete(tile_b + slot * block_n * block_k, k);
        }
    };

#pragma unroll 1
    for (int slot = 0; slot < stages - 1; slot++) {
        begin(slot, slot);
        complete(slot, slot);
    }
    float sum[warp_m / 16][TILES_N][4] = {};
    int slot = 0; // of the tile that is multiplied
#pragma unroll 1
    for (int number = 0; number < steps.count; number++) {
        const int to = slot > 0 ? slot - 1 : stages - 1; // was read last before this barrier
        wait_for_copies<stages - 2>();
        __syncthreads();
        Step held[2];
        reader.read(held[0], 0, slot);
        begin(to, number + stages - 1);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            if (step + 1 < STEPS) {
                reader.read(held[(step + 1) % 2], step + 1, slot);
            }
            const Step &now = held[step % 2];
#pragma unroll
            for (int i = 0; i < warp_m / 16; i++) {
#pragma unroll
                for (int j = 0; j < TILES_N; j++) {
                    multiply_mma<real>(sum[i][j], now.a[i], now.b[j / 2][j % 2 * 2], now.b[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
        complete(to, number + stages - 1);
        slot = slot + 1 < stages ? slot + 1 : 0;
    }
    if (together > 1) {
        wait_for_copies<0>();
        __syncthreads(); // nobody reads tiles any more
    }

    const int y = row + place.warp_row + place.lane / 4;
    const int x = column + place.warp_column + place.lane % 4 * 2;
    const Fours<real, TILES_N, 16, even_n> outputs = {
        C + (size_t)matrix * M * N + (size_t)y * N + x, M - y, N - x, N, alpha, beta};
    meet((const float(&)[warp_m / 16 * TILES_N][4])sum, outputs, split, tile, (float4 *)shared, workspace, semaphores);
}
