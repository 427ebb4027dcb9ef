// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, for the fewest rows: a matrix times some vectors.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16; M is at most `few`. B is read once, and this takes all the time: so there are no tensor cores, whose tiles
// have 8 rows or more. What counts is that many loads are on their way, from the first moment on:
// - A thread has twice `ahead` vectors of B on their way, of 16 bytes. It asks for the first ones before the block
//   takes its part of A to shared memory.
// - B is K x N: a thread has eight columns, and `across` threads are beside one another; the others have other depths.
//   Their sums meet in shared memory.
// - B is N x K: a warp has `rows_b` rows of B, and its lanes have different depths. Their sums meet by shuffles.
//   `across` warps are beside one another; the others have other depths.
// - splits: the depth is split among blocks, too, so that all multiprocessors have enough of them. `together` of them
//   are a cluster, which adds up their sums. If a tile has several clusters, the last block adds up theirs, in the
//   order of the depth.
// - wide_b = 0: rows of B begin anywhere, but memory gives 16 bytes at once only from multiples of 16. The rows of a
//   thread are a multiple of 8 apart, so that all begin equally far behind such a multiple: by `shift` numbers. So no
//   number of B is moved. Where B is K x N, a thread loads vectors as they lie, its columns are `shift` further to the
//   left, and a block serves eight columns fewer. Where B is N x K, a warp moves A instead, once for all its rows.
//   The end of B may lie inside a vector. It is loaded number by number, to shared memory, and joins the others before
//   they are multiplied: a 0 in its place, times an infinity of A, would be NaN.
// On an H200 with bfloat16, the best found in some seconds take 0.0098 ms at 1x4096x4096, where cuBLAS takes 0.0124.
// Where rows of B begin anywhere, the best of some 20 configurations are on average 1.4 times as fast as cuBLAS for one
// row, and more for two to four. With rows at multiples of 16 bytes, mma_any is faster from some four rows on.
// Ideas: all common.
#include "portable.h"
#include "anywhere.h"
#include "hgemm/wgmma.h"

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
#define across 8 // threads beside one another, or warps where B is N x K
#endif
#ifndef ahead
#define ahead 4 // vectors that a thread loads at once
#endif
#ifndef rows_b
#define rows_b 1 // where B is N x K: rows of it that a warp has
#endif
#ifndef splits
#define splits 1 // parts of the depth
#endif
#ifndef together
#define together 1 // splits whose blocks are a cluster
#endif
#ifndef wide_b
#define wide_b 0 // 1 where the rows of B begin at multiples of 16 bytes
#endif

#if transposed_b
#define DOWN (threads / 32 / across)
#define COLUMNS (across * rows_b)            // of C, per block
#define UNIT (256 * DOWN * (ahead / rows_b)) // of the depth: what a block loads at once
#define FRONT (wide_b ? 0 : 1)               // vectors of A before those of the same depths of B
static_assert(ahead % rows_b == 0 && 32 % (few * rows_b) == 0, "a warp loads vectors of all of its rows");
#else
#define DOWN (threads / across)
#define COLUMNS (across * 8 - (wide_b ? 0 : 8))
#define UNIT (DOWN * ahead)
#define FRONT 0
static_assert(wide_b || DOWN % 8 == 0, "the rows of a thread begin equally far behind a multiple of 16 bytes");
#endif
#define CHUNK (8192 / few / (2 * UNIT) * (2 * UNIT)) // of the depth of A that is in shared memory
#define STRIDE (CHUNK / 8 + 2 * FRONT)               // vectors
#define PARTS (splits / together)
static_assert(threads % 32 == 0 && DOWN >= 1 && CHUNK > 0, "a block has whole rows of threads");
static_assert(splits % together == 0 && together <= 8, "a cluster has at most 8 blocks");

#if together > 1
#define CLUSTER __cluster_dims__(together, 1, 1)
#else
#define CLUSTER
#endif

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

// Eight neighbours of B, which begin at a multiple of 16 bytes. They are read once: the L1 cache is for A.
INLINE uint4 load_b(const Bits *vector) { return __ldcs((const uint4 *)vector); }

// Eight neighbours of A, which begin anywhere.
INLINE uint4 load_a(const Bits *source) {
    const int shift = shift_of(source);
    const uint4 *const vectors = (const uint4 *)(source - shift);
    return shift == 0 ? *vectors : moved(vectors[0], vectors[1], shift);
}

