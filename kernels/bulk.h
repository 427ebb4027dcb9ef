// Copies of contiguous bytes to shared memory by the tensor memory accelerator, without a tensor map, and barriers at
// which several threads arrive. One thread asks, and nobody touches an element. Addresses and sizes are multiples of 16
// bytes. CUDA alone, compute capability 9.0: see hopper.h, which has the rest.
#ifndef BULK_H
#define BULK_H

#include "hopper.h"

// `count` threads arrive at each phase of the barrier.
__device__ __forceinline__ void initialize(Barrier *barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(Barrier *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Begin to copy to shared memory. Its bytes arrive at the barrier.
__device__ __forceinline__ void load_bytes(void *shared, const void *global, unsigned bytes, Barrier *barrier) {
    expect(barrier, bytes);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

#endif
