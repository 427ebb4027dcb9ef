// Four floats at a time, in CUDA and in OpenCL C: 16 bytes are the most that one instruction loads or stores.
#ifndef FLOAT4_H
#define FLOAT4_H

#include "inline.h"

#ifdef __OPENCL_VERSION__
#define make_float4(x, y, z, w) ((float4)(x, y, z, w))
#endif

#define ALIGNED __attribute__((aligned(16)))

// The four floats from `p` on in a shared array that is ALIGNED, a multiple of four floats from its beginning.
#define SHARED4(p) (*(LOCAL float4 *)(p))

// The four floats from `p` on, of which the row has `left`; those beyond are 0. `wide` is a constant: 1 where rows, and
// so `p`, begin at multiples of 16 bytes.
INLINE float4 load4(GLOBAL const float *p, int left, int wide) {
    if (wide) {
        return left > 0 ? *(GLOBAL const float4 *)p : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    return make_float4(left > 0 ? p[0] : 0.0f, left > 1 ? p[1] : 0.0f, left > 2 ? p[2] : 0.0f, left > 3 ? p[3] : 0.0f);
}

// c[0..3] = alpha * sum + beta * c[0..3], for those of the four that the row has, `left`. At beta = 0 none is read.
INLINE void write4(GLOBAL float *c, float4 sum, float alpha, float beta, int left, int wide) {
    if (wide && left > 0) {
        const float4 old = beta == 0.0f ? sum : *(GLOBAL float4 *)c;
        *(GLOBAL float4 *)c = make_float4(SCALED(alpha, sum.x, beta, old.x), SCALED(alpha, sum.y, beta, old.y),
                                          SCALED(alpha, sum.z, beta, old.z), SCALED(alpha, sum.w, beta, old.w));
    }
    if (!wide && left > 0) {
        c[0] = SCALED(alpha, sum.x, beta, c[0]);
    }
    if (!wide && left > 1) {
        c[1] = SCALED(alpha, sum.y, beta, c[1]);
    }
    if (!wide && left > 2) {
        c[2] = SCALED(alpha, sum.z, beta, c[2]);
    }
    if (!wide && left > 3) {
        c[3] = SCALED(alpha, sum.w, beta, c[3]);
    }
}

#endif