// Of eight numbers, those from number `first` on, as far as they lie before `end`; the others become 0.
INLINE uint4 between(const uint4 &eight, int first, int end) {
    const uint4 out = kept(eight, end), front = kept(eight, first);
    return make_uint4(out.x ^ front.x, out.y ^ front.y, out.z ^ front.z, out.w ^ front.w);
}

#if PARTS > 1
// Whether this block is the last of all that come here with the same semaphore. is_last_block() in parts.h tells the
// same, but takes longer: there, each thread fences what it has written, and here, one does it for the block.
INLINE bool is_last(int *semaphore) {
    __shared__ bool is_it;
    __syncthreads();
    if (threadIdx.x == 0) {
        int before;
        asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(semaphore) : "memory");
        is_it = before == PARTS - 1;
        if (is_it) {
            *semaphore = 0; // for the next launch
        }
    }
    __syncthreads();
    return is_it;
}
#endif

#if together > 1
// The float that block number `rank` of the cluster has where this one has `p`.
INLINE float read_block(const float *p, int rank) {
    unsigned address = (unsigned)__cvta_generic_to_shared(p);
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}
#endif

KERNEL void CLUSTER __launch_bounds__(threads, 1)
    few_rows(real *__restrict__ C, const real *__restrict__ A_numbers, const real *__restrict__ B_numbers,
             float *__restrict__ workspace, int *__restrict__ semaphores, int M, int N, int K, int batch, float alpha,
             float beta) {
    __shared__ uint4 part_a[few * STRIDE]; // row by row
    __shared__ float total[(transposed_b ? DOWN : 1) * few * COLUMNS];
    const int tile = blockIdx.x / splits, split = blockIdx.x % splits;
#if transposed_b
    const int wide = ((N + 8 * rows_b - 1) / (8 * rows_b) * 8 + across - 1) / across; // see column_of()
    const int units = (K + (wide_b ? 0 : 7) + UNIT - 1) / UNIT;
#else
    const int wide = (N + COLUMNS - 1) / COLUMNS;
    const int units = (K + UNIT - 1) / UNIT;
#endif
    const int matrix = tile / wide, place = tile - matrix * wide;
    const int begin = (int)((long long)units * split / splits) * UNIT;
    const int end = (int)((long long)units * (split + 1) / splits) * UNIT;
    const Bits *const A = (const Bits *)A_numbers + (size_t)matrix * M * K;
    const Bits *const B = (const Bits *)B_numbers + (size_t)matrix * K * N;
    const Bits *const end_b = (const Bits *)B_numbers + (size_t)batch * K * N;
    const auto is_whole = [&](const Bits *vector) { return wide_b || vector + 8 <= end_b; };
    unsigned cut = ~0u; // vectors that this thread multiplies before the one inside which B ends

#if transposed_b
    // The columns of C, which are rows of B, of warp number `warp` of those beside one another. Eight warps share
    // 8 * rows_b columns.
    const auto column_of = [&](int warp, int j) {
        const int w = place * across + warp;
        return w / 8 * (8 * rows_b) + w % 8 + j * 8;
    };
    const int lane = threadIdx.x % 32, beside = threadIdx.x / 32 % across, down = threadIdx.x / 32 / across;
    const int column = column_of(beside, 0), shift = wide_b ? 0 : shift_of(B + (size_t)column * K);
    const Bits *const rows = B + (size_t)column * K - shift;
    float sum[few][rows_b] = {};
    const int limit = min(end, K + shift);
    int next_k = begin + down * 256 + lane * 8;
    __shared__ uint4 lasts[threads / 32]; // at most one thread of a warp has it, as rows are a multiple of 8 apart
    uint4 *const last = lasts + threadIdx.x / 32;
    if (!wide_b && next_k < limit) {
        const int steps = (limit - 1 - next_k) / (DOWN * 256);
#pragma unroll
        for (int j = 0; j < rows_b; j++) {
            const Bits *const vector = rows + (size_t)j * 8 * K + next_k + steps * (DOWN * 256);
            cut = column + j * 8 < N && !is_whole(vector) ? steps * rows_b + j : cut;
        }
    }
    const auto load = [&](uint4(&to)[ahead], unsigned number) { // what this lane multiplies of the next unit
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            const Bits *const vector = rows + (size_t)(i % rows_b) * 8 * K + next_k;
            const bool is_there = column + i % rows_b * 8 < N && next_k < limit && (wide_b || i + number != cut);
            to[i] = is_there ? load_b(vector) : make_uint4(0, 0, 0, 0);
            next_k += i % rows_b == rows_b - 1 ? DOWN * 256 : 0;
        }
    };
    const auto multiply = [&](uint4(&from)[ahead], int chunk, int at) {
#pragma unroll
        for (int i = 0; i < ahead; i += rows_b) {
            const int k = at + (i / rows_b * DOWN + down) * 256 + lane * 8;
            const int first = shift - chunk - k; // of eight numbers; those before are of another row
            if (!wide_b && (first > 0 || first + K < 8)) {
#pragma unroll
                for (int j = 0; j < rows_b; j++) {
                    from[i + j] = between(from[i + j], first, first + K);
                }
            }
#pragma unroll
            for (int m = 0; m < few; m++) {
                const uint4 *const vector = part_a + m * STRIDE + k / 8 + (shift == 0 ? FRONT : 0);
                float a[8];
                unpack(wide_b ? *vector : moved(vector[0], vector[1], -shift & 7), a);
#pragma unroll
                for (int j = 0; j < rows_b; j++) {
                    float b[8];
                    unpack(from[i + j], b);
#pragma unroll
                    for (int e = 0; e < 8; e++) {
                        sum[m][j] += a[e] * b[e];
                    }
                }
            }
        }
    };
