// CUDA's words for OpenCL C, so that one file compiles as either.
//
// A kernel begins `KERNEL void name(GLOBAL float *C, ...)`, and every pointer to the arrays says GLOBAL. All the rest is
// as in CUDA: __shared__, __restrict__, __syncthreads(), threadIdx, blockIdx, blockDim and gridDim. A __shared__ array
// is declared at the top of the kernel, where OpenCL wants it. Headers of others come before this one, so that its
// macros do not reach them.
#ifndef PORTABLE_H
#define PORTABLE_H

#ifdef __OPENCL_VERSION__

#define KERNEL __kernel
#define GLOBAL __global
#define __shared__ __local
#define __restrict__ restrict
#define __syncthreads() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define threadIdx ((int3)(get_local_id(0), get_local_id(1), get_local_id(2)))
#define blockIdx ((int3)(get_group_id(0), get_group_id(1), get_group_id(2)))
#define blockDim ((int3)(get_local_size(0), get_local_size(1), get_local_size(2)))
#define gridDim ((int3)(get_num_groups(0), get_num_groups(1), get_num_groups(2)))

#else

#define KERNEL extern "C" __global__
#define GLOBAL

#endif

// alpha * sum + beta * C. At beta = 0 C is not read, as in BLAS: it may hold anything, NaN included.
#define SCALED(alpha, sum, beta, c) ((beta) == 0.0f ? (alpha) * (sum) : (alpha) * (sum) + (beta) * (c))

#endif
