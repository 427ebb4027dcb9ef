// total = the sum of x, in two steps: sum_blocks leaves one partial sum per block, and sum_last adds them up.
//
// 4 bytes per addition: nothing but memory counts. A block takes tiles in turns, so that the number of blocks is that
// which fills the device, whatever n is. Tuned are the blocks, the threads, the bytes that a thread has under way
// (vector x items), the type of the partial sums, and how a block adds up its threads: by shuffles within a warp (CUDA)
// or by a tree in shared memory. Each thread adds to `vector` sums of its own, none of which waits for another.
#include "portable.h"

#define float32 float // the words of `partial`
#define float64 double

#ifndef partial
#define partial float32
#endif
#ifndef blocks
#define blocks 528
#endif
#ifndef shuffles
#define shuffles 0 // 1: shuffles; CUDA alone
#endif

#include "flat.h"

PACK(Pack, float, vector);

// The sum over all threads of the block. Thread 0 has it.
INLINE partial sum_of_block(partial value, LOCAL partial *shared) {
    const int thread = threadIdx.x;
#if shuffles
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value += __shfl_down_sync(0xffffffff, value, step);
    }
    if (thread % 32 == 0) {
        shared[thread / 32] = value;
    }
    __syncthreads();
    if (thread < 32) {
        value = thread < threads / 32 ? shared[thread] : 0;
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            value += __shfl_down_sync(0xffffffff, value, step);
        }
    }
    return value;
#else
    shared[thread] = value;
    __syncthreads();
    for (int step = threads / 2; step > 0; step /= 2) {
        if (thread < step) {
            shared[thread] += shared[thread + step];
        }
        __syncthreads();
    }
    return shared[0];
#endif
}

// sum += a whole tile.
INLINE void add_tile(partial *sum, GLOBAL const float *x) {
    Pack loaded[items];
#pragma unroll
    for (int i = 0; i < items; i++) {
        loaded[i] = LOAD(Pack, x + pack_at(i));
    }
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            sum[v] += loaded[i].at[v];
        }
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void sum_blocks(GLOBAL partial *__restrict__ partials, GLOBAL const float *__restrict__ x, int n) {
    __shared__ partial shared[threads];

    partial sum[vector];
#pragma unroll
    for (int v = 0; v < vector; v++) {
        sum[v] = 0;
    }
    for (size_t tile = (size_t)blockIdx.x * TILE; tile < n; tile += (size_t)gridDim.x * TILE) {
        if (tile + TILE <= n) {
            add_tile(sum, x + tile);
        } else {
            for (size_t i = tile + threadIdx.x; i < n; i += threads) {
                sum[0] += x[i];
            }
        }
    }
#pragma unroll
    for (int v = 1; v < vector; v++) {
        sum[0] += sum[v];
    }
    const partial all = sum_of_block(sum[0], shared);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = all;
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void sum_last(GLOBAL float *__restrict__ total, GLOBAL const partial *__restrict__ partials) {
    __shared__ partial shared[threads];

    partial sum = 0;
    for (int i = threadIdx.x; i < blocks; i += threads) {
        sum += partials[i];
    }
    sum = sum_of_block(sum, shared);
    if (threadIdx.x == 0) {
        total[0] = sum;
    }
}
