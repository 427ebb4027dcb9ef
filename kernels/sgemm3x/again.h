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
#define ELEMENTS (HEIGHT * SHARE / 2) // of a thread

// What the warp groups of a block count.
struct Doubts {
    int most_small[THREADS / 32]; // in a row of A or column of B, of those that a warp has looked at
    int count[consumers];
};

// The elements of a warp group.
struct Again {
    int elements[MOST_DOUBTS]; // those in doubt: row and column in the tile, as 2^16 row + column
    float outputs[MOST_DOUBTS]; // what becomes of C there
    union {
        float sums[ELEMENTS][128];             // their magnitudes, by threads
        float tile[64 * HEIGHT][SHARE + 8]; // sums by row and column; the 8 keep the writes of a warp in different banks
    };
};

// The largest number of the sums of a block that may be in doubt.
INLINE float largest_doubt(const Doubts &doubts) {
    int most = 0;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; warp++) {
        most = max(most, doubts.most_small[warp]);
    }
    return DOUBT * 2 * most;
}

// How many small numbers of a row and a column meet numbers other than 0, at most.
INLINE unsigned meetings(Counts a, Counts b, int length) {
    return min(small_of(a), length - zeros_of(b)) + min(small_of(b), length - zeros_of(a));
}

// The smallest magnitude of a thread's sums. `y` and `x` are the place of the first one in the tile, which has so many
// rows and columns.
INLINE float least_of(const float (&sum)[HEIGHT][SHARE / 2], int y, int x, int rows, int columns) {
    float least = __int_as_float(0x7f800000);
#pragma unroll
    for (int i = 0; i < 2 * HEIGHT; i++) {
        float of_row = __int_as_float(0x7f800000);
#pragma unroll
        for (int j = 0; j < SHARE / 4; j++) {
            if (x + j / 2 * 8 + j % 2 < columns) {
                of_row = fminf(of_row, fabsf(sum[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2]));
            }
        }
        if (y + i % 2 * 8 + i / 2 * 64 < rows) {
            least = fminf(least, of_row);
        }
    }
    return least;
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

// List the elements in doubt. All threads of the warp group get their number.
INLINE int list_doubts(Again &again, int &count, int barrier, const float (&sum)[HEIGHT][SHARE / 2],
                       const Counts *counts_a, const Counts *counts_b, int y, int x, int rows, int columns, int length,
                       float largest) {
    const int thread = threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < ELEMENTS; i++) {
        again.sums[i][thread] = fabsf(sum[i / (SHARE / 2)][i % (SHARE / 2)]);
    }
#pragma unroll 1
    for (int i = 0; i < ELEMENTS; i++) {
        const int y_here = y + i / (SHARE / 2) * 64 + i / 2 % 2 * 8, x_here = x + i % (SHARE / 2) / 4 * 8 + i % 2;
        const float size = again.sums[i][thread];
        if (size < largest && y_here < rows && x_here < columns &&
            size < DOUBT * meetings(counts_a[y_here], counts_b[x_here], length)) {
            const int at = atomicAdd(&count, 1);
            if (at < MOST_DOUBTS) {
                again.elements[at] = y_here << 16 | x_here;
            }
        }
    }
    wait_named(barrier, 128);
    return count;
}

// Gather the sums of all threads by row and column.
INLINE void gather_tile(Again &again, int barrier, const float (&sum)[HEIGHT][SHARE / 2]) {
    const int y = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, x = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < ELEMENTS; i += 2) {
        const int y_here = y + i / (SHARE / 2) * 64 + i / 2 % 2 * 8, x_here = x + i % (SHARE / 2) / 4 * 8;
        *(float2 *)&again.tile[y_here][x_here] = make_float2(sum[i / (SHARE / 2)][i % (SHARE / 2)],
                                                             sum[i / (SHARE / 2)][i % (SHARE / 2) + 1]);
    }
    wait_named(barrier, 128);
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

// Sum the listed elements. C, A and B begin at the tile's first element, row and column; C is read only.
INLINE void sum_again(Again &again, int count, int barrier, const float *C, const float *A, const float *B, int N, int K,
                      float alpha, float beta) {
#pragma unroll 1
    for (int i = threadIdx.x % 128 / 32; i < count; i += 4) {
        const int y = again.elements[i] >> 16, x = again.elements[i] & 0xffff;
        const float sum = summed(A + (size_t)y * K, B + x, K, N);
        if (threadIdx.x % 32 == 0) {
            again.outputs[i] = SCALED(alpha, sum, beta, C[(size_t)y * N + x]);
        }
    }
    wait_named(barrier, 128);
}

// Write what has become of the listed elements, after all threads have written theirs.
INLINE void write_again(const Again &again, int count, int barrier, float *C, int N) {
    wait_named(barrier, 128);
    for (int i = threadIdx.x % 128; i < count; i += 128) {
        C[(size_t)(again.elements[i] >> 16) * N + (again.elements[i] & 0xffff)] = again.outputs[i];
    }
}

#endif
