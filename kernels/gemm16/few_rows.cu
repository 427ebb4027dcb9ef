// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, for the fewest rows: a matrix times some vectors.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16; M is at most `few`. B is read once, and this takes all the time: so there are no tensor cores, whose tiles
// have 8 rows or more. What counts is that many loads are on their way, from the first moment on:
// - A thread loads `ahead` vectors of B, of 16 bytes, while it multiplies those before. The first ones are on their way
//   before the block takes its part of A to shared memory.
// - B is K x N: a thread has eight columns, and `across` threads are beside one another; the others have other depths.
//   Their sums meet in shared memory.
// - B is N x K: a warp has `ahead` rows of B, and its lanes have different depths. Their sums meet by shuffles.
// - splits: the depth is split among blocks, too, so that all multiprocessors have enough of them. The last block of a
//   tile adds up their sums, in the order of the depth.
// - wide_b = 0: rows of B begin anywhere. A thread loads the two vectors that cover eight numbers, and moves them.
// On an H200 with bfloat16 the best found in some seconds take 0.0102 ms at 1x4096x4096, where cuBLAS takes 0.0125. From
// some 4 rows on, arithmetic takes longer than reading, and mma_any is faster.
// Ideas: all common.
#include "portable.h"
#include "anywhere.h"
#include "hgemm/wgmma.h"
#include "parts.h"

#ifndef real
#define real __half
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#ifndef few
#define few 4 // rows that are computed; those beyond M are not written
#endif
#ifndef threads
#define threads 256
#endif
#ifndef across
#define across 32 // where B is K x N: threads beside one another
#endif
#ifndef ahead
#define ahead 4 // vectors that a thread loads at once
#endif
#ifndef splits
#define splits 1 // parts of the depth
#endif
#ifndef wide_b
#define wide_b 0 // 1 where the rows of B begin at multiples of 16 bytes
#endif

#define DOWN (threads / across)
#if transposed_b
#define COLUMNS (threads / 32 * ahead) // of C, per block
#define UNIT 256                       // of the depth: what a warp reads at once of a row
#else
#define COLUMNS (across * 8)
#define UNIT (DOWN * ahead)
#endif
#define CHUNK (2048 / UNIT * UNIT) // of the depth of A that is in shared memory
static_assert(threads % 32 == 0 && threads % across == 0 && UNIT <= 1024, "a block has whole rows of threads");

// Two numbers as floats; the lower half comes first.
INLINE void unpack(unsigned both, float &first, float &second) {
    if constexpr (is_bfloat16<real>) {
        first = __uint_as_float(both << 16);
        second = __uint_as_float(both & 0xffff0000);
    } else {
        first = number<real>((Bits)both);
        second = number<real>((Bits)(both >> 16));
    }
}

INLINE void unpack(const uint4 &eight, float (&to)[8]) {
    unpack(eight.x, to[0], to[1]);
    unpack(eight.y, to[2], to[3]);
    unpack(eight.z, to[4], to[5]);
    unpack(eight.w, to[6], to[7]);
}

// Eight neighbours of B that are there. They are read once: the L1 cache is for A.
INLINE uint4 load_b(const Bits *source, const Bits *end) {
    if (wide_b) {
        return __ldcs((const uint4 *)source);
    }
    const int shift = shift_of(source);
    const Bits *const vectors = source - shift;
    return moved(load_before(vectors, end), load_before(vectors + 8, end), shift);
}

