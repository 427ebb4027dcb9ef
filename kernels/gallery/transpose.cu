// y[c][r] = x[r][c]: the transpose of a matrix of h rows and w columns.
//
// 8 bytes per element: nothing but memory counts, and it wants both sides in whole lines. A block reads a tile of
// tile_rows x tile_columns along the rows of x, keeps it in shared memory, and writes it along the rows of y.
// Tuned are the tile, the threads, the floats per load and store, and the padding: threads that write a row of y
// read a column of the tile, and without `pad` its elements would lie in few of the 32 banks.
#include "portable.h"
#include "launch_bounds.h"
#include "pack.h"

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
#ifndef pad
#define pad 1 // floats behind each row of the tile
#endif

#define ROW_PACKS (tile_columns / vector) // of a row of the tile
#define COLUMN_PACKS (tile_rows / vector) // of a column
#define ROUNDS (tile_rows * tile_columns / vector / threads)

#if tile_rows * tile_columns % (vector * threads) != 0
#error "the threads must copy the tile in whole rounds"
#endif

PACK(Pack, float, vector);

KERNEL LAUNCH_BOUNDS(threads, 1)
void transpose(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, int h, int w) {
    __shared__ float tile[tile_rows][tile_columns + pad];

    const int first_column = blockIdx.x * tile_columns, first_row = blockIdx.y * tile_rows;
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        const int pack = i * threads + threadIdx.x, row = pack / ROW_PACKS, column = pack % ROW_PACKS * vector;
        if (first_row + row < h && first_column + column < w) {
            const Pack values = *(GLOBAL const Pack *)(x + (size_t)(first_row + row) * w + first_column + column);
#pragma unroll
            for (int v = 0; v < vector; v++) {
                tile[row][column + v] = values.at[v];
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        const int pack = i * threads + threadIdx.x, column = pack / COLUMN_PACKS, row = pack % COLUMN_PACKS * vector;
        if (first_row + row < h && first_column + column < w) {
            Pack values;
#pragma unroll
            for (int v = 0; v < vector; v++) {
                values.at[v] = tile[row + v][column];
            }
            *(GLOBAL Pack *)(y + (size_t)(first_column + column) * h + first_row + row) = values;
        }
    }
}
