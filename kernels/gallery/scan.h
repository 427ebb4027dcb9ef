// The inclusive scan of a tile that a block holds in registers, in CUDA and in OpenCL C.
//
// A tile is `threads` x `items` packs of `vector` floats. Each warp has a segment of it, 32 x `items` packs: its lanes
// load neighbouring packs, so that no element has to be moved to another thread before the scan. A warp scans the packs
// of one round at a time, by shuffles in CUDA and through shared memory in OpenCL C, which has none.
#ifndef SCAN_H
#define SCAN_H

#ifndef threads
#define threads 256
#endif
#ifndef items
#define items 4 // packs of a thread
#endif
#ifndef vector
#define vector 1 // floats per load and store
#endif

#define WARPS (threads / 32)
#define SEGMENT (32 * items * vector)
#define TILE (WARPS * SEGMENT)

#if threads % 32 != 0
#error "a block consists of whole warps"
#endif

#include "launch_bounds.h"
#include "pack.h"
#include "stream.h"

PACK(Pack, float, vector);

// What a scan knows of a thread, or of a warp: the sum before it, and the sum of all.
typedef struct {
    float before, total;
} Scanned;

// From the beginning of a tile to a thread's pack i.
INLINE int pack_at(int i) {
    const int thread = threadIdx.x;
    return thread / 32 * SEGMENT + (i * 32 + thread % 32) * vector;
}

// Load the packs of a thread, of a tile of which `left` elements are there. The others are 0.
INLINE void load_tile(Pack *x, GLOBAL const float *tile, size_t left) {
#pragma unroll
    for (int i = 0; i < items; i++) {
        if (left >= TILE) {
            x[i] = LOAD(Pack, tile + pack_at(i));
        } else {
            for (int v = 0; v < vector; v++) {
                x[i].at[v] = pack_at(i) + v < left ? tile[pack_at(i) + v] : 0.0f;
            }
        }
    }
}

// Store them, each with `before` added.
INLINE void store_tile(GLOBAL float *tile, Pack *x, size_t left, float before) {
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            x[i].at[v] += before;
        }
        if (left >= TILE) {
            STORE(Pack, tile + pack_at(i), x[i]);
        } else {
            for (int v = 0; v < vector; v++) {
                if (pack_at(i) + v < left) {
                    tile[pack_at(i) + v] = x[i].at[v];
                }
            }
        }
    }
}

// The scan of one value per thread, within each warp. `shared` has `threads` floats.
INLINE Scanned scan_warp(float value, LOCAL float *shared) {
    const int lane = threadIdx.x % 32;
    Scanned scanned;
#ifdef __OPENCL_VERSION__
    const int thread = threadIdx.x;
    shared[thread] = value;
    __syncthreads();
    for (int step = 1; step < 32; step *= 2) {
        const float other = lane >= step ? shared[thread - step] : 0.0f;
        __syncthreads(); // nobody may write a sum while another thread still reads the one before
        shared[thread] += other;
        __syncthreads();
    }
    scanned.before = lane > 0 ? shared[thread - 1] : 0.0f;
    scanned.total = shared[thread / 32 * 32 + 31];
    __syncthreads();
#else
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float other = __shfl_up_sync(0xffffffff, value, step);
        value += lane >= step ? other : 0.0f;
    }
    scanned.before = __shfl_up_sync(0xffffffff, value, 1);
    scanned.before = lane > 0 ? scanned.before : 0.0f;
    scanned.total = __shfl_sync(0xffffffff, value, 31);
#endif
    return scanned;
}

// x becomes its scan within the segment of its warp. Gives the sum of the segments before it, and that of the tile.
// `shared` has `threads` floats, `totals` has WARPS.
INLINE Scanned scan_segments(Pack *x, LOCAL float *shared, LOCAL float *totals) {
    float carry = 0.0f;
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int v = 1; v < vector; v++) {
            x[i].at[v] += x[i].at[v - 1];
        }
        const Scanned scanned = scan_warp(x[i].at[vector - 1], shared);
#pragma unroll
        for (int v = 0; v < vector; v++) {
            x[i].at[v] += carry + scanned.before;
        }
        carry += scanned.total;
    }
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
        totals[warp] = carry;
    }
    __syncthreads();
    Scanned all;
    all.before = 0.0f;
    all.total = 0.0f;
    for (int other = 0; other < WARPS; other++) {
        all.before = other == warp ? all.total : all.before;
        all.total += totals[other];
    }
    __syncthreads(); // nobody may write the totals of the next tile while another thread still reads these
    return all;
}

#endif
