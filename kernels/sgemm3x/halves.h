// What the steps of sgemm3x share: how a matrix of floats becomes matrices of 16 bits.
//
// A row of A, or a column of B, is lifted: multiplied by the power of two that makes its largest magnitude 2^14 to 2^15.
// A lifted number x is then written in two ways:
// - as two halves. x1 is x rounded to float16, and x2 is x - x1 rounded to float16. x1 + x2 is off by at most 2^-22 |x|,
//   or by 2^-25 where |x| < 2^-3: float16 has no digits below 2^-24. Such an x is called small if it is not 0. Even if it
//   has no digits that are lost, tensor cores may lose some: they align products of subnormal halves as if these were 2^-14.
// - as three bfloat16, which have as many exponents as floats: x1 + x2 + x3 is x itself if |x| >= 2^-110. An x below
//   2^-50 is called tiny: products of two such numbers are lost, as floats end there.
// Halves do for a row or column if one of its numbers other than 0 is small, and one more of each RARE. An element to
// which small numbers matter is then summed again: see again.h. Bfloat16 does unless a number is tiny. Neither does if a
// number is infinite or NaN, or if all are too small to be lifted.
#ifndef HALVES_H
#define HALVES_H

#include "gemm16/prompt.h"

typedef unsigned short Bits;

#define SMALL 0.125f     // 2^-3
#define TINY 0x1p-50f
#define RARE 256 // with fewer small numbers than one in so many, few elements are summed again
#define NO_LIFT 0x7fff

// How many numbers of a row or column are 0, are small, and are tiny; 21 bits each.
typedef unsigned long long Counts;
#define ONE_TINY (1ull << 42)

// The same of less than 1024 numbers; 10 bits each. Shared memory adds these at once, but Counts in a loop.
typedef unsigned FewCounts;
#define FEW_ZERO 1u
#define FEW_SMALL (1u << 10)
#define FEW_TINY (1u << 20)

// How a tile is multiplied, from the fastest way on. After as many tiles of each, `routes` holds these.
enum Route { BY_HALVES, BY_BFLOATS, BY_FLOATS, ROUTES };
#define TO_WIDEN ROUTES         // whether bfloat16 is needed
#define AGAIN (ROUTES + 1)      // elements that were summed again
#define ALL_AGAIN (ROUTES + 2)  // parts of tiles, each of a warp group, that were multiplied again
#define STATISTICS (ROUTES + 3)

// The lift of a row or column whose largest magnitude has these bits; NO_LIFT if there is none.
INLINE int lift_of(unsigned largest) {
    const int lift = 14 + 127 - (int)(largest >> 23);
    return largest == 0 ? 0 : largest < 0x7f800000 && lift <= 126 ? lift : NO_LIFT;
}

INLINE void count(FewCounts &counts, float number, float lifted) {
    const float size = fabsf(lifted);
    counts += number == 0.0f ? FEW_ZERO : size < TINY ? FEW_SMALL + FEW_TINY : size < SMALL ? FEW_SMALL : 0;
}

INLINE Counts widened(FewCounts few) {
    return few % 1024 | (Counts)(few / 1024 % 1024) << 21 | (Counts)(few >> 20) << 42;
}

INLINE unsigned zeros_of(Counts counts) { return counts & 0x1fffff; }
INLINE unsigned small_of(Counts counts) { return counts >> 21 & 0x1fffff; }

// Whether halves do for `length` numbers. What makes them not do, only grows while numbers are counted.
INLINE bool halves_do(Counts counts, int length) {
    return RARE * small_of(counts) + zeros_of(counts) <= (unsigned)length + RARE;
}

// Which ways do not do for a row or column, as bits.
INLINE int forbidden(int lift, Counts counts, int length) {
    return lift == NO_LIFT ? 1 << BY_HALVES | 1 << BY_BFLOATS
                           : !halves_do(counts, length) << BY_HALVES | (counts >= ONE_TINY) << BY_BFLOATS;
}

// The fastest way of those that are not forbidden.
INLINE Route route_of(int forbidden) {
    return !(forbidden & 1 << BY_HALVES) ? BY_HALVES : !(forbidden & 1 << BY_BFLOATS) ? BY_BFLOATS : BY_FLOATS;
}

// 2^exponent, for exponents of -126 to 127.
INLINE float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// A step begins while the one before it still runs: it then finds its blocks' places. From wait_for_steps() on, the steps
// before have ended, and what they wrote is there. What they write is not __restrict__, or it might be read before.
INLINE void begin_next_step() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
INLINE void wait_for_steps() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

INLINE int up(int count, int unit) { return (count + unit - 1) / unit * unit; }

// A matrix of 16 bits is a plane: panels of 64 columns and `rows` rows, which lie in memory as they do in shared memory,
// swizzled by 128 bytes. There are PLANES of each matrix: two of halves, and three of bfloat16.
#define PLANES 5
#define FIRST_BFLOATS 2
struct Panels {
    int rows, count;

    INLINE size_t at(int matrix, int plane, int panel, int row) const {
        return ((((size_t)matrix * PLANES + plane) * count + panel) * rows + row) * 64;
    }

    // Of the 16 bytes that are number `piece` of a row of the matrix.
    INLINE size_t of_piece(int matrix, int plane, int piece, int row) const {
        return at(matrix, plane, piece / 8, row) + (piece ^ row) % 8 * 8;
    }
};

#endif
