// y = A x, where A is sparse: the columns and values of row i stand at starts[i] to starts[i + 1] - 1 (CSR).
//
// 8 bytes per entry and a read of x that may lie anywhere: memory sets the bound. `lanes` threads share a row and read
// neighbouring entries of it. One lane per row reads its entries one by one, which no other thread of the warp has
// near; more lanes than a row has entries idle. Tuned are the lanes, the rows that a block takes, the entries of a lane
// that are under way at once, and the threads.
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
#ifndef rounds
#define rounds 1 // rows that a lane takes one after the other
#endif

#define THREADS threads
#define GROUPS (threads / lanes)

#include "launch_bounds.h"
#include "reduce.h"

KERNEL LAUNCH_BOUNDS(threads, 1)
void spmv(GLOBAL float *__restrict__ y, GLOBAL const int *__restrict__ starts, GLOBAL const int *__restrict__ columns,
          GLOBAL const float *__restrict__ values, GLOBAL const float *__restrict__ x, int rows) {
    __shared__ float shared[threads];

    const int thread = threadIdx.x, lane = thread % lanes;
    for (int round = 0; round < rounds; round++) {
        const int row = (blockIdx.x * rounds + round) * GROUPS + thread / lanes;
        const int end = row < rows ? starts[row + 1] : 0;
        float sum = 0.0f;
#pragma unroll unroll
        for (int i = (row < rows ? starts[row] : 0) + lane; i < end; i += lanes) {
            sum += values[i] * x[columns[i]];
        }
        if (lanes > 1) {
            sum = sum_across(sum, shared);
        }
        if (row < rows && lane == 0) {
            y[row] = sum;
        }
    }
}
