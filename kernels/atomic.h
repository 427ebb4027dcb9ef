// Additions of integers that many threads make to one place, in CUDA and in OpenCL C. Both give what was there before.
#ifndef ATOMIC_H
#define ATOMIC_H

#ifdef __OPENCL_VERSION__
#define SHARED_ADD(address, number) atomic_add((volatile __local int *)(address), number)
#define GLOBAL_ADD(address, number) atomic_add((volatile __global int *)(address), number)
#else
#define SHARED_ADD(address, number) atomicAdd(address, number)
#define GLOBAL_ADD(address, number) atomicAdd(address, number)
#endif

#endif