#else
    __shared__ float4 met[threads * 2];
    const int first_column = place * COLUMNS, beside = threadIdx.x % across, down = threadIdx.x / across;
    const auto column_of = [&](int x) { return first_column + x; };
    const int first_shift = shift_of(B + (size_t)begin * N + first_column);
    const auto shift_at = [&](int d) { return wide_b ? 0 : (first_shift + d * (N & 7)) & 7; };
    const int column = first_column + beside * 8 - shift_at(down), end_column = min(first_column + COLUMNS, N);
    float sum[few][8] = {};
    int limit = column < end_column ? min(end, K) : 0, next_k = begin + down;
    const Bits *next = B + ((long long)next_k * N + column);
    uint4 *const last = (uint4 *)met + threadIdx.x * 2;
    if (!wide_b && next_k < limit) {
        const int steps = (limit - 1 - next_k) / DOWN;
        if (!is_whole(next + (size_t)steps * DOWN * N)) {
            cut = steps;
            limit = next_k + steps * DOWN;
        }
    }
    const auto load = [&](uint4(&to)[ahead], unsigned) { // what this thread multiplies of the next unit
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            to[i] = next_k < limit ? load_b(next) : make_uint4(0, 0, 0, 0);
            next_k += DOWN;
            next += (size_t)DOWN * N;
        }
    };
    const auto multiply = [&](const uint4(&from)[ahead], int, int at) {
#pragma unroll
        for (int i = 0; i < ahead; i++) {
            float b[8];
            unpack(from[i], b);
#pragma unroll
            for (int m = 0; m < few; m++) {
                const float a = number<real>(((const Bits *)(part_a + m * STRIDE))[at + i * DOWN + down]);
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    sum[m][e] += a * b[e];
                }
            }
        }
    };
#endif

    const auto complete = [&](uint4(&to)[ahead]) {
        if (!wide_b && cut < ahead) {
#pragma unroll
            for (int i = 0; i < ahead; i++) {
                to[i] = i == cut ? *last : to[i];
            }
        }
        cut -= wide_b ? 0 : ahead;
    };
    uint4 first[ahead], second[ahead];
    load(first, 0);
    load(second, ahead);
    if (!wide_b && cut != ~0u) {
        *last = load_before(end_b - shift_of(end_b), end_b);
    }
#pragma unroll 1
    for (int chunk = begin; chunk < end; chunk += CHUNK) {
        const int length = min(CHUNK, end - chunk), vectors = (length + 7) / 8 + FRONT;
        const int first_k = chunk - FRONT * 8, inside = max(0, min(vectors, (K - 16 - first_k) / 8));
        __syncthreads();
#pragma unroll 2
        for (int v = threadIdx.x; v < inside; v += threads) {
#pragma unroll
            for (int m = 0; m < few; m++) {
                const int k = first_k + v * 8;
                part_a[m * STRIDE + v] = m < M && k >= 0 ? load_a(A + (size_t)m * K + k) : make_uint4(0, 0, 0, 0);
            }
        }
#pragma unroll 1
        for (int i = inside * 8 + threadIdx.x; i < vectors * 8; i += threads) { // vectors might lie behind A's end
            const int k = first_k + i;
#pragma unroll
            for (int m = 0; m < few; m++) {
                ((Bits *)(part_a + m * STRIDE))[i] = m < M && k >= 0 && k < K ? A[(size_t)m * K + k] : 0;
            }
        }
        __syncthreads();
#pragma unroll 1
        for (int at = 0; at < length; at += 2 * UNIT) {
            complete(first);
            multiply(first, chunk, at);
            load(first, ahead);
            if (at + UNIT < length) {
                complete(second);
                multiply(second, chunk, at + UNIT);
                load(second, ahead);
            }
        }
    }

    // The sums of the block.
