// Pointers to constant memory, in CUDA and in OpenCL C.
//
// A filter in constant memory is a symbol of the file in CUDA, and a parameter of the kernel in OpenCL C. CONSTANT says
// of a function's pointer that it points there, as GLOBAL says that it points to the arrays.
#ifndef CONSTANT_H
#define CONSTANT_H

#ifdef __OPENCL_VERSION__
#define CONSTANT __constant
#else
#define CONSTANT
#endif

#endif
