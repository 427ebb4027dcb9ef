// The product of a group of four warps, 64 rows by 64 * parts columns, which the file that includes this one defines: 1
// to 4. A product as wide as that reads A once for all columns; see hopper.h for the rest.
#ifndef GALLERY_WGMMA_H
#define GALLERY_WGMMA_H

#include "hopper.h"

// The numbers of the operands in PTX: 32 * parts sums, the descriptors of A and B, and whether there are sums before.
#define TEN(tens)                                                                                                      \
    "%" #tens "0, %" #tens "1, %" #tens "2, %" #tens "3, %" #tens "4, "                                                \
    "%" #tens "5, %" #tens "6, %" #tens "7, %" #tens "8, %" #tens "9, "
#define EIGHT(i)                                                                                                       \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]),            \
        "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define SUMS_OF_PART(i) EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24)
#if parts == 1
#define WIDTH "n64"
#define SUM_NUMBERS TEN() TEN(1) TEN(2) "%30, %31"
#define TILE_NUMBERS "%32, %33"
#define ADD_NUMBER "%34"
#define SUMS SUMS_OF_PART(0)
#elif parts == 2
#define WIDTH "n128"
#define SUM_NUMBERS TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63"
#define TILE_NUMBERS "%64, %65"
#define ADD_NUMBER "%66"
#define SUMS SUMS_OF_PART(0), SUMS_OF_PART(32)
#elif parts == 3
#define WIDTH "n192"
#define SUM_NUMBERS                                                                                                    \
    TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) "%90, %91, %92, %93, %94, %95"
#define TILE_NUMBERS "%96, %97"
#define ADD_NUMBER "%98"
#define SUMS SUMS_OF_PART(0), SUMS_OF_PART(32), SUMS_OF_PART(64)
#else
#define WIDTH "n256"
#define SUM_NUMBERS                                                                                                    \
    TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11)                               \
    "%120, %121, %122, %123, %124, %125, %126, %127"
#define TILE_NUMBERS "%128, %129"
#define ADD_NUMBER "%130"
#define SUMS SUMS_OF_PART(0), SUMS_OF_PART(32), SUMS_OF_PART(64), SUMS_OF_PART(96)
#endif

// Begin sum += A B^T, or sum = A B^T where `add` is 0: A is 64 x 16 and B is 64 * parts x 16, both halves, in shared
// memory.
//
// Of thread t of the warp group, sum[4 j + 2 i + k] is the output at row t / 32 * 16 + t % 32 / 4 + 8 i, and at column
// 8 j + t % 4 * 2 + k.
__device__ __forceinline__ void multiply_16_deep(float (&sum)[32 * parts], unsigned long long a, unsigned long long b,
                                                 int add) {
    asm volatile("{\n\t"
                 ".reg .pred add;\n\t"
                 "setp.ne.b32 add, " ADD_NUMBER ", 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64" WIDTH "k16.f32.f16.f16 {" SUM_NUMBERS "}, " TILE_NUMBERS
                 ", add, 1, 1, 0, 0;\n\t"
                 "}"
                 : SUMS
                 : "l"(a), "l"(b), "r"(add));
}

// The sums are complete from here on: without it, the compiler may read them before end_products().
__device__ __forceinline__ void settle(float (&sum)[32 * parts]) {
#pragma unroll
    for (int i = 0; i < 32 * parts; i++) {
        asm volatile("" : "+f"(sum[i])::"memory");
    }
}

#endif
