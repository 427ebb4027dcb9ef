// The steps of sgemm3x before the products: `measure` finds how rows and columns are lifted, `split` writes halves, and
// `widen` writes bfloat16 where halves do not do. See halves.h, and wgmma_halves.cu for what they share.
#ifndef SPLIT_H
#define SPLIT_H

#include "halves.h"

#define SPLIT_PIECES 4 // of 8 numbers, of a thread
#define SPLIT_ROWS (32 * SPLIT_PIECES) // of B, of a block

INLINE Panels panels_of_a(int M, int K) { return {up(M, block_m), up(K, DEPTH) / 64}; }
INLINE Panels panels_of_b(int K, int N) { return {up(K, DEPTH), up(N, block_n) / 64}; }

INLINE unsigned magnitude(float number) { return __float_as_uint(number) & 0x7fffffff; }

// Blocks are those of A, of 2 rows, then those of B, of 32 columns and one of `chunks` parts of the depth.
KERNEL void __launch_bounds__(256)
    measure(int *lifts_a, unsigned *largest_b, Counts *counts_a, Counts *counts_b, int *routes,
            const float *__restrict__ A, const float *__restrict__ B, int M, int N, int K, int batch) {
    begin_next_step();
    const int blocks_a = (M + 1) / 2, matrix = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __shared__ unsigned of_warps[8][32];
    unsigned largest = 0;
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x < STATISTICS) {
        routes[threadIdx.x] = 0;
    }
    if ((int)blockIdx.x < blocks_a) {
        const int row = blockIdx.x * 2 + threadIdx.x / 128, thread = threadIdx.x % 128;
        const float *const from = A + ((size_t)matrix * M + row) * K;
        if (row < M && K % 4 == 0) {
#pragma unroll 8
            for (int k = thread * 4; k < K; k += 512) {
                const float4 four = *(const float4 *)(from + k);
                largest = max(max(max(largest, magnitude(four.x)), magnitude(four.y)),
                              max(magnitude(four.z), magnitude(four.w)));
            }
        } else if (row < M) {
#pragma unroll 16
            for (int k = thread; k < K; k += 128) {
                largest = max(largest, magnitude(from[k]));
            }
        }
        of_warps[0][warp] = __reduce_max_sync(0xffffffff, largest); // by every lane
        __syncthreads();
        if (thread == 0 && row < M) {
            for (int i = 0; i < 4; i++) {
                largest = max(largest, of_warps[0][warp + i]);
            }
            lifts_a[(size_t)matrix * M + row] = lift_of(largest);
            counts_a[(size_t)matrix * M + row] = 0;
        }
        return;
    }
    const int block = blockIdx.x - blocks_a, strips = (N + 31) / 32, chunk = block / strips;
    const int column = block % strips * 32 + lane, deep = (K + chunks - 1) / chunks, end = min((chunk + 1) * deep, K);
    if (column < N) {
        const float *const from = B + (size_t)matrix * K * N + column;
#pragma unroll 16
        for (int k = chunk * deep + warp; k < end; k += 8) {
            largest = max(largest, magnitude(from[(size_t)k * N]));
        }
    }
    of_warps[warp][lane] = largest;
    __syncthreads();
    if (warp == 0 && column < N) {
#pragma unroll
        for (int i = 1; i < 8; i++) {
            largest = max(largest, of_warps[i][lane]);
        }
        largest_b[((size_t)matrix * chunks + chunk) * N + column] = largest;
        if (chunk == 0) {
            counts_b[(size_t)matrix * N + column] = 0;
        }
    }
}

// What lifted numbers are multiplied by; where there is no lift, nobody reads them.
INLINE float scale_of(int lift) { return power_of_two(lift == NO_LIFT ? 0 : lift); }

// Read 8 numbers of a row, of which `count` are there. The others are 0.
INLINE void load8(float (&eight)[8], const float *from, int count) {
    if (count >= 8 && (size_t)from % 16 == 0) {
        *(float4 *)eight = *(const float4 *)from;
        *(float4 *)(eight + 4) = *(const float4 *)(from + 4);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            eight[i] = i < count ? from[i] : 0.0f;
        }
    }
}

