// z = x + y.
//
// 12 bytes per sum: nothing but memory counts. Tuned are the bytes that a thread has under way (vector x items), the
// threads of a block, the number of blocks (one for each tile, or a few for each multiprocessor that go on to further
// tiles), and what the cache is told: see stream.h. The last tile may be cut, and is added element by element.
#include "portable.h"
#include "flat.h"

PACK(Pack, float, vector);

INLINE void add_tile(GLOBAL float *z, GLOBAL const float *x, GLOBAL const float *y) {
    Pack a[items], b[items];
#pragma unroll
    for (int i = 0; i < items; i++) {
        a[i] = LOAD(Pack, x + pack_at(i));
        b[i] = LOAD(Pack, y + pack_at(i));
    }
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            a[i].at[v] += b[i].at[v];
        }
        STORE(Pack, z + pack_at(i), a[i]);
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void vector_add(GLOBAL float *__restrict__ z, GLOBAL const float *__restrict__ x, GLOBAL const float *__restrict__ y,
                int n) {
    for (size_t tile = (size_t)blockIdx.x * TILE; tile < n; tile += (size_t)gridDim.x * TILE) {
        if (tile + TILE <= n) {
            add_tile(z + tile, x + tile, y + tile);
        } else {
            for (size_t i = tile + threadIdx.x; i < n; i += threads) {
                z[i] = x[i] + y[i];
            }
        }
    }
}