#if transposed_b
    // With each step, a lane keeps half of its sums, as long as it has several: in the end it has that of one output.
    constexpr int SUMS = few * rows_b;
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const int half = SUMS * distance / 32;
        const bool has_upper = (lane & distance) != 0;
#pragma unroll
        for (int i = 0; i < max(half, 1); i++) {
            float &lower = sum[i / rows_b][i % rows_b], &upper = sum[(i + half) / rows_b][(i + half) % rows_b];
            const float own = has_upper ? upper : lower, given = has_upper ? lower : upper;
            lower = own + __shfl_xor_sync(0xffffffff, given, distance);
        }
    }
    if (lane % (32 / SUMS) == 0) {
        const int i = lane / (32 / SUMS);
        total[(down * few + i / rows_b) * COLUMNS + beside * rows_b + i % rows_b] = sum[0][0];
    }
    if (DOWN > 1) {
        __syncthreads();
        for (int i = threadIdx.x; i < few * COLUMNS; i += threads) {
#pragma unroll
            for (int d = 1; d < DOWN; d++) {
                total[i] += total[d * few * COLUMNS + i];
            }
        }
    }
#else
#pragma unroll
    for (int m = 0; m < few; m++) {
        __syncthreads();
        met[threadIdx.x * 2] = make_float4(sum[m][0], sum[m][1], sum[m][2], sum[m][3]);
        met[threadIdx.x * 2 + 1] = make_float4(sum[m][4], sum[m][5], sum[m][6], sum[m][7]);
        __syncthreads();
        for (int x = threadIdx.x; x < COLUMNS; x += threads) {
            float all = 0.0f;
#pragma unroll 8
            for (int d = 0; d < DOWN; d++) {
                all += ((const float *)met)[d * across * 8 + x + shift_at(d)];
            }
            total[m * COLUMNS + x] = all;
        }
    }
#endif

    // The sums of the block, of all blocks of the cluster, or of all of the tile, become outputs.
    const auto write = [&](int i, float all) {
        const int m = i / COLUMNS;
#if transposed_b
        const int x = column_of(i % COLUMNS / rows_b, i % rows_b);
#else
        const int x = column_of(i % COLUMNS);
#endif
        if (m < M && x < N) {
            Bits *const to = (Bits *)C + ((size_t)matrix * M + m) * N + x;
            const float value = beta != 0.0f ? alpha * all + beta * number<real>(*to) : alpha * all;
            *to = (Bits)packed<real>(value, 0.0f);
        }
    };
    const int rank = split % together, mine = rank * threads + threadIdx.x;
    float *const parts = workspace + (size_t)tile * PARTS * (few * COLUMNS);
#if together > 1
    sync_cluster();
#else
    __syncthreads();
#endif
#pragma unroll 1
    for (int i = mine; i < few * COLUMNS; i += together * threads) {
#if together > 1
        float all = 0.0f;
#pragma unroll
        for (int block = 0; block < together; block++) {
            all += read_block(total + i, block);
        }
#else
        const float all = total[i];
#endif
        if (PARTS == 1) {
            write(i, all);
        } else {
            __stcg(parts + (size_t)(split / together) * (few * COLUMNS) + i, all);
        }
    }
#if together > 1
    asm volatile("barrier.cluster.arrive.release;" ::: "memory"); // this block reads `total` of others no more
#endif
#if PARTS > 1
    if (is_last(semaphores + tile * together + rank)) {
#pragma unroll 1
        for (int i = mine; i < few * COLUMNS; i += together * threads) {
            float all = 0.0f;
#pragma unroll 8
            for (int part = 0; part < PARTS; part++) {
                all += __ldcg(parts + part * (few * COLUMNS) + i);
            }
            write(i, all);
        }
    }
#endif
#if together > 1
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
