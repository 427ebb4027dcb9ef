// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, for few rows: B is streamed from memory once, at the memory's rate.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch * splits). With M of 1 to 64, a value of B serves
// M products only. What bounds the time is how fast B comes from memory, not arithmetic.
//
// A thread has `rows` x 4 * vectors outputs in registers: rows below one another, and `vectors` times four columns. It
// walks down its columns of B, and reads 16 bytes of a row at once, `depth` rows in one step, past shared memory: no other
// thread needs them. All lanes of a warp read the same values of A, which the L1 cache gives to them at once. So the loop
// has no barrier. A block is `across` threads side by side and `deep` parts of the depth below one another:
//
//     columns      0 .. 4 across - 1                    (and 4 across .. 8 across - 1, where vectors = 2)
//     depth        part 0: threads 0 .. across - 1
//                  part 1: threads across .. 2 across - 1
//                  ..
//
// The parts of a block meet in shared memory, four sums of each thread at a time. Beyond that, the depth is cut into
// `splits`, each of which has a block of its own. These meet in a workspace: a semaphore counts them, and the last one
// adds up all. Both in the order of the depth, so that C has the same bits each time.
//
// Against 14_split_k: B does not pass through shared memory, and a tile may have one row. `ahead` = 1 begins to load the
// next step before this one is multiplied.
// On an H200 the best take 0.018 ms at 4x4096x4096, 0.060 at 1x8192x8192 and 0.081 at 16x8192x8192: 3.9, 1.04 and 1.9
// times as fast as cuBLAS. With one row that is 97 % of what memory gives, with 16 it is 72 %.
// Idea: matrix-vector products, as in CUTLASS's GEMV and in the BLAS of every vendor.
#include "portable.h"
#include "float4.h"
#include "launch_bounds.h"
#include "parts.h"

#ifndef splits
#define splits 4 // parts of the depth, each in blocks of its own
#endif
#ifndef rows
#define rows 8 // rows per thread and block
#endif
#ifndef vectors
#define vectors 1 // times four columns per thread
#endif
#ifndef across
#define across 32 // threads side by side
#endif
#ifndef deep
#define deep 4 // parts of the depth in a block
#endif
#ifndef depth
#define depth 8 // rows of B per step
#endif
#ifndef ahead
#define ahead 0 // 1: the next step is loaded before this one is multiplied
#endif
#ifndef min_blocks
#define min_blocks 0 // blocks that a multiprocessor must hold at once, whatever that costs in registers; 0: any number
#endif
#ifndef fixed_n
#define fixed_n 0 // N if it is known when compiling, so that addresses become constants; else 0
#endif
#ifndef fixed_k
#define fixed_k 0 // K, likewise
#endif
#ifndef whole_m
#define whole_m 0 // 1 where M is a multiple of `rows`, so that no row lies outside
#endif
#ifndef whole_k
#define whole_k 0 // 1 where K is a multiple of `depth`, so that steps are whole
#endif
#ifndef wide_k
#define wide_k 0 // 1 where K is a multiple of 4: 16-byte loads from the rows of A
#endif
#ifndef wide_n
#define wide_n 0 // 1 where N is a multiple of 4: 16-byte loads from the rows of B, and stores to those of C
#endif

#define THREADS (across * deep)
#define COLUMNS (4 * vectors)            // per thread
#define FOURS (rows * vectors)           // outputs per thread, four at a time
#define AT_ONCE (FOURS < 4 ? FOURS : 4)  // of these, as many meet in shared memory at once

#if depth % 4 != 0
#error "four rows of B meet four values of a row of A: 4 must divide depth"
#endif
#if FOURS % AT_ONCE != 0
#error "sums meet in whole rounds: rows * vectors is 1, 2, 3 or a multiple of 4"
#endif

// Load this thread's columns in the `depth` rows of B from k on, of which those before `end` are its own; *B is in row
// k, and `left` are the floats from there to the end of the row. The others become 0. Nobody needs them again.
INLINE void load_step(float4 (*b)[vectors], GLOBAL const float *B, int N, int k, int end, int left) {
#pragma unroll
    for (int j = 0; j < depth; j++) {
#pragma unroll
        for (int v = 0; v < vectors; v++) {
            GLOBAL const float *p = B + (size_t)j * N + v * 4 * across;
            const int there = whole_k || k + j < end;
#if wide_n && !defined __OPENCL_VERSION__
            b[j][v] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (there && (vectors == 1 || left > v * 4 * across)) {
                b[j][v] = __ldcs((const float4 *)p);
            }
#else
            b[j][v] = load4(p, there ? left - v * 4 * across : 0, wide_n);
#endif
        }
    }
}

