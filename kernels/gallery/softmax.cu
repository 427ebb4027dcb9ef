// y[i] = exp(x[i]) / sum of exp(x), for each row of a matrix, where the largest x of the row is subtracted first.
//
// A row is read and written once: 8 bytes per element, and nothing but memory counts. Tuned are the threads that share
// a row, the rows of a block and the floats per load. keep = 1 holds the row in registers: two reductions, one read.
// keep = 0 takes rows of any length: one pass finds the maximum and the sum of exponentials together, scaling the sum
// when it meets a larger x; a second pass reads the row again, from the cache at best, and writes. fast = 1 takes the
// exponential of the hardware, which leaves more time to loads.
#include "portable.h"
#include "rows.h"

#ifndef fast
#define fast 0
#endif

#if !fast
#define EXP exp
#elif defined __OPENCL_VERSION__
#define EXP native_exp
#else
#define EXP __expf
#endif

// The maximum of a row, and the sum of exp(x - maximum), of a row that is kept; `kept` becomes exp(x - maximum).
INLINE float2 kept_sum(Pack *kept, LOCAL float *shared, LOCAL float *more_shared) {
    float2 result;
    float largest = LOWEST, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            largest = fmax(largest, kept[i].at[v]);
        }
    }
    largest = largest_across(largest, shared);
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            kept[i].at[v] = EXP(kept[i].at[v] - largest);
            sum += kept[i].at[v];
        }
    }
    result.x = largest;
    result.y = sum_across(sum, more_shared);
    return result;
}

// The same of a row that is read.
INLINE float2 read_sum(GLOBAL const float *row, int lane, int length, LOCAL float *shared, LOCAL float *more_shared) {
    float2 result;
    float largest = LOWEST, sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < PACKS; i++) {
        const Pack x = load_pack(row, i, lane, length, LOWEST);
        float next = largest;
#pragma unroll
        for (int v = 0; v < vector; v++) {
            next = fmax(next, x.at[v]);
        }
        if ((i * lanes + lane) * vector < length) {
            sum *= EXP(largest - next);
#pragma unroll
            for (int v = 0; v < vector; v++) {
                sum += EXP(x.at[v] - next);
            }
        }
        largest = next;
    }
    result.x = largest_across(largest, shared);
    result.y = sum_across(sum * EXP(largest - result.x), more_shared);
    return result;
}

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void softmax(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, int rows) {
    __shared__ float shared[THREADS], more_shared[THREADS]; // one for each reduction: see reduce.h

    const int thread = threadIdx.x, lane = thread % lanes;
    const int row = blockIdx.x * rows_per_block + thread / lanes;
    const int length = row < rows ? row_length : 0;
    x += (size_t)row * row_length;
    y += (size_t)row * row_length;

    Pack kept[KEPT];
    keep_row(kept, x, lane, length, LOWEST);
    const float2 found = keep ? kept_sum(kept, shared, more_shared) : read_sum(x, lane, length, shared, more_shared);
    const float scale = 1.0f / found.y;

#pragma unroll UNROLL
    for (int i = 0; i < PACKS; i++) {
        Pack out = keep ? kept[keep ? i : 0] : load_pack(x, i, lane, length, LOWEST);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            out.at[v] = (keep ? out.at[v] : EXP(out.at[v] - found.x)) * scale;
        }
        store_pack(y, out, i, lane, length);
    }
}
