// Rows of a matrix that `lanes` threads share, a block having `rows_per_block` of them: what softmax and the norms do
// alike.
//
// The threads of a row load neighbouring packs of `vector` floats, then the next `lanes` packs. With keep = 1, a row is
// read once and stays in registers. With keep = 0, it is read again for each pass, from the cache where it fits. What
// the cache is told of rows is said in stream.h. The file is compiled for one length of rows, so that loops over
// registers unroll.
#ifndef ROWS_H
#define ROWS_H

#ifndef lanes
#define lanes 256 // threads that share a row: 32 is a warp
#endif
#ifndef rows_per_block
#define rows_per_block 1
#endif
#ifndef vector
#define vector 1 // floats per load and store; must divide the length of a row
#endif
#ifndef keep
#define keep 0 // 1: a row stays in registers
#endif
#ifndef min_blocks
#define min_blocks 1 // that a multiprocessor holds at once: while one waits for its sum, others load and store
#endif
#ifndef row_length
#define row_length 1024
#endif

#define THREADS (lanes * rows_per_block)
#define PACKS ((row_length + lanes * vector - 1) / (lanes * vector)) // of a thread
#define KEPT (keep ? PACKS : 1)
#define UNROLL (keep ? PACKS : 4)

#if row_length % vector != 0
#error "rows begin at multiples of a pack: vector must divide their length"
#endif
#if THREADS % 32 != 0
#error "threads shuffle in whole warps"
#endif

#include "launch_bounds.h"
#include "pack.h"
#include "reduce.h"
#include "stream.h"

PACK(Pack, float, vector);

// A thread's pack `i` of a row of which `length` floats are there: all, or 0 behind the last row. Beyond them, it holds
// `otherwise`. `once` says that nobody loads it again.
INLINE Pack load_as(GLOBAL const float *row, int i, int lane, int length, float otherwise, int once) {
    const int first = (i * lanes + lane) * vector;
    Pack pack;
    if (first < length) {
        pack = once ? LOAD(Pack, row + first) : *(GLOBAL const Pack *)(row + first);
    } else {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            pack.at[v] = otherwise;
        }
    }
    return pack;
}

INLINE Pack load_pack(GLOBAL const float *row, int i, int lane, int length, float otherwise) {
    return load_as(row, i, lane, length, otherwise, 0);
}

INLINE void store_pack(GLOBAL float *row, Pack pack, int i, int lane, int length) {
    const int first = (i * lanes + lane) * vector;
    if (first < length) {
        STORE(Pack, row + first, pack);
    }
}

// Load what is kept of a row.
INLINE void keep_row(Pack *kept, GLOBAL const float *row, int lane, int length, float otherwise) {
#pragma unroll
    for (int i = 0; i < (keep ? PACKS : 0); i++) {
        kept[i] = load_as(row, i, lane, length, otherwise, 1);
    }
}

// The sum of a row, or where `squares` is 1, of the squares of `x - center`.
INLINE float sum_row(const Pack *kept, GLOBAL const float *row, int lane, int length, float center, int squares,
                     LOCAL float *shared) {
    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = 0; i < PACKS; i++) {
        const Pack x = keep ? kept[keep ? i : 0] : load_pack(row, i, lane, length, 0.0f);
        if ((i * lanes + lane) * vector < length) {
#pragma unroll
            for (int v = 0; v < vector; v++) {
                sum += squares ? (x.at[v] - center) * (x.at[v] - center) : x.at[v];
            }
        }
    }
    return sum_across(sum, shared);
}

#endif
