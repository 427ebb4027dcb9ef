// Numbers of 16 bits from rows that begin at any multiple of 2 bytes, where memory gives 16 bytes at once only from
// multiples of 16: the two vectors that cover eight of them are loaded, and moved in registers.
#ifndef SHIFTED_H
#define SHIFTED_H

#include "inline.h"

// How many numbers behind a multiple of 16 bytes.
INLINE int shift_of(const unsigned short *address) { return (int)((size_t)address / 2 % 8); }

// Eight neighbours, of which the first lies `shift` numbers behind the first of the sixteen in `low` and `high`.
INLINE uint4 moved(const uint4 &low, const uint4 &high, int shift) {
    const unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    unsigned by_two[6], by_one[5], out[4];
#pragma unroll
    for (int i = 0; i < 6; i++) {
        by_two[i] = shift & 4 ? words[i + 2] : words[i];
    }
#pragma unroll
    for (int i = 0; i < 5; i++) {
        by_one[i] = shift & 2 ? by_two[i + 1] : by_two[i];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[i] = __funnelshift_r(by_one[i], by_one[i + 1], shift % 2 * 16);
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

#endif
