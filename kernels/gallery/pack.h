// Several elements at a time, in CUDA and in OpenCL C.
//
// PACK(Name, type, count) defines a struct of `count` elements, `at`, that begins at a multiple of its size. Up to 16
// bytes of it are loaded or stored by one instruction.
#ifndef PACK_H
#define PACK_H

#include "inline.h"

#define PACK(name, type, count)                                                                                        \
    typedef struct __attribute__((aligned(sizeof(type) * (count)))) {                                                  \
        type at[count];                                                                                                \
    } name

#endif
