// C[b] = A[b] B[b], row-major, for many small square matrices: n x n, with n up to 64.
//
// At n = 32 there are 5 operations per byte: memory sets the bound. The matrices of a block lie together in memory, so
// that it copies all of A and all of B with full lines. A thread computes `rows` outputs of one column, so that what it
// reads of B serves that many. Tuned are the matrices of a block, its threads, the floats per load, and `rows`. The
// file is compiled for one n, so that its loops unroll.
#include "portable.h"
#include "launch_bounds.h"
#include "pack.h"

#ifndef matrices
#define matrices 1 // per block
#endif
#ifndef threads
#define threads 256
#endif
#ifndef vector
#define vector 1 // floats per load; must divide n * n
#endif
#ifndef rows
#define rows 1 // per thread
#endif
#ifndef extent
#define extent 16 // n
#endif

#define ELEMENTS (extent * extent)
#define STRIPS ((extent + rows - 1) / rows) // of a column, each for one thread

PACK(Pack, float, vector);

// Copy `count` floats.
INLINE void copy(LOCAL float *shared, GLOBAL const float *from, int count) {
#pragma unroll 4
    for (int i = threadIdx.x * vector; i < count; i += threads * vector) {
        *(LOCAL Pack *)(shared + i) = *(GLOBAL const Pack *)(from + i);
    }
}

// Outputs first_row.. of a column: a is the matrix A from that row on, b that column of B, c the place of the first
// one.
INLINE void multiply_strip(GLOBAL float *c, LOCAL const float *a, LOCAL const float *b, int left) {
    float sum[rows];
#pragma unroll
    for (int i = 0; i < rows; i++) {
        sum[i] = 0.0f;
    }
#pragma unroll
    for (int k = 0; k < extent; k++) {
        const float factor = b[k * extent];
#pragma unroll
        for (int i = 0; i < rows; i++) {
            sum[i] += (i < left ? a[i * extent + k] : 0.0f) * factor;
        }
    }
#pragma unroll
    for (int i = 0; i < rows; i++) {
        if (i < left) {
            c[i * extent] = sum[i];
        }
    }
}

KERNEL LAUNCH_BOUNDS(threads, 1)
void batched_products(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                      GLOBAL const float *__restrict__ B, int batch) {
    __shared__ __attribute__((aligned(16))) float shared_a[matrices * ELEMENTS];
    __shared__ __attribute__((aligned(16))) float shared_b[matrices * ELEMENTS];

    const int first = blockIdx.x * matrices, here = batch - first < matrices ? batch - first : matrices;
    const size_t offset = (size_t)first * ELEMENTS;
    copy(shared_a, A + offset, here * ELEMENTS);
    copy(shared_b, B + offset, here * ELEMENTS);
    __syncthreads();

    for (int i = threadIdx.x; i < here * STRIPS * extent; i += threads) {
        const int matrix = i / (STRIPS * extent), row = i / extent % STRIPS * rows, column = i % extent;
        const int place = matrix * ELEMENTS + row * extent;
        multiply_strip(C + offset + place + column, shared_a + place, shared_b + matrix * ELEMENTS + column,
                       extent % rows == 0 ? rows : extent - row);
    }
}