// Write numbers rounded to T, and leave in them what that leaves out.
template <class T> INLINE void store8(Bits *to, float (&eight)[8]) {
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        pairs[i] = packed<T>(eight[2 * i], eight[2 * i + 1]);
        eight[2 * i] -= number<T>(pairs[i] & 0xffff);
        eight[2 * i + 1] -= number<T>(pairs[i] >> 16);
    }
    // As a plain assignment of a uint4, NVRTC 13 writes it in four parts.
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(pairs[0]),
                 "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
}

template <bool WIDE>
INLINE void store_planes(Bits *planes, const Panels &panels, int matrix, int row, int piece, float (&eight)[8]) {
#pragma unroll
    for (int i = 0; i < (WIDE ? 3 : 2); i++) {
        if (WIDE) {
            store8<__nv_bfloat16>(planes + panels.of_piece(matrix, FIRST_BFLOATS + i, piece, row), eight);
        } else {
            store8<__half>(planes + panels.of_piece(matrix, i, piece, row), eight);
        }
    }
}

// Count numbers of a row or column to its counts. Who adds the last ones sees whether halves do.
INLINE void add_counts(Counts *total, FewCounts few, int length, int *is_wide) {
    const Counts counts = widened(few);
    if (few > 0 && !halves_do(atomicAdd(total, counts) + counts, length)) {
        *is_wide = 1;
    }
}

// Count numbers of A, at most 8 by each thread. The threads of a warp are mostly in one row, and then one of them adds
// for all.
INLINE void add_counts_of_warp(Counts *totals, FewCounts counts, int row, bool is_inside, int length, int *is_wide) {
    if (!__any_sync(0xffffffff, counts > 0)) {
        return;
    }
    if (__shfl_sync(0xffffffff, row, 0) == __shfl_sync(0xffffffff, row, 31)) {
        counts = __reduce_add_sync(0xffffffff, counts);
        is_inside &= threadIdx.x % 32 == 0;
    }
    if (is_inside) {
        add_counts(&totals[row], counts, length, is_wide);
    }
}