KERNEL void __launch_bounds__(threads, 1)
    few_rows(real *__restrict__ C, const real *__restrict__ A_numbers, const real *__restrict__ B_numbers,
             float *__restrict__ workspace, int *__restrict__ semaphores, int M, int N, int K, int batch, float alpha,
             float beta) {
    __shared__ float total[few * COLUMNS];
    __shared__ int last;
    const int wide = (N + COLUMNS - 1) / COLUMNS;
    const int tile = blockIdx.x / splits, split = blockIdx.x % splits, matrix = tile / wide;
    const int first_column = (tile - matrix * wide) * COLUMNS;
    const int units = (K + UNIT - 1) / UNIT;
    const int begin = (int)((long long)units * split / splits) * UNIT;
    const int end = min((int)((long long)units * (split + 1) / splits) * UNIT, K);
    const Bits *const A = (const Bits *)A_numbers + (size_t)matrix * M * K;
    const Bits *const B = (const Bits *)B_numbers + (size_t)matrix * K * N;
    const Bits *const end_b = (const Bits *)B_numbers + (size_t)batch * K * N;

#if transposed_b
    __shared__ uint4 part_a[few * CHUNK / 8]; // row by row
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = first_column + warp * ahead;
    float sum[few][ahead] = {};
    uint4 next[ahead];
    const auto load = [&](int k) { // what this lane multiplies at depth k
#pragma unroll
        for (int j = 0; j < ahead; j++) {
            const bool is_there = column + j < N && k < end;
            next[j] = is_there ? load_b(B + (size_t)(column + j) * K + k, end_b) : make_uint4(0, 0, 0, 0);
            if (!wide_b && k + 8 > end) {
                next[j] = kept(next[j], end - k); // what follows is the next row's
            }
        }
    };
    load(begin + lane * 8);
#pragma unroll 1
    for (int chunk = begin; chunk < end; chunk += CHUNK) {
        const int length = min(CHUNK, end - chunk), whole = (length + UNIT - 1) / UNIT * UNIT;
        __syncthreads();
        for (int k = threadIdx.x; k < whole; k += threads) {
#pragma unroll
            for (int m = 0; m < few; m++) {
                ((Bits *)part_a)[m * CHUNK + k] = m < M && k < length ? A[(size_t)m * K + chunk + k] : 0;
            }
        }
        __syncthreads();
#pragma unroll 1
        for (int k = lane * 8; k < whole; k += UNIT) {
            uint4 eight[ahead];
#pragma unroll
            for (int j = 0; j < ahead; j++) {
                eight[j] = next[j];
            }
            load(chunk + k + UNIT);
#pragma unroll
            for (int m = 0; m < few; m++) {
                float a[8];
                unpack(part_a[(m * CHUNK + k) / 8], a);
#pragma unroll
                for (int j = 0; j < ahead; j++) {
                    float b[8];
                    unpack(eight[j], b);
#pragma unroll
                    for (int e = 0; e < 8; e++) {
                        sum[m][j] += a[e] * b[e];
                    }
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < few; m++) {
#pragma unroll
        for (int j = 0; j < ahead; j++) {
            float all = sum[m][j];
#pragma unroll
            for (int distance = 16; distance > 0; distance /= 2) {
                all += __shfl_xor_sync(0xffffffff, all, distance);
            }
            if (lane == 0) {
                total[m * COLUMNS + warp * ahead + j] = all;
            }
        }
    }
    __syncthreads();
#else
    __shared__ __align__(16) float part_a[CHUNK * few]; // depth by depth
    __shared__ float4 met[threads * 2];
    const int beside = threadIdx.x % across, down = threadIdx.x / across, column = first_column + beside * 8;
    float sum[few][8] = {};
    uint4 next[ahead];
    const auto load = [&](int k) { // what this thread multiplies from depth k on, DOWN apart
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            const bool is_there = k + i * DOWN < end && column < N;
            next[i] = is_there ? load_b(B + (size_t)(k + i * DOWN) * N + column, end_b) : make_uint4(0, 0, 0, 0);
        }
    };
    load(begin + down);
#pragma unroll 1
    for (int chunk = begin; chunk < end; chunk += CHUNK) {
        const int length = min(CHUNK, end - chunk), whole = (length + UNIT - 1) / UNIT * UNIT;
        __syncthreads();
        for (int k = threadIdx.x; k < whole; k += threads) {
#pragma unroll
            for (int m = 0; m < few; m++) {
                part_a[k * few + m] = m < M && k < length ? number<real>(A[(size_t)m * K + chunk + k]) : 0.0f;
            }
        }
        __syncthreads();
#pragma unroll 1
        for (int k = down; k < whole; k += UNIT) {
            uint4 eight[ahead];
#pragma unroll
            for (int i = 0; i < ahead; i++) {
                eight[i] = next[i];
            }
            load(chunk + k + UNIT);
#pragma unroll
            for (int i = 0; i < ahead; i++) {
                float b[8];
                unpack(eight[i], b);
#pragma unroll
                for (int m = 0; m < few; m++) {
                    const float a = part_a[(k + i * DOWN) * few + m];
#pragma unroll
                    for (int e = 0; e < 8; e++) {
                        sum[m][e] += a * b[e];
                    }
                }
            }
        }
    }
#pragma unroll
    for (int m = 0; m < few; m++) {
        met[threadIdx.x * 2] = make_float4(sum[m][0], sum[m][1], sum[m][2], sum[m][3]);
        met[threadIdx.x * 2 + 1] = make_float4(sum[m][4], sum[m][5], sum[m][6], sum[m][7]);
        __syncthreads();
        for (int x = threadIdx.x; x < COLUMNS; x += threads) {
            float all = 0.0f;
#pragma unroll
            for (int i = 0; i < DOWN; i++) {
                all += ((const float *)met)[i * COLUMNS + x];
            }
            total[m * COLUMNS + x] = all;
        }
        __syncthreads();
    }
#endif

    // The sums of the block, or of all blocks of the tile, become outputs.
#if splits > 1
    float *const parts = workspace + (size_t)tile * splits * (few * COLUMNS);
    for (int i = threadIdx.x; i < few * COLUMNS; i += threads) {
        __stcg(parts + (size_t)split * (few * COLUMNS) + i, total[i]);
    }
    if (!is_last_block(semaphores + tile, &last, splits)) {
        return;
    }
#endif
    for (int i = threadIdx.x; i < few * COLUMNS; i += threads) {
        const int m = i / COLUMNS, x = first_column + i % COLUMNS;
        if (m < M && x < N) {
#if splits > 1
            float all = 0.0f;
#pragma unroll
            for (int part = 0; part < splits; part++) {
                all += __ldcg(parts + part * (few * COLUMNS) + i);
            }
#else
            const float all = total[i];
#endif
            Bits *const to = (Bits *)C + ((size_t)matrix * M + m) * N + x;
            const float value = beta != 0.0f ? alpha * all + beta * number<real>(*to) : alpha * all;
            *to = (Bits)packed<real>(value, 0.0f);
        }
    }
}
