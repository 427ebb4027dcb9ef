// Functions that a kernel calls, in CUDA and in OpenCL C.
//
// INLINE begins a function. LOCAL says of a pointer that it points to shared memory, as GLOBAL says that it points to
// the arrays.
#ifndef INLINE_H
#define INLINE_H

#ifdef __OPENCL_VERSION__
#define INLINE static inline
#define LOCAL __local
#else
#define INLINE __device__ __forceinline__
#define LOCAL
#endif

#endif
