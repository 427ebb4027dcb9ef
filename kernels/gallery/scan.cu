// y[i] = x[0] + ... + x[i], the inclusive scan, in three steps: scan_sums leaves the sum of each tile, scan_offsets
// makes of these sums their own scan, and scan_tiles scans each tile, beginning at the sum of those before it.
//
// x is read twice and y written once: 12 bytes per element, and nothing but memory counts. Tuned is the tile, one per
// block: the threads, the floats per load and the loads of a thread. All loads of a thread are under way at once.
#include "portable.h"
#include "scan.h"

#define THREADS threads
#define lanes threads
#include "reduce.h"

KERNEL LAUNCH_BOUNDS(threads, 1)
void scan_sums(GLOBAL float *__restrict__ sums, GLOBAL const float *__restrict__ x, int n) {
    __shared__ float shared[threads];

    const size_t tile = (size_t)blockIdx.x * TILE;
    Pack loaded[items];
    load_tile(loaded, x + tile, n - tile);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            sum += loaded[i].at[v];
        }
    }
    sum = sum_across(sum, shared);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
    }
}

// One block.
KERNEL LAUNCH_BOUNDS(threads, 1)
void scan_offsets(GLOBAL float *sums, int n) {
    __shared__ float shared[threads], totals[WARPS];

    const size_t count = (n + TILE - 1) / TILE;
    float before = 0.0f;
    for (size_t tile = 0; tile < count; tile += TILE) {
        Pack loaded[items];
        load_tile(loaded, sums + tile, count - tile);
        const Scanned scanned = scan_segments(loaded, shared, totals);
        store_tile(sums + tile, loaded, count - tile, before + scanned.before);
        before += scanned.total;
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void scan_tiles(GLOBAL float *__restrict__ y, GLOBAL const float *__restrict__ x, GLOBAL const float *__restrict__ sums,
                int n) {
    __shared__ float shared[threads], totals[WARPS];

    const size_t tile = (size_t)blockIdx.x * TILE;
    Pack loaded[items];
    load_tile(loaded, x + tile, n - tile);
    const float before = blockIdx.x > 0 ? sums[blockIdx.x - 1] : 0.0f;
    const Scanned scanned = scan_segments(loaded, shared, totals);
    store_tile(y + tile, loaded, n - tile, before + scanned.before);
}
