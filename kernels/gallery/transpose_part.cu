// y[c][r] = x[r][c], where both may be parts of larger matrices: rows of x lie ldx elements apart, rows of y ldy.
//
// As in transpose.cu, nothing but memory counts. A block reads a square tile along the rows of x, keeps it in shared
// memory, and writes it along the rows of y. With padding = 1, a line of the tile has one float more, so that a column of
// it lies in as many banks as it has elements. Whoever calls it with whole matrices passes ldx = w and ldy = h. Tuned are
// the tile, the rows of threads, and the padding.
#include "portable.h"
#include "launch_bounds.h"

#ifndef tile
#define tile 32
#endif
#ifndef thread_rows
#define thread_rows 8 // of a block, each as wide as the tile; must divide the tile
#endif
#ifndef padding
#define padding 1
#endif

#define THREADS (tile * thread_rows)

#if tile % thread_rows != 0
#error "the rows of threads must copy the tile in whole rounds"
#endif

KERNEL LAUNCH_BOUNDS(THREADS, 1)
void transpose_part(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, int h, int w, int ldy, int ldx) {
    __shared__ float lines[tile][tile + padding];

    const int first_column = blockIdx.x * tile, first_row = blockIdx.y * tile;
    const int thread_column = threadIdx.x % tile, thread_row = threadIdx.x / tile;
#pragma unroll
    for (int i = 0; i < tile / thread_rows; i++) {
        const int line = i * thread_rows + thread_row;
        const int row = first_row + line, column = first_column + thread_column;
        if (row < h && column < w) {
            lines[line][thread_column] = x[(size_t)row * ldx + column];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile / thread_rows; i++) {
        const int line = i * thread_rows + thread_row;
        const int column = first_column + line, row = first_row + thread_column;
        if (row < h && column < w) {
            y[(size_t)column * ldy + row] = lines[thread_column][line];
        }
    }
}
