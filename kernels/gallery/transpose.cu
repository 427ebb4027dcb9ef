// y[c][r] = x[r][c]: the transpose of a matrix of h rows and w columns.
//
// 8 bytes per element: nothing but memory counts, and it wants both sides in whole lines. A block reads a tile of
// tile_rows x tile_columns along the rows of x, keeps it transposed in shared memory, and writes it along the rows of
// y. A thread reads a patch of vector x vector elements and transposes it in registers, so that global and shared
// memory are read and written in packs of `vector`. Neighbouring threads hand in packs of lines that are `vector`
// apart, which would lie in few of the 32 banks: with swizzled = 1, packs of a line change places, by the number of the
// patch's line. Tuned are the tile, the threads, the floats per load and store, the swizzle, and what the cache is told
// (stream.h).
#include "portable.h"
#include "launch_bounds.h"
#include "pack.h"
#include "stream.h"

#ifndef tile_rows
#define tile_rows 32
#endif
#ifndef tile_columns
#define tile_columns 32
#endif
#ifndef threads
#define threads 256
#endif
#ifndef vector
#define vector 1 // floats per load and store; must divide both extents
#endif
#ifndef swizzled
#define swizzled 1
#endif

#define ROW_PACKS (tile_columns / vector) // of a row of the tile
#define COLUMN_PACKS (tile_rows / vector) // of a column
#define PATCHES (ROW_PACKS * COLUMN_PACKS / threads) // of a thread

#if tile_rows * tile_columns % (vector * vector * threads) != 0
#error "the threads must copy the tile in whole rounds of patches"
#endif

PACK(Pack, float, vector);

// Where pack `i` of a line of the transposed tile lies.
INLINE int place_of(int line, int i) { return swizzled ? i ^ line / vector % COLUMN_PACKS : i; }

KERNEL LAUNCH_BOUNDS(threads, 1)
void transpose(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, int h, int w) {
    __shared__ Pack tile[tile_columns][COLUMN_PACKS];

    const int first_column = blockIdx.x * tile_columns, first_row = blockIdx.y * tile_rows;
    Pack patch[PATCHES][vector];
#pragma unroll
    for (int i = 0; i < PATCHES; i++) {
        const int number = i * threads + threadIdx.x;
        const int row = number / ROW_PACKS * vector, column = number % ROW_PACKS * vector;
        if (first_row + row < h && first_column + column < w) {
#pragma unroll
            for (int v = 0; v < vector; v++) {
                patch[i][v] = LOAD(Pack, x + (size_t)(first_row + row + v) * w + first_column + column);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < PATCHES; i++) {
        const int number = i * threads + threadIdx.x;
        const int row_pack = number / ROW_PACKS, column = number % ROW_PACKS * vector;
#pragma unroll
        for (int line = 0; line < vector; line++) {
            Pack pack;
#pragma unroll
            for (int v = 0; v < vector; v++) {
                pack.at[v] = patch[i][v].at[line];
            }
            tile[column + line][place_of(column + line, row_pack)] = pack;
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < PATCHES * vector; i++) {
        const int number = i * threads + threadIdx.x;
        const int line = number / COLUMN_PACKS, row_pack = number % COLUMN_PACKS;
        const int column = first_column + line, row = first_row + row_pack * vector;
        if (row < h && column < w) {
            STORE(Pack, y + (size_t)column * h + row, tile[line][place_of(line, row_pack)]);
        }
    }
}
