// y = x - mean of x, for each row of a matrix: the filter that takes the offset off each line of an image.
//
// A row is read and written once: 8 bytes per element, and nothing but memory counts. Tuned are the threads that share
// a row, the rows of a block, the floats per load, and whether the row stays in registers between the sum and the
// difference (keep = 1) or is read again.
#include "portable.h"
#include "rows.h"

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void zero_mean(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, int rows) {
    __shared__ float shared[THREADS];

    const int thread = threadIdx.x, lane = thread % lanes;
    const int row = blockIdx.x * rows_per_block + thread / lanes;
    const int length = row < rows ? row_length : 0;
    x += (size_t)row * row_length;
    y += (size_t)row * row_length;

    Pack kept[KEPT];
    keep_row(kept, x, lane, length, 0.0f);
    const float mean = sum_row(kept, x, lane, length, 0.0f, 0, shared) / row_length;

#pragma unroll UNROLL
    for (int i = 0; i < PACKS; i++) {
        Pack out = keep ? kept[keep ? i : 0] : load_pack(x, i, lane, length, 0.0f);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            out.at[v] -= mean;
        }
        store_pack(y, out, i, lane, length);
    }
}
