// y = a x + y, for elements of several types: a template, whose arguments the space file names.
//
// Nothing but memory counts, so that a half takes a quarter of the time of a double. Halves are multiplied and added as
// floats. Tuned are the bytes that a thread has under way (VECTOR x ITEMS), the threads of a block, and what the cache
// is told: see stream.h. The last tile may be cut, and is done element by element.
#include "stream.h"

template <int BYTES, typename Real> struct Wide { using type = Real; };
template <typename Real> struct Wide<2, Real> { using type = float; };

template <typename Real, int COUNT> struct alignas(sizeof(Real) * COUNT) Pack { Real at[COUNT]; };

// y + a x, rounded once to the type of the elements where that is a half.
template <typename Real> __device__ Real axpy_of(double a, Real x, Real y) {
    using Number = typename Wide<sizeof(Real), Real>::type;
    return Real(Number(a) * Number(x) + Number(y));
}

template <typename Real, int THREADS, int VECTOR, int ITEMS>
__global__ void __launch_bounds__(THREADS) axpy(Real *__restrict__ y, const Real *__restrict__ x, int n, double a) {
    using Elements = Pack<Real, VECTOR>;
    const size_t tile = (size_t)blockIdx.x * (THREADS * VECTOR * ITEMS);
    if (tile + THREADS * VECTOR * ITEMS > n) {
        for (size_t i = tile + threadIdx.x; i < n; i += THREADS) {
            y[i] = axpy_of(a, x[i], y[i]);
        }
        return;
    }
    Elements *packs_y = reinterpret_cast<Elements *>(y + tile) + threadIdx.x;
    const Elements *packs_x = reinterpret_cast<const Elements *>(x + tile) + threadIdx.x;
    Elements old[ITEMS], more[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        old[i] = LOAD(Elements, packs_y + i * THREADS);
        more[i] = LOAD(Elements, packs_x + i * THREADS);
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
#pragma unroll
        for (int v = 0; v < VECTOR; v++) {
            old[i].at[v] = axpy_of(a, more[i].at[v], old[i].at[v]);
        }
        STORE(Elements, packs_y + i * THREADS, old[i]);
    }
}
