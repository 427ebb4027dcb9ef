// Counts of bytes in shared memory: what both histograms do alike.
//
// Threads that meet the same value at once wait for one another, unless they count in copies of their own. Neighbouring
// threads use neighbouring copies, which lie together (spread = 0), so that 32 copies are in 32 banks; or each warp
// uses one, which lies apart (spread = 1).
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#ifndef threads
#define threads 256
#endif
#ifndef words
#define words 1 // of 4 bytes, per load
#endif
#ifndef copies
#define copies 1 // of the counts of a block
#endif
#ifndef spread
#define spread 0 // 1: a warp has a copy; 0: neighbouring threads have several
#endif
#ifndef unroll
#define unroll 1 // loads of a thread that are under way at once
#endif

#include "atomic.h"
#include "launch_bounds.h"
#include "pack.h"

#define BINS 256
#define COUNT(copy, value) (spread ? (copy) * BINS + (value) : (value) * copies + (copy))

PACK(Words, unsigned, words);

INLINE void count_words(LOCAL int *shared, Words pack, int copy) {
#pragma unroll
    for (int word = 0; word < words; word++) {
#pragma unroll
        for (int shift = 0; shift < 32; shift += 8) {
            SHARED_ADD(&shared[COUNT(copy, pack.at[word] >> shift & 255)], 1);
        }
    }
}

// Count the bytes of x that fall to this block. `shared` has BINS * copies numbers.
INLINE void count_bytes(LOCAL int *shared, GLOBAL const unsigned char *x, int n) {
    const int thread = threadIdx.x, copy = (spread ? thread / 32 : thread) % copies;
    for (int i = thread; i < BINS * copies; i += threads) {
        shared[i] = 0;
    }
    __syncthreads();

    // Whole packs, `unroll` at a time, then the bytes that are left.
    GLOBAL const Words *packs = (GLOBAL const Words *)x;
    const size_t count = n / sizeof(Words), stride = (size_t)gridDim.x * threads;
    for (size_t first = (size_t)blockIdx.x * threads + thread; first < count; first += unroll * stride) {
        Words loaded[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            if (first + u * stride < count) {
                loaded[u] = packs[first + u * stride];
            }
        }
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            if (first + u * stride < count) {
                count_words(shared, loaded[u], copy);
            }
        }
    }
    for (size_t i = count * sizeof(Words) + (size_t)blockIdx.x * threads + thread; i < n; i += stride) {
        SHARED_ADD(&shared[COUNT(copy, x[i])], 1);
    }
    __syncthreads();
}

// How often the block has met a value.
INLINE int counted(LOCAL const int *shared, int value) {
    int sum = 0;
    for (int copy = 0; copy < copies; copy++) {
        sum += shared[COUNT(copy, value)];
    }
    return sum;
}

#endif
