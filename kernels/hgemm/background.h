// Copies of tiles from global to shared memory in the background, by cp.async (from sm_80 on): for 12 and 13.
//
// A thread begins copies, closes a group of them with commit_copies(), and waits with wait_for_copies<n>() until at most
// its n latest groups are still under way. Other threads see what was copied after a barrier that follows the wait.
#ifndef BACKGROUND_H
#define BACKGROUND_H

#include "hgemm.h"

// Copy 16 bytes: the first `bytes` of them, then zeros. Only these are read.
INLINE void copy_async(unsigned address, const void *source, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(__cvta_generic_to_global(source)), "r"(bytes)
                 : "memory");
}

INLINE void commit_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }

template <int groups> INLINE void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}

#endif