// sum += the values of A, whose first row is *A from k on, times these rows of B.
INLINE void multiply_step(float (*sum)[COLUMNS], GLOBAL const float *A, float4 (*b)[vectors], int M, int K, int row,
                          int k, int end) {
#pragma unroll
    for (int j = 0; j < depth; j += 4) {
#pragma unroll
        for (int i = 0; i < rows; i++) {
            const int left = whole_k ? 4 : end - k - j;
            const float4 a = load4(A + (size_t)i * K + j, whole_m || row + i < M ? left : 0, wide_k);
#pragma unroll
            for (int v = 0; v < vectors; v++) {
                float *s = sum[i] + 4 * v;
                s[0] += a.x * b[j][v].x, s[1] += a.x * b[j][v].y, s[2] += a.x * b[j][v].z, s[3] += a.x * b[j][v].w;
                s[0] += a.y * b[j + 1][v].x, s[1] += a.y * b[j + 1][v].y;
                s[2] += a.y * b[j + 1][v].z, s[3] += a.y * b[j + 1][v].w;
                s[0] += a.z * b[j + 2][v].x, s[1] += a.z * b[j + 2][v].y;
                s[2] += a.z * b[j + 2][v].z, s[3] += a.z * b[j + 2][v].w;
                s[0] += a.w * b[j + 3][v].x, s[1] += a.w * b[j + 3][v].y;
                s[2] += a.w * b[j + 3][v].z, s[3] += a.w * b[j + 3][v].w;
            }
        }
    }
}

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_skinny(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A, GLOBAL const float *__restrict__ B,
                  GLOBAL float *__restrict__ workspace, GLOBAL int *__restrict__ semaphores, int M, int N, int K,
                  int batch, float alpha, float beta) {
    __shared__ ALIGNED float shared[AT_ONCE * THREADS * 4];
#if splits > 1
    __shared__ int last;
#endif

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place this thread: its outputs, and its part of the depth, in steps.
    const int thread = threadIdx.x, x = thread % across;
    const int block_column = blockIdx.x * across * COLUMNS, block_row = blockIdx.y * rows;
    const int split = blockIdx.z % splits, part = split * deep + thread / across, steps = (K + depth - 1) / depth;
    const int begin = (int)((size_t)steps * part / (splits * deep)) * depth;
    const int end = min((int)((size_t)steps * (part + 1) / (splits * deep)) * depth, K);
    const size_t b = blockIdx.z / splits;
    // Floats from its first column to the end of the row. A thread behind that takes columns that others have, too.
    const int left = N - block_column - 4 * x;
    A += b * M * K + (size_t)block_row * K + begin;
    B += b * K * N + (size_t)begin * N + (wide_n && left <= 0 ? 0 : block_column + 4 * x);
    C += b * M * N;

    float sum[rows][COLUMNS];
#pragma unroll
    for (int i = 0; i < rows; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            sum[i][j] = 0.0f;
        }
    }

#if ahead
    float4 even[depth][vectors], odd[depth][vectors];
    if (begin < end) {
        load_step(even, B, N, begin, end, left);
    }
    for (int k = begin; k < end; k += 2 * depth) {
        if (k + depth < end) {
            load_step(odd, B + (size_t)depth * N, N, k + depth, end, left);
        }
        multiply_step(sum, A, even, M, K, block_row, k, end);
        if (k + 2 * depth < end) {
            load_step(even, B + (size_t)(2 * depth) * N, N, k + 2 * depth, end, left);
        }
        if (k + depth < end) {
            multiply_step(sum, A + depth, odd, M, K, block_row, k + depth, end);
        }
        A += 2 * depth, B += (size_t)(2 * depth) * N;
    }
#else
    float4 now[depth][vectors];
    for (int k = begin; k < end; k += depth) {
        load_step(now, B, N, k, end, left);
        multiply_step(sum, A, now, M, K, block_row, k, end);
        A += depth, B += (size_t)depth * N;
    }
#endif

    // The parts of the block meet: AT_ONCE fours of each thread at a time. Then `across` times as many are complete.
#if splits > 1
    const size_t tile = (b * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    GLOBAL float *tile_sums = workspace + tile * splits * (FOURS * across * 4);
#endif
#pragma unroll
    for (int f0 = 0; f0 < FOURS; f0 += AT_ONCE) {
#pragma unroll
        for (int f = 0; f < AT_ONCE; f++) {
            const int i = (f0 + f) / vectors, j = (f0 + f) % vectors * 4;
            SHARED4(shared + (f * THREADS + thread) * 4) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
        __syncthreads();
        for (int n = thread; n < AT_ONCE * across; n += THREADS) {
            LOCAL const float *parts_of = shared + (n / across * THREADS + n % across) * 4;
            float4 all = SHARED4(parts_of);
#pragma unroll
            for (int p = 1; p < deep; p++) {
                const float4 other = SHARED4(parts_of + p * across * 4);
                all.x += other.x, all.y += other.y, all.z += other.z, all.w += other.w;
            }
#if splits > 1
            WRITE_PART4(tile_sums + (split * FOURS * across + f0 * across + n) * 4, all);
#else
            const int f = f0 + n / across, row = block_row + f / vectors;
            const int column = block_column + (f % vectors * across + n % across) * 4;
            write4(C + (size_t)row * N + column, all, alpha, beta, row < M ? N - column : 0, wide_n);
#endif
        }
        __syncthreads(); // shared memory may be written again
    }

#if splits > 1
    if (!is_last_block(semaphores + tile, &last, splits)) {
        return;
    }
    for (int n = thread; n < FOURS * across; n += THREADS) {
        float4 all = READ_PART4(tile_sums + n * 4);
#pragma unroll
        for (int s = 1; s < splits; s++) {
            const float4 other = READ_PART4(tile_sums + (s * FOURS * across + n) * 4);
            all.x += other.x, all.y += other.y, all.z += other.z, all.w += other.w;
        }
        const int f = n / across, row = block_row + f / vectors;
        const int column = block_column + (f % vectors * across + n % across) * 4;
        write4(C + (size_t)row * N + column, all, alpha, beta, row < M ? N - column : 0, wide_n);
    }
#endif
}
