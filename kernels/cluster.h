// Blocks of a cluster, which read the shared memory of one another: from Hopper (sm_90) on, CUDA alone.
#ifndef CLUSTER_H
#define CLUSTER_H

#include "inline.h"

#ifndef __OPENCL_VERSION__

// Wait for all threads of the cluster. What they have written to shared memory before can then be read.
INLINE void synchronize_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The four floats that block number `rank` of the cluster has where this one has `p`.
INLINE float4 read_block4(const float *p, int rank) {
    unsigned address = (unsigned)__cvta_generic_to_shared(p);
    float4 four;
    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"(address)
                 : "memory");
    return four;
}

#endif

#endif
