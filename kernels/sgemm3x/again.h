// Elements of C that are summed again, as what halves leave out of small numbers may matter to them.
//
// A small number is off by at most 2^-25, and meets one below 2^15: the sum of the lifted products is off by less than
// 2^-10 for each small number that meets one other than 0. If the sum is at least DOUBT times as large as there are of
// these, it is off by 2^-19 of itself, or 32 units of round-off. Any other element is in doubt. Where large and small
// numbers meet by chance, hardly any is.
#ifndef AGAIN_H
#define AGAIN_H

#include "halves.h"

#define DOUBT 512.0f
#define MOST_DOUBTS 128 // of the elements of a warp group. If more are in doubt, all of them are multiplied in float32
#define ELEMENTS (HEIGHT * block_n / 2) // of a thread

// What the warp groups of a block share.
struct Doubts {
    int most_small[THREADS / 32]; // in a row of A or column of B, of those that a warp has looked at
    int count[consumers];
    int elements[consumers][MOST_DOUBTS]; // row and column in the tile: 2^16 row + column
};

// The largest number of a warp group's sums that may be in doubt.
INLINE float largest_doubt(const Doubts &doubts) {
    int most = 0;
    for (int warp = 0; warp < THREADS / 32; warp++) {
        most = max(most, doubts.most_small[warp]);
    }
    return DOUBT * 2 * most;
}

// How many small numbers of a row and a column meet numbers other than 0, at most.
INLINE unsigned meetings(Counts a, Counts b, int length) {
    return min(small_of(a), length - zeros_of(b)) + min(small_of(b), length - zeros_of(a));
}

// Whether the condition is true for any of a warp group's threads, which meet at the named barrier.
INLINE bool any_of_group(int barrier, bool condition) {
    int any;
    asm volatile("{\n\t"
                 ".reg .pred mine, some;\n\t"
                 "setp.ne.b32 mine, %1, 0;\n\t"
                 "bar.red.or.pred some, %2, 128, mine;\n\t"
                 "selp.s32 %0, 1, 0, some;\n\t"
                 "}"
                 : "=r"(any)
                 : "r"((int)condition), "r"(barrier)
                 : "memory");
    return any;
}

// List the elements in doubt, and mark them in bits: that of sum[i][j] is i * block_n / 2 + j. All threads of the warp
// group get their number. `y` and `x` are the place of the thread's first element in the tile, which has so many rows and
// columns.
INLINE int list_doubts(unsigned (&marks)[ELEMENTS / 32], Doubts &doubts, int barrier, int group,
                       const float (&sum)[HEIGHT][block_n / 2], const Counts *counts_a, const Counts *counts_b, int y,
                       int x, int rows, int columns, int length) {
    int mine = 0;
#pragma unroll
    for (int j = 0; j < block_n / 4; j++) {
        const int x_here = x + j / 2 * 8 + j % 2;
        if (x_here < columns) {
            const Counts of_column = counts_b[x_here];
#pragma unroll
            for (int i = 0; i < 2 * HEIGHT; i++) {
                const int y_here = y + i % 2 * 8 + i / 2 * 64, place = j / 2 * 4 + i % 2 * 2 + j % 2;
                const unsigned element = i / 2 * (block_n / 2) + place;
                if (y_here < rows &&
                    fabsf(sum[i / 2][place]) < DOUBT * meetings(counts_a[y_here], of_column, length)) {
                    marks[element / 32] |= 1u << element % 32;
                    mine++;
                }
            }
        }
    }
    int at = mine > 0 ? atomicAdd(&doubts.count[group], mine) : 0;
#pragma unroll
    for (int word = 0; word < ELEMENTS / 32; word++) {
        for (unsigned left = marks[word]; left > 0; left &= left - 1) {
            const int element = word * 32 + __ffs(left) - 1, i = element / (block_n / 2), j = element % (block_n / 2);
            if (at < MOST_DOUBTS) {
                doubts.elements[group][at++] = (y + 64 * i + j / 2 % 2 * 8) << 16 | (x + j / 4 * 8 + j % 2);
            }
        }
    }
    wait_named(barrier, 128);
    return doubts.count[group];
}

// An element in float64, by a warp. All threads get it.
INLINE float summed(const float *row, const float *column, int K, int N) {
    double sum = 0.0;
#pragma unroll 8
    for (int k = threadIdx.x % 32; k < K; k += 32) {
        sum = fma((double)row[k], (double)column[(size_t)k * N], sum);
    }
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, other);
    }
    return (float)sum;
}

// Sum the listed elements. C, A and B begin at the tile's first element, row and column.
INLINE void sum_again(const Doubts &doubts, int group, int count, float *C, const float *A, const float *B, int N, int K,
                      float alpha, float beta) {
#pragma unroll 1
    for (int i = threadIdx.x % 128 / 32; i < count; i += 4) {
        const int y = doubts.elements[group][i] >> 16, x = doubts.elements[group][i] & 0xffff;
        const float sum = summed(A + (size_t)y * K, B + x, K, N);
        if (threadIdx.x % 32 == 0) {
            float &to = C[(size_t)y * N + x];
            to = SCALED(alpha, sum, beta, to);
        }
    }
}

#endif
