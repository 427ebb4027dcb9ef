// y = a x + y, in double precision.
//
// 24 bytes per product: nothing but memory counts. Tuned are the bytes that a thread has under way (vector x items),
// the threads of a block, the number of blocks, and what the cache is told: see stream.h. Two doubles are the most that
// one instruction loads. The last tile may be cut, and is done element by element.
#include "portable.h"
#include "flat.h"

PACK(Pack, double, vector);

INLINE void add_tile(GLOBAL double *y, GLOBAL const double *x, double a) {
    Pack old[items], more[items];
#pragma unroll
    for (int i = 0; i < items; i++) {
        old[i] = LOAD(Pack, y + pack_at(i));
        more[i] = LOAD(Pack, x + pack_at(i));
    }
#pragma unroll
    for (int i = 0; i < items; i++) {
#pragma unroll
        for (int v = 0; v < vector; v++) {
            old[i].at[v] += a * more[i].at[v];
        }
        STORE(Pack, y + pack_at(i), old[i]);
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void daxpy(GLOBAL double *__restrict__ y, GLOBAL const double *__restrict__ x, int n, double a) {
    for (size_t tile = (size_t)blockIdx.x * TILE; tile < n; tile += (size_t)gridDim.x * TILE) {
        if (tile + TILE <= n) {
            add_tile(y + tile, x + tile, a);
        } else {
            for (size_t i = tile + threadIdx.x; i < n; i += threads) {
                y[i] += a * x[i];
            }
        }
    }
}
