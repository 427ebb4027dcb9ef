// y = gamma * (x - mean) / sqrt(variance + eps) + beta, for each row of a matrix.
//
// A row is read and written once: 8 bytes per element, and nothing but memory counts; gamma and beta stay in the cache.
// The variance is summed around the mean, in a pass of its own: sums of x and x^2 in one pass would cancel. Tuned are
// the threads that share a row, the rows of a block, the floats per load, and whether the row stays in registers
// between the passes (keep = 1) or is read again.
#include "portable.h"
#include "rows.h"

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void layer_norm(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x,
                GLOBAL const float *__restrict__ gamma, GLOBAL const float *__restrict__ beta, int rows, float eps) {
    __shared__ float shared[THREADS], more_shared[THREADS]; // one for each reduction: see reduce.h

    const int thread = threadIdx.x, lane = thread % lanes;
    const int row = blockIdx.x * rows_per_block + thread / lanes;
    const int length = row < rows ? row_length : 0;
    x += (size_t)row * row_length;
    y += (size_t)row * row_length;

    Pack kept[KEPT];
    keep_row(kept, x, lane, length, 0.0f);
    const float mean = sum_row(kept, x, lane, length, 0.0f, 0, shared) / row_length;
    const float squares = sum_row(kept, x, lane, length, mean, 1, more_shared);
    const float scale = 1.0f / sqrt(squares / row_length + eps);

#pragma unroll UNROLL
    for (int i = 0; i < PACKS; i++) {
        Pack out = keep ? kept[keep ? i : 0] : load_pack(x, i, lane, length, 0.0f);
        const Pack factor = load_pack(gamma, i, lane, length, 0.0f), shift = load_pack(beta, i, lane, length, 0.0f);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            out.at[v] = (out.at[v] - mean) * scale * factor.at[v] + shift.at[v];
        }
        store_pack(y, out, i, lane, length);
    }
}
