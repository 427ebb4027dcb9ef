// Copies from global to shared memory in the background, from Ampere (sm_80) on.
//
// A thread begins copies, closes a group of them with commit_copies(), and waits with wait_for_copies(n) until at most
// its n latest groups are still under way. Other threads see what was copied after a barrier that follows the wait.
#ifndef CP_ASYNC_H
#define CP_ASYNC_H

#include "float4.h"

#ifndef __OPENCL_VERSION__

// Copy one float, or 0 where `there` is 0; then `from` is not read.
INLINE void copy_async1(float *to, const float *from, int there) {
    const unsigned shared = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

// Copy four floats, of which the row has `left`; those beyond become 0. `wide` is a constant: 1 where rows, and so
// `from`, begin at multiples of 16 bytes. Else each float is copied by itself.
INLINE void copy_async4(float *to, const float *from, int left, int wide) {
    if (wide) {
        const unsigned shared = (unsigned)__cvta_generic_to_shared(to);
        const int bytes = left > 0 ? 16 : 0;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            copy_async1(to + i, from + i, i < left);
        }
    }
}

INLINE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

#define wait_for_copies(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

#endif

#endif
