// y = A x, where A is sparse: the columns and values of row i stand at starts[i] to starts[i + 1] - 1 (CSR).
//
// 8 bytes per entry and a read of x that may lie anywhere: memory sets the bound. Lanes that read the entries of a row of
// their own idle where it has few. So a block takes `block_rows` rows, whose entries lie together, and reads them in
// chunks, whatever row they are of. It leaves the products in shared memory; then `lanes` threads per row add up those of
// the row. All loads of a chunk are under way at once. Idea: CSR-Stream, Greathouse and Daga (2014). Tuned are the rows
// and the threads of a block, the chunk, the lanes, and whether loads tell the cache that nobody reads an entry again.
#include "portable.h"

#ifndef block_rows
#define block_rows 128
#endif
#ifndef lanes
#define lanes 2 // threads that share a row
#endif
#ifndef threads
#define threads 256
#endif
#ifndef items
#define items 4 // loads of a thread per chunk
#endif
#ifndef vector
#define vector 1 // entries per load
#endif

#define THREADS threads
#define GROUPS (threads / lanes)
#define ROWS_OF_GROUP (block_rows / GROUPS)
#define CHUNK (threads * items * vector)

#if block_rows % GROUPS != 0
#error "groups of lanes must take whole rows: threads / lanes must divide block_rows"
#endif

#include "launch_bounds.h"
#include "pack.h"
#include "reduce.h"
#include "stream.h"

PACK(Columns, int, vector);
PACK(Values, float, vector);

// Leave the products of the entries from `chunk` to `end` in shared memory.
INLINE void multiply_chunk(LOCAL float *products, GLOBAL const int *columns, GLOBAL const float *values,
                           GLOBAL const float *x, int chunk, int end) {
#pragma unroll
    for (int item = 0; item < items; item++) {
        const int at = (item * threads + (int)threadIdx.x) * vector, i = chunk + at;
        if (i + vector <= end) {
            const Columns column = LOAD(Columns, columns + i);
            const Values value = LOAD(Values, values + i);
#pragma unroll
            for (int v = 0; v < vector; v++) {
                products[at + v] = value.at[v] * x[column.at[v]];
            }
        } else {
            for (int v = 0; v < end - i; v++) {
                products[at + v] = values[i + v] * x[columns[i + v]];
            }
        }
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void spmv(GLOBAL float *__restrict__ y, GLOBAL const int *__restrict__ starts, GLOBAL const int *__restrict__ columns,
          GLOBAL const float *__restrict__ values, GLOBAL const float *__restrict__ x, int rows) {
    __shared__ float products[CHUNK], shared[threads];

    const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
    const int first = blockIdx.x * block_rows, last = min(first + block_rows, rows), end = starts[last];
    float sums[ROWS_OF_GROUP];
#pragma unroll
    for (int r = 0; r < ROWS_OF_GROUP; r++) {
        sums[r] = 0.0f;
    }
    // The first chunk begins at a multiple of `vector`, perhaps with entries of the row before.
    for (int chunk = starts[first] / vector * vector; chunk < end; chunk += CHUNK) {
        multiply_chunk(products, columns, values, x, chunk, end);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS_OF_GROUP; r++) {
            const int row = min(first + r * GROUPS + group, last - 1);
            const int to = min(starts[row + 1] - chunk, CHUNK);
            for (int i = max(starts[row] - chunk, 0) + lane; i < to; i += lanes) {
                sums[r] += products[i];
            }
        }
        __syncthreads(); // nobody may write the next products while another thread still adds these
    }
#pragma unroll
    for (int r = 0; r < ROWS_OF_GROUP; r++) {
        const int row = first + r * GROUPS + group;
        const float sum = lanes > 1 ? sum_across(sums[r], shared) : sums[r];
        if (row < last && lane == 0) {
            y[row] = sum;
        }
    }
}
