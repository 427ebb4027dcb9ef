// counts[value] = how often the byte `value` occurs in x, for each of the 256 values, in two steps: count_parts adds
// the counts of each block to one of several histograms in scratch memory, and add_parts adds these up.
//
// A byte per element: memory sets the bound, if the counting keeps up. With one part, all blocks add to the same 256
// numbers at the end; with many, none waits for another, and the second step has more to add. The parts are 0 before
// each launch, so that the counts need not be. Tuned are the parts, and what histogram.cu tunes: see histogram.h.
#include "portable.h"
#include "histogram.h"

#ifndef parts
#define parts 16
#endif

KERNEL LAUNCH_BOUNDS(threads, 1)
void count_parts(GLOBAL int *part, GLOBAL const unsigned char *__restrict__ x, int n) {
    __shared__ int shared[BINS * copies];

    count_bytes(shared, x, n);
    part += blockIdx.x % parts * BINS;
    for (int value = threadIdx.x; value < BINS; value += threads) {
        const int sum = counted(shared, value);
        if (sum > 0) {
            GLOBAL_ADD(&part[value], sum);
        }
    }
}

// One block, a thread for each value.
KERNEL LAUNCH_BOUNDS(BINS, 1)
void add_parts(GLOBAL int *__restrict__ counts, GLOBAL const int *__restrict__ part) {
    int sum = 0;
#pragma unroll 8
    for (int i = 0; i < parts; i++) {
        sum += part[i * BINS + threadIdx.x];
    }
    counts[threadIdx.x] = sum;
}
