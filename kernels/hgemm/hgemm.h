// What the stages of hgemm from 02 on share: halves as bits, the instructions that C++ has no words for, and how tiles
// lie in shared memory, get there, are multiplied and are written.
#ifndef HGEMM_H
#define HGEMM_H

#include "inline.h"

typedef unsigned short half; // its bits: the kernels only move halves, and tensor cores alone compute with them

// ---- Instructions ----

// The address of `pointer` within shared memory, which the instructions below take.
INLINE unsigned shared_address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// ldmatrix reads matrices of 8 x 8 halves. Lane 8 m + r gives the address of row r of matrix m: 16 bytes, which begin
// at a multiple of 16. Each lane then holds in to[m] the halves 2 (lane % 4) and 2 (lane % 4) + 1 of row lane / 4. With
// `transposed` it holds those of column lane / 4, which is what mma takes of a row-major B.
INLINE void ldmatrix_2(unsigned (&to)[2], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"(address)
                 : "memory");
}

INLINE void ldmatrix_1_transposed(unsigned &to, unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(to) : "r"(address) : "memory");
}

INLINE void ldmatrix_4(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

INLINE void ldmatrix_4_transposed(unsigned (&to)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// sum += a b, where a is 16 x 8, b is 8 x 8 and sum is 16 x 8. a0 and a1 are the upper and the lower 8 x 8 of a. A lane
// holds in sum[0] and sum[1] the columns 2 (lane % 4) and 2 (lane % 4) + 1 of row lane / 4; in sum[2] and sum[3], the
// same columns 8 rows below.
INLINE void mma_16x8x8(float (&sum)[4], unsigned a0, unsigned a1, unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// The same, twice as deep: a[2], a[3] and b1 are the second 8 of k.
INLINE void mma_16x8x16(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Where a thread computes: its lane in the warp, the warp's first row and column in the block, and the block's in C.
struct Place {
    int lane, warp_row, warp_column, block_row, block_column;
};

// ---- Tiles in shared memory ----

// A tile of ROWS x COLUMNS halves, row by row. `at` is where its halves from `column` of `row` on lie.
template <int ROWS_, int COLUMNS_> struct PlainTile {
    enum { ROWS = ROWS_, COLUMNS = COLUMNS_ };

    template <class Half> static INLINE Half *at(Half *tile, int row, int column) {
        return &((Half(*)[COLUMNS])tile)[row][column];
    }
};

// Whether rows of `pitch` halves can be read 16 bytes at a time.
INLINE bool is_aligned(const half *matrix, int pitch) { return pitch % 8 == 0 && (size_t)matrix % 16 == 0; }

// Eight neighbours of a row. The first `count` of them lie in the matrix (none where it is negative), and the others
// become 0. Where the matrix is `aligned`, all of them lie in it or none.
INLINE uint4 load8(const half *source, int count, bool aligned) {
    if (aligned) {
        return count > 0 ? *(const uint4 *)source : make_uint4(0, 0, 0, 0);
    }
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned low = 2 * i < count ? source[2 * i] : 0, high = 2 * i + 1 < count ? source[2 * i + 1] : 0;
        pairs[i] = low | high << 16;
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

// Copies what a matrix of rows x columns halves has from first_row and first_column on to a tile, half by half. Rows of
// the matrix begin `pitch` halves apart; outside of it the tile is 0.
template <int THREADS, int ROWS, int COLUMNS>
INLINE void copy_elements(half (&tile)[ROWS][COLUMNS], const half *matrix, int pitch, int first_row, int first_column,
                          int rows, int columns) {
    for (int i = threadIdx.x; i < ROWS * COLUMNS; i += THREADS) {
        const int row = first_row + i / COLUMNS, column = first_column + i % COLUMNS;
        tile[i / COLUMNS][i % COLUMNS] = row < rows && column < columns ? matrix[(size_t)row * pitch + column] : 0;
    }
}

// A tile of ROWS x COLUMNS halves, row by row, in which pieces of 16 bytes change places within each row. They do so
// differently in each of the 8 rows that ldmatrix reads at once, which therefore lie in different banks of shared
// memory. Every 8 rows the exchange is the same.
// THREADS threads copy the tile. Each takes PIECES pieces from the same columns, ROW_STEP rows apart. `matrix` points
// to the first half of all, and the matrix goes on from there for `rows` rows, which begin `pitch` halves apart, and
// `columns` columns. Beyond them the tile is 0.
template <int ROWS_, int COLUMNS_, int THREADS> struct SwizzledTile {
    enum { ROWS = ROWS_, COLUMNS = COLUMNS_, PER_ROW = COLUMNS / 8 };
    enum { EXCHANGED = PER_ROW < 8 ? PER_ROW : 8 }; // 8 pieces are all 32 banks
    enum { PIECES = ROWS * PER_ROW / THREADS, ROW_STEP = THREADS / PER_ROW };
    static_assert((PER_ROW & (PER_ROW - 1)) == 0,
                  "a row holds a power of two of pieces, so that they can change places");
    static_assert(ROWS * PER_ROW % THREADS == 0, "all threads copy equally many pieces of 16 bytes");
    static_assert(THREADS % PER_ROW == 0, "all pieces that a thread copies are from the same columns");

    template <class Half> static INLINE Half *at(Half *tile, int row, int column) {
        return tile + (row * COLUMNS + (column / 8 ^ row / (8 / EXCHANGED) % EXCHANGED) * 8);
    }

    // Loads this thread's pieces into registers.
    static INLINE void load(uint4 (&pieces)[PIECES], const half *matrix, int pitch, int rows, int columns,
                            bool aligned) {
        const int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW * 8;
        const half *const source = matrix + (size_t)row * pitch + column;
        if (aligned && rows >= ROWS && columns >= COLUMNS) { // the whole block goes one way
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                pieces[i] = *(const uint4 *)(source + (size_t)pitch * (i * ROW_STEP));
            }
        } else {
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                const int count = row + i * ROW_STEP < rows ? columns - column : 0;
                pieces[i] = load8(source + (size_t)pitch * (i * ROW_STEP), count, aligned);
            }
        }
    }

    // Stores them to the tile.
    static INLINE void store(half *tile, const uint4 (&pieces)[PIECES]) {
        const int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW * 8;
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            *(uint4 *)at(tile, row + i * ROW_STEP, column) = pieces[i];
        }
    }

    // Copies them to the tile, one after the other.
    static INLINE void copy(half *tile, const half *matrix, int pitch, int rows, int columns, bool aligned) {
        const int row = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW * 8;
        const half *const source = matrix + (size_t)row * pitch + column;
        if (aligned && rows >= ROWS && columns >= COLUMNS) { // the whole block goes one way
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                *(uint4 *)at(tile, row + i * ROW_STEP, column) =
                    *(const uint4 *)(source + (size_t)pitch * (i * ROW_STEP));
            }
        } else {
            for (int i = 0; i < PIECES; i++) {
                const int count = row + i * ROW_STEP < rows ? columns - column : 0;
                *(uint4 *)at(tile, row + i * ROW_STEP, column) =
                    load8(source + (size_t)pitch * (i * ROW_STEP), count, aligned);
            }
        }
    }
};

// ---- Products ----

// Reads what a warp multiplies in one step, from `k` on, into registers: its rows of the tile at tile_a and its columns
// of the tile at tile_b, as matrices of 8 x 8. Both are DEPTHS such matrices deep.
template <class TileA, class TileB, int DEPTHS, int TILES_M, int TILES_N>
INLINE void read_fragments(unsigned (&a)[DEPTHS][TILES_M][2], unsigned (&b)[DEPTHS][TILES_N], const half *tile_a,
                           const half *tile_b, const Place &place, int k) {
#pragma unroll
    for (int l = 0; l < DEPTHS; l++) {
#pragma unroll
        for (int i = 0; i < TILES_M; i++) {
            ldmatrix_2(a[l][i],
                       shared_address(TileA::at(tile_a, place.warp_row + i * 16 + place.lane % 16, k + l * 8)));
        }
#pragma unroll
        for (int j = 0; j < TILES_N; j++) {
            ldmatrix_1_transposed(
                b[l][j], shared_address(TileB::at(tile_b, k + l * 8 + place.lane % 8, place.warp_column + j * 8)));
        }
    }
}

// sum += a b, from registers.
template <int DEPTHS, int TILES_M, int TILES_N>
INLINE void multiply_fragments(float (&sum)[TILES_M][TILES_N][4], const unsigned (&a)[DEPTHS][TILES_M][2],
                               const unsigned (&b)[DEPTHS][TILES_N]) {
#pragma unroll
    for (int l = 0; l < DEPTHS; l++) {
#pragma unroll
        for (int i = 0; i < TILES_M; i++) {
#pragma unroll
            for (int j = 0; j < TILES_N; j++) {
                mma_16x8x8(sum[i][j], a[l][i][0], a[l][i][1], b[l][j]);
            }
        }
    }
}

// The same as ldmatrix_4 reads it, four matrices at a time: WARP_M rows of A, WARP_N columns of B, both WARP_K deep.
template <int WARP_M, int WARP_N, int WARP_K> struct Fragments {
    unsigned a[WARP_K / 16][WARP_M / 16][4], b[WARP_K / 16][WARP_N / 16][4];
};

// The addresses at which a lane reads its warp's Fragments in shared memory: of A, one for every 16 columns of the
// tile; of B, one for every 16 columns of the warp. All others are constant distances away from these.
template <class TileA, class TileB, int WARP_M, int WARP_N> struct FragmentReader {
    unsigned a[TileA::COLUMNS / 16], b[WARP_N / 16];

    INLINE FragmentReader(const half *tile_a, const half *tile_b, const Place &place) {
#pragma unroll
        for (int k = 0; k < TileA::COLUMNS / 16; k++) {
            a[k] = shared_address(TileA::at(tile_a, place.warp_row + place.lane % 16, k * 16 + place.lane / 16 * 8));
        }
#pragma unroll
        for (int j = 0; j < WARP_N / 16; j++) {
            b[j] = shared_address(TileB::at(tile_b, place.lane % 16, place.warp_column + j * 16 + place.lane / 16 * 8));
        }
    }

    // Reads the Fragments of one step, from the tiles in slot number `slot` where there are several.
    template <int WARP_K> INLINE void read(Fragments<WARP_M, WARP_N, WARP_K> &to, int step, int slot = 0) const {
        const unsigned slot_a = slot * TileA::ROWS * TileA::COLUMNS * 2; // bytes
        const unsigned slot_b = slot * TileB::ROWS * TileB::COLUMNS * 2;
#pragma unroll
        for (int l = 0; l < WARP_K / 16; l++) {
            const int k = step * (WARP_K / 16) + l;
#pragma unroll
            for (int i = 0; i < WARP_M / 16; i++) {
                ldmatrix_4(to.a[l][i], slot_a + a[k] + i * 16 * TileA::COLUMNS * 2);
            }
#pragma unroll
            for (int j = 0; j < WARP_N / 16; j++) {
                ldmatrix_4_transposed(to.b[l][j], slot_b + b[j] + k * 16 * TileB::COLUMNS * 2);
            }
        }
    }
};

// sum += a b, by mma of depth MMA_K, 8 or 16.
template <int MMA_K, int WARP_M, int WARP_N, int WARP_K>
INLINE void multiply_fragments(float (&sum)[WARP_M / 16][WARP_N / 8][4], const Fragments<WARP_M, WARP_N, WARP_K> &in) {
#pragma unroll
    for (int k = 0; k < WARP_K / MMA_K; k++) {
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++) {
#pragma unroll
            for (int j = 0; j < WARP_N / 8; j++) {
                const int l = k * MMA_K / 16, upper = j % 2 * 2;
                const unsigned(&a)[4] = in.a[l][i], (&b)[4] = in.b[l][j / 2];
                if (MMA_K == 16) {
                    mma_16x8x16(sum[i][j], a, b[upper], b[upper + 1]);
                } else {
                    mma_16x8x8(sum[i][j], a[k % 2 * 2], a[k % 2 * 2 + 1], b[upper + k % 2]);
                }
            }
        }
    }
}

