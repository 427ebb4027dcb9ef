// The sum and the maximum over `lanes` neighbouring threads, in CUDA and in OpenCL C. All of them get it.
//
// The file that includes this one defines `lanes`, a power of two, and THREADS, the number of threads of a block, which
// is a multiple of 32 and of `lanes`. All threads of the block must call, with a shared array of THREADS floats. Where
// a result is still in use at the next reduction, that one needs an array of its own: PoCL 3.1 reads the first one
// again. CUDA shuffles within a warp, and shares one number per warp. OpenCL C has no shuffles, and shares all.
#ifndef REDUCE_H
#define REDUCE_H

#include "inline.h"

#define LOWEST -3.402823466e38f

INLINE float combined(float a, float b, int largest) { return largest ? fmax(a, b) : a + b; }

#ifdef __OPENCL_VERSION__

INLINE float across_lanes(float value, LOCAL float *shared, int largest) {
    const int thread = get_local_id(0);
    shared[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = lanes / 2; step > 0; step /= 2) {
        if (thread % lanes < step) {
            shared[thread] = combined(shared[thread], shared[thread + step], largest);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    value = shared[thread / lanes * lanes];
    barrier(CLK_LOCAL_MEM_FENCE); // nobody may write the next number while another thread still reads this one
    return value;
}

#else

INLINE float across_warp(float value, int width, int largest) {
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) {
        value = combined(value, __shfl_xor_sync(0xffffffff, value, step), largest);
    }
    return value;
}

INLINE float across_lanes(float value, float *shared, int largest) {
    value = across_warp(value, lanes < 32 ? lanes : 32, largest);
    if (lanes > 32) {
        const int thread = threadIdx.x, warps = lanes / 32;
        if (thread % 32 == 0) {
            shared[thread / 32] = value;
        }
        __syncthreads();
        value = shared[thread / lanes * warps + thread % warps];
        value = across_warp(value, warps, largest);
        __syncthreads(); // nobody may write the next number while another thread still reads this one
    }
    return value;
}

#endif

INLINE float sum_across(float value, LOCAL float *shared) { return across_lanes(value, shared, 0); }
INLINE float largest_across(float value, LOCAL float *shared) { return across_lanes(value, shared, 1); }

#endif
