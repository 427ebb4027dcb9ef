// counts[value] += how often the byte `value` occurs in x, for each of the 256 values.
//
// A byte per element: memory sets the bound, if the counting keeps up. A block counts in shared memory, and adds its
// 256 counts to those in global memory at the end. Tuned are the blocks, which each take many bytes, the threads, the
// bytes per load, the loads of a thread that are under way at once, and the copies of the counts: see histogram.h.
#include "portable.h"
#include "histogram.h"

KERNEL LAUNCH_BOUNDS(threads, 1)
void histogram(GLOBAL int *counts, GLOBAL const unsigned char *__restrict__ x, int n) {
    __shared__ int shared[BINS * copies];

    count_bytes(shared, x, n);
    for (int value = threadIdx.x; value < BINS; value += threads) {
        const int sum = counted(shared, value);
        if (sum > 0) {
            GLOBAL_ADD(&counts[value], sum);
        }
    }
}
