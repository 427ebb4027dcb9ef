// counts[value] += how often the byte `value` occurs in x, for each of the 256 values.
//
// A byte per element: memory sets the bound, if the counting keeps up. A block counts in shared memory, and adds its
// 256 counts to those in global memory at the end. Tuned are the blocks, which each take many bytes, the threads, the
// bytes per load, and the copies of the counts: threads that meet the same value at once wait for one another, unless
// they count in copies of their own. Neighbouring threads use neighbouring copies, which lie together (spread = 0), so
// that 32 copies are in 32 banks; or each warp uses one, which lies apart (spread = 1).
#include "portable.h"
#include "launch_bounds.h"
#include "pack.h"

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

#define BINS 256
#define COUNT(copy, value) (spread ? (copy) * BINS + (value) : (value) * copies + (copy))

#ifdef __OPENCL_VERSION__
#define SHARED_ADD(address, number) atomic_add((volatile __local int *)(address), number)
#define GLOBAL_ADD(address, number) atomic_add((volatile __global int *)(address), number)
#else
#define SHARED_ADD(address, number) atomicAdd(address, number)
#define GLOBAL_ADD(address, number) atomicAdd(address, number)
#endif

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

KERNEL LAUNCH_BOUNDS(threads, 1)
void histogram(GLOBAL int *counts, GLOBAL const unsigned char *__restrict__ x, int n) {
    __shared__ int shared[BINS * copies];

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

    for (int value = thread; value < BINS; value += threads) {
        int sum = 0;
        for (int c = 0; c < copies; c++) {
            sum += shared[COUNT(c, value)];
        }
        if (sum > 0) {
            GLOBAL_ADD(&counts[value], sum);
        }
    }
}
