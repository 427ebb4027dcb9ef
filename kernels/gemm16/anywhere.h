// Eight numbers of 16 bits from rows that begin anywhere, and end anywhere: what shifted.h says of it, at the border of an
// array.
#ifndef ANYWHERE_H
#define ANYWHERE_H

#include "hgemm/shifted.h"

typedef unsigned short Bits; // of a number

// Sixteen bytes from a multiple of 16 bytes on, as far as they lie before `end`; the others become 0.
INLINE uint4 load_before(const Bits *vector, const Bits *end) {
    if (vector + 8 <= end) {
        return *(const uint4 *)vector;
    }
    unsigned long long first = 0, second = 0;
#pragma unroll 1 // it is rare, and much code otherwise
    for (int i = 0; vector + i < end; i++) {
        const unsigned long long one = (unsigned long long)vector[i] << i % 4 * 16;
        first |= i < 4 ? one : 0;
        second |= i < 4 ? 0 : one;
    }
    return make_uint4((unsigned)first, (unsigned)(first >> 32), (unsigned)second, (unsigned)(second >> 32));
}

// Eight numbers, of which the first `count` are kept; the others become 0.
INLINE uint4 kept(const uint4 &eight, int count) {
    const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
    unsigned out[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[i] = 2 * i + 1 < count ? words[i] : 2 * i < count ? words[i] & 0xffff : 0;
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

#endif