// Multiply numbers by their scales, and count the first `count_inside`; those of one row have STEP 0, and one of each.
// Most numbers are not small.
template <bool WIDE, int STEP>
INLINE void lift8(float (&eight)[8], const float *scales, int count_inside, FewCounts *counts) {
    float lifted[8], least = SMALL;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        lifted[i] = eight[i] * scales[i * STEP];
        least = fminf(least, fabsf(lifted[i]));
    }
    if (!WIDE && least < SMALL) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (i < count_inside) {
                count(counts[i * STEP], eight[i], lifted[i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        eight[i] = lifted[i];
    }
}

// Split SPLIT_PIECES pieces of 8 numbers of A per thread.
template <bool WIDE>
INLINE void split_a(Bits *planes, const int *lifts, Counts *counts, int *is_wide, const float *A, int M, int K,
                    int matrix) {
    const int wide = up(K, DEPTH) / 8, first = blockIdx.x * SPLIT_PIECES * 256 + threadIdx.x;
    const Panels panels = panels_of_a(M, K);
    float eights[SPLIT_PIECES][8], scales[SPLIT_PIECES];
    A += (size_t)matrix * M * K;
#pragma unroll
    for (int i = 0; i < SPLIT_PIECES; i++) {
        const int number = first + i * 256, row = number / wide, piece = number - row * wide;
        if (row < M) {
            load8(eights[i], A + (size_t)row * K + piece * 8, K - piece * 8);
            scales[i] = scale_of(lifts[(size_t)matrix * M + row]);
        }
    }
#pragma unroll
    for (int i = 0; i < SPLIT_PIECES; i++) {
        const int number = first + i * 256, row = number / wide, piece = number - row * wide;
        FewCounts counts_here = 0;
        if (row < M) {
            lift8<WIDE, 0>(eights[i], &scales[i], K - piece * 8, &counts_here);
            store_planes<WIDE>(planes, panels, matrix, row, piece, eights[i]);
        }
        if (!WIDE) {
            add_counts_of_warp(counts + (size_t)matrix * M, counts_here, row, row < M, K, is_wide);
        }
    }
}

// Blocks are those of A, of SPLIT_PIECES times 256 pieces of 8 numbers, then those of B, of 64 columns and SPLIT_ROWS
// rows.
template <bool WIDE>
INLINE void split_matrices(Bits *planes_a, Bits *planes_b, const int *lifts_a, int *lifts_b, const unsigned *largest_b,
                           Counts *counts_a, Counts *counts_b, int *is_wide, const float *A, const float *B, int M, int N,
                           int K) {
    const int deep = up(K, DEPTH), matrix = blockIdx.y;
    const int blocks_a = (int)(((long long)M * (deep / 8) + SPLIT_PIECES * 256 - 1) / (SPLIT_PIECES * 256));
    if ((int)blockIdx.x < blocks_a) {
        split_a<WIDE>(planes_a, lifts_a, counts_a, is_wide, A, M, K, matrix);
        return;
    }
    __shared__ unsigned of_turns[4][64];
    __shared__ float scales[64];
    __shared__ FewCounts sums[64];
    static_assert(SPLIT_ROWS < 1024, "few numbers of a column are in a block");
    const int block = blockIdx.x - blocks_a, strips = (N + 63) / 64, strip = block % strips, part = block / strips;
    const int piece = threadIdx.x % 8, first = strip * 64 + piece * 8, end = min((part + 1) * SPLIT_ROWS, deep);
    float eights[SPLIT_PIECES][8];
#pragma unroll
    for (int i = 0; i < SPLIT_PIECES; i++) {
        const int row = part * SPLIT_ROWS + i * 32 + threadIdx.x / 8;
        if (row < end) {
            load8(eights[i], B + ((size_t)matrix * K + row) * N + first, row < K ? N - first : 0);
        }
    }
    const int x = threadIdx.x % 64, turn = threadIdx.x / 64, column = strip * 64 + x;
    unsigned largest = 0;
    if (column < N) {
#pragma unroll
        for (int chunk = turn; chunk < chunks; chunk += 4) {
            largest = max(largest, largest_b[((size_t)matrix * chunks + chunk) * N + column]);
        }
    }
    of_turns[turn][x] = largest;
    __syncthreads();
    if (turn == 0) {
#pragma unroll
        for (int i = 1; i < 4; i++) {
            largest = max(largest, of_turns[i][x]);
        }
        const int lift = lift_of(largest);
        scales[x] = scale_of(lift);
        sums[x] = 0;
        if (!WIDE && part == 0 && column < N) {
            lifts_b[(size_t)matrix * N + column] = lift;
        }
    }
    __syncthreads();

    const Panels panels = panels_of_b(K, N);
    FewCounts counts[8] = {};
#pragma unroll
    for (int i = 0; i < SPLIT_PIECES; i++) {
        const int row = part * SPLIT_ROWS + i * 32 + threadIdx.x / 8;
        if (row < end) {
            lift8<WIDE, 1>(eights[i], &scales[piece * 8], row < K ? N - first : 0, counts);
            store_planes<WIDE>(planes_b, panels, matrix, row, strip * 8 + piece, eights[i]);
        }
    }
    if (!WIDE) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (counts[i] > 0) {
                atomicAdd(&sums[piece * 8 + i], counts[i]);
            }
        }
        __syncthreads();
        if (turn == 0 && column < N) {
            add_counts(&counts_b[(size_t)matrix * N + column], sums[x], K, is_wide);
        }
    }
}

KERNEL void __launch_bounds__(256)
    split(Bits *planes_a, Bits *planes_b, int *lifts_b, Counts *counts_a, Counts *counts_b, int *routes,
          const int *lifts_a, const unsigned *largest_b, const float *__restrict__ A, const float *__restrict__ B, int M,
          int N, int K, int batch) {
    begin_next_step();
    wait_for_steps();
    split_matrices<false>(planes_a, planes_b, lifts_a, lifts_b, largest_b, counts_a, counts_b, routes + TO_WIDEN, A, B, M,
                          N, K);
}

KERNEL void __launch_bounds__(256)
    widen(Bits *planes_a, Bits *planes_b, const int *routes, const int *lifts_a, const unsigned *largest_b,
          const float *__restrict__ A, const float *__restrict__ B, int M, int N, int K, int batch) {
    begin_next_step();
    wait_for_steps();
    if (routes[TO_WIDEN]) {
        split_matrices<true>(planes_a, planes_b, lifts_a, nullptr, largest_b, nullptr, nullptr, nullptr, A, B, M, N, K);
    }
}

#endif
