// What 09 and 10 do with tiles and outputs, float by float. The file that includes this one defines its knobs first,
// and ROWS, COLUMNS, ROW and COLUMN.
#ifndef FLOATS_H
#define FLOATS_H

#include "inline.h"

// Read what a thread multiplies at one k: the values of its rows from `row` on and of its columns from `column` on.
INLINE void read_fragments(float *fragment_a, float *fragment_b, LOCAL float (*tile_a)[BK], LOCAL float (*tile_b)[BN],
                           int row, int column, int k) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        fragment_a[i] = tile_a[row + ROW(i)][k];
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        fragment_b[j] = tile_b[k][column + COLUMN(j)];
    }
}

// Write a thread's outputs, alpha sum + beta C.
INLINE void write_outputs(GLOBAL float *C, float (*sum)[COLUMNS], int block_row, int block_column, int thread_row,
                          int thread_column, int M, int N, float alpha, float beta) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const int row = block_row + thread_row + ROW(i), column = block_column + thread_column + COLUMN(j);
            if (row < M && column < N) {
                GLOBAL float *c = C + (size_t)row * N + column;
                *c = SCALED(alpha, sum[i][j], beta, *c);
            }
        }
    }
}

#endif
