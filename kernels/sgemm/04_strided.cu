// C = alpha * A B + beta * C, stacks of matrices of any dimensions, shapes and strides, one thread per output.
//
// A is .. x M x K, B is .. x K x N, C is .. x M x N: the last two dimensions are those of a matrix, and the others say
// which matrix it is. C's shape and the strides of all three are arrays of `dimensions` numbers. A stride is the
// distance, in floats, to the next element along its dimension. It is 0 where one matrix serves all, and anything in a
// transposed matrix or in a part of a larger array. Outputs are numbered in the order of C's shape, with its last
// dimension fastest; a block computes block_size_x consecutive ones.
// Against 03_naive, which knows that its operands are contiguous and have three dimensions: a thread finds its place by
// dividing its number by one extent after another. It reads the strides from memory, and steps along A and B by
// distances that the compiler does not know. And a block reads B for one row of outputs, where 03's rectangles read it
// for several. That is the price of serving every tensor with one kernel, and why this stage is slower than 03. Part of
// it is saved where the compiler is told the number of dimensions (rank), or K and the strides along it (fixed_sizes).
// Strides have 64 bits, because 32 bits end at arrays of 2^31 elements.
// Idea: batched matrix multiplication on an RTX 3050, its first attempt, with 1024 threads per block: 840 ms there, and
// 800 ms once operands were known to be contiguous and to have three dimensions.
#include "portable.h"

#ifndef block_size_x
#define block_size_x 1024 // outputs per block
#endif
#ifndef unroll_k
#define unroll_k 4 // steps of the loop that are unrolled
#endif
#ifndef index_bits
#define index_bits 64 // bits of an output's number; 32 divide faster, and suffice for 2^32 - block_size_x outputs
#endif
#ifndef rank
#define rank 0 // the number of dimensions if it is known when compiling, so that the loop over them vanishes; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_a
#define fixed_a 0 // the stride of A along K, likewise
#endif
#ifndef fixed_b
#define fixed_b 0 // the stride of B along K, likewise
#endif

#if rank < 0 || rank == 1
#error "a matrix has two dimensions: rank is 0, or at least 2"
#endif

#if index_bits == 32
typedef unsigned int Index;
#else
typedef size_t Index;
#endif

KERNEL void sgemm_strided(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                          GLOBAL const float *__restrict__ B, GLOBAL const int *__restrict__ C_shape,
                          GLOBAL const long *__restrict__ C_strides, GLOBAL const long *__restrict__ A_strides,
                          GLOBAL const long *__restrict__ B_strides, int dimensions, int K, float alpha, float beta) {
    const int last = (rank ? rank : dimensions) - 1;
    K = fixed_k ? fixed_k : K;

    // Place this thread's output: the matrix, its row and its column, from the last dimension to the first.
    Index number = (Index)blockIdx.x * block_size_x + threadIdx.x;
#pragma unroll
    for (int d = last; d >= 0; d--) {
        const Index extent = C_shape[d];
        const long at = number % extent;
        number /= extent;
        C += at * C_strides[d];
        A += d == last ? 0 : at * A_strides[d]; // it has no columns of C
        B += d == last - 1 ? 0 : at * B_strides[d];
    }
    if (number > 0) { // beyond the last output
        return;
    }
    const long step_a = fixed_a ? fixed_a : A_strides[last], step_b = fixed_b ? fixed_b : B_strides[last - 1];

    float sum = 0.0f;
#pragma unroll unroll_k
    for (int k = 0; k < K; k++) {
        sum += A[k * step_a] * B[k * step_b];
    }
    *C = SCALED(alpha, sum, beta, *C);
}
