// Sums that several blocks have computed in parts, one for each split of the depth: how they leave them for one another
// in global memory, and who adds them up. In CUDA and in OpenCL C.
#ifndef PARTS_H
#define PARTS_H

#include "atomic.h"
#include "inline.h"

#ifdef __OPENCL_VERSION__
#define FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#define READ_PART4(p) (*(GLOBAL volatile const float4 *)(p))
#define WRITE_PART4(p, four) (*(GLOBAL volatile float4 *)(p) = (four))
#else
#define FENCE() __threadfence()
#define READ_PART4(p) __ldcg((const float4 *)(p)) // other multiprocessors have written it: not from the L1 cache
#define WRITE_PART4(p, four) __stcg((float4 *)(p), four)
#endif

// Whether this block is the last of `blocks` that come here with the same semaphore. What the others have written to
// global memory before can then be read. The semaphore is 0 before, and the last one sets it back. All threads of the
// block call this; `last` is in shared memory.
INLINE int is_last_block(GLOBAL int *semaphore, LOCAL int *last, int blocks) {
    FENCE(); // who sees the semaphore counted sees the sums
    __syncthreads();
    if (threadIdx.x == 0) {
        *last = GLOBAL_ADD(semaphore, 1) == blocks - 1;
        if (*last) {
            *semaphore = 0; // for the next launch
        }
        FENCE();
    }
    __syncthreads();
    return *last;
}

#endif
