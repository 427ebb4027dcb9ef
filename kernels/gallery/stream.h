// Loads and stores of what a kernel touches once, in CUDA and in OpenCL C.
//
// What is written and not read again only takes room in the cache. With streaming = 1, stores tell it so; with 2, loads
// do, too. OpenCL C cannot say it.
#ifndef STREAM_H
#define STREAM_H

#include "inline.h"

#ifndef streaming
#define streaming 0
#endif

#ifdef __OPENCL_VERSION__

#define LOAD(type, address) (*(GLOBAL const type *)(address))
#define STORE(type, address, value) (*(GLOBAL type *)(address) = (value))

#else

// The type that one instruction moves, of as many bytes. What has more is moved in parts of 16 bytes.
template <int BYTES> struct Moved;
template <> struct Moved<1> { using type = unsigned char; };
template <> struct Moved<2> { using type = unsigned short; };
template <> struct Moved<4> { using type = unsigned; };
template <> struct Moved<8> { using type = uint2; };
template <> struct Moved<16> { using type = uint4; };

template <typename Type> using Part = typename Moved<(sizeof(Type) < 16 ? sizeof(Type) : 16)>::type;

template <typename Type> INLINE Type streamed(const Type *address) {
    Part<Type> parts[sizeof(Type) / sizeof(Part<Type>)];
#pragma unroll
    for (int i = 0; i < sizeof(Type) / sizeof(Part<Type>); i++) {
        parts[i] = __ldcs(reinterpret_cast<const Part<Type> *>(address) + i);
    }
    Type value;
    memcpy(&value, parts, sizeof(Type));
    return value;
}

template <typename Type> INLINE void stream(Type *address, const Type &value) {
    Part<Type> parts[sizeof(Type) / sizeof(Part<Type>)];
    memcpy(parts, &value, sizeof(Type));
#pragma unroll
    for (int i = 0; i < sizeof(Type) / sizeof(Part<Type>); i++) {
        __stcs(reinterpret_cast<Part<Type> *>(address) + i, parts[i]);
    }
}

#if streaming >= 2
#define LOAD(type, address) streamed((const type *)(address))
#else
#define LOAD(type, address) (*(const type *)(address))
#endif
#if streaming >= 1
#define STORE(type, address, value) stream((type *)(address), value)
#else
#define STORE(type, address, value) (*(type *)(address) = (value))
#endif

#endif

#endif
