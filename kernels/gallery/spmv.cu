// y = A x, where A is sparse: the columns and values of row i stand at starts[i] to starts[i + 1] - 1 (CSR).
//
// 8 bytes per entry and a read of x that may lie anywhere: memory sets the bound. `lanes` threads share a row and read
// neighbouring entries of it. One lane per row reads its entries one by one, which no other thread of the warp has
// near; more lanes than a row has entries idle. Entries are read once, x often: where loads tell the cache so, more of x
// stays there. Tuned are the lanes, the entries per load, the rows that a block takes, the loads of a lane that are
// under way at once, whether the cache is told, and the threads.
#include "portable.h"

#ifndef lanes
#define lanes 1 // threads that share a row
#endif
#ifndef threads
#define threads 256
#endif
#ifndef unroll
#define unroll 1
#endif
#ifndef vector
#define vector 1 // entries per load
#endif
#ifndef rounds
#define rounds 1 // rows that a lane takes one after the other
#endif

#define THREADS threads
#define GROUPS (threads / lanes)

#include "launch_bounds.h"
#include "pack.h"
#include "reduce.h"
#include "stream.h"

PACK(Columns, int, vector);
PACK(Values, float, vector);

KERNEL LAUNCH_BOUNDS(threads, 1)
void spmv(GLOBAL float *__restrict__ y, GLOBAL const int *__restrict__ starts, GLOBAL const int *__restrict__ columns,
          GLOBAL const float *__restrict__ values, GLOBAL const float *__restrict__ x, int rows) {
    __shared__ float shared[threads];

    const int thread = threadIdx.x, lane = thread % lanes;
    for (int round = 0; round < rounds; round++) {
        const int row = (blockIdx.x * rounds + round) * GROUPS + thread / lanes;
        const int start = row < rows ? starts[row] : 0, end = row < rows ? starts[row + 1] : 0;
        float sum = 0.0f;
#pragma unroll unroll
        for (int i = start / vector * vector + lane * vector; i < end; i += lanes * vector) {
            if (i >= start && i + vector <= end) {
                const Columns column = LOAD(Columns, columns + i);
                const Values value = LOAD(Values, values + i);
#pragma unroll
                for (int v = 0; v < vector; v++) {
                    sum += value.at[v] * x[column.at[v]];
                }
            } else { // a row begins and ends anywhere
                for (int v = max(start - i, 0); v < min(end - i, vector); v++) {
                    sum += values[i + v] * x[columns[i + v]];
                }
            }
        }
        if (lanes > 1) {
            sum = sum_across(sum, shared);
        }
        if (row < rows && lane == 0) {
            y[row] = sum;
        }
    }
}
