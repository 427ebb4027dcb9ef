// y = gamma * x / sqrt(mean of x^2 + eps), for each row of a matrix.
//
// A row is read and written once: 8 bytes per element, and nothing but memory counts; gamma stays in the cache. Tuned
// are the threads that share a row, the rows of a block, the floats per load, and whether the row stays in registers
// between the sum and the product (keep = 1) or is read again.
#include "portable.h"
#include "rows.h"

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void rms_norm(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, GLOBAL const float *__restrict__ gamma,
              int rows, float eps) {
    __shared__ float shared[THREADS];

    const int thread = threadIdx.x, lane = thread % lanes;
    const int row = blockIdx.x * rows_per_block + thread / lanes;
    const int length = row < rows ? row_length : 0;
    x += (size_t)row * row_length;
    y += (size_t)row * row_length;

    Pack kept[KEPT];
    keep_row(kept, x, lane, length, 0.0f);
    const float squares = sum_row(kept, x, lane, length, 0.0f, 1, shared);
    const float scale = 1.0f / sqrt(squares / row_length + eps);

#pragma unroll UNROLL
    for (int i = 0; i < PACKS; i++) {
        Pack out = keep ? kept[keep ? i : 0] : load_pack(x, i, lane, length, 0.0f);
        const Pack factor = load_pack(gamma, i, lane, length, 0.0f);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            out.at[v] *= scale * factor.at[v];
        }
        store_pack(y, out, i, lane, length);
    }
}
