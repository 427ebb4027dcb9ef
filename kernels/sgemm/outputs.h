// What a thread does with its outputs while they are in registers: ROWS x COLUMNS of them, which the file that includes
// this one defines first.
#ifndef OUTPUTS_H
#define OUTPUTS_H

#include "inline.h"

INLINE void clear(float (*sum)[COLUMNS]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            sum[i][j] = 0.0f;
        }
    }
}

// sum += a b, where a is a column of ROWS values and b a row of COLUMNS.
INLINE void multiply(float (*sum)[COLUMNS], const float *a, const float *b) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            sum[i][j] += a[i] * b[j];
        }
    }
}

#endif