// ---- Results ----

// Writes one of a lane's rows, alpha sum + beta c, in TILES mma tiles side by side: of each, sum[e] and its neighbour.
// The first belongs to *c, with `columns` from there to the end of the row. Neighbours are written at once where pairs
// are `aligned`. At beta = 0 nothing is read.
template <int TILES>
INLINE void write_row(float *c, const float (&sum)[TILES][4], int e, float alpha, float beta, int columns,
                      bool aligned) {
    if (aligned) {
        float2 old[TILES] = {};
        if (beta != 0.0f) {
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                if (j * 8 < columns) {
                    old[j] = *(const float2 *)(c + j * 8);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            if (j * 8 < columns) {
                const float x = alpha * sum[j][e] + beta * old[j].x, y = alpha * sum[j][e + 1] + beta * old[j].y;
                __stcs((float2 *)(c + j * 8), make_float2(x, y)); // not to be read again soon: A and B are
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < 2 * TILES; j++) {
            const int column = j / 2 * 8 + j % 2;
            if (column < columns) {
                c[column] = SCALED(alpha, sum[j / 2][e + j % 2], beta, c[column]);
            }
        }
    }
}

// Writes a warp's sums, alpha sum + beta C, to the M x N matrix C.
template <int TILES_M, int TILES_N>
INLINE void write_tiles(float *C, const float (&sum)[TILES_M][TILES_N][4], const Place &place, int M, int N,
                        float alpha, float beta) {
    const bool paired = N % 2 == 0 && (size_t)C % 8 == 0;
    const int column = place.block_column + place.warp_column + place.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2 * TILES_M; i++) {
        const int row = place.block_row + place.warp_row + i * 8 + place.lane / 4;
        if (row < M) {
            write_row(C + (size_t)row * N + column, sum[i / 2], i % 2 * 2, alpha, beta, N - column, paired);
        }
    }
}

#endif
