// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, a rectangle per warp, tiles fetched while others are multiplied.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns, and
// each of its warps WM rows by WN columns of them, as in 12_warptiled: sub_m x sub_n rectangles, in each of which a
// lane has TM x TN outputs that lie together. Lanes always form squares (12's `quads`).
//
// Against 12_warptiled: shared memory has `stages` slots, each for a tile of A and a tile of B. While one tile is
// multiplied the next ones are on their way, so that nobody waits for global memory. One barrier per tile is enough:
//
//     fetched        slot 0: tile 0 | 1: tile 1 | 2: tile 2 | 0: tile 3 | 1: tile 4 ..     (stages = 3)
//     multiplied                    |           | 0: tile 0 | 1: tile 1 | 2: tile 2 ..
//
// How tiles get there (cp_async):
// - 0: through registers. They are loaded before a tile is multiplied, and stored to shared memory after it.
// - 1: B is copied by cp.async. The hardware then writes to shared memory by itself, and needs no registers.
// - 2: A is copied so too. Its tile is transposed, so that cp.async copies it float by float.
// In which order A is copied:
// - A warp copies slabs: 8 floats from each of several rows. They are 32 bytes, the least that global memory gives.
// - It copies 16 rows at once through registers, four floats per lane; 4 rows with cp.async, one float per lane.
// - A row of the tile is 4 floats longer than BM (12's `pad`, always). The floats that are stored at once then go to 32
//   different banks.
// What else is new:
// - fragments = 2: a thread reads what it multiplies at the next k from shared memory before it multiplies at this k,
//   from one tile to the next too.
// - group_m: blocks are walked in bands of group_m block rows. Those that run at the same time then share rows of A and
//   columns of B in the L2 cache.
// Idea: the batched kernel for an RTX 3050 names double buffering as its next step.
#include "portable.h"
#include "cp_async.h"
#include "float4.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 128 // rows per block
#endif
#ifndef BN
#define BN 128 // columns per block
#endif
#ifndef BK
#define BK 8 // depth of the tiles
#endif
#ifndef WM
#define WM 64 // rows per warp
#endif
#ifndef WN
#define WN 64 // columns per warp
#endif
#ifndef TM
#define TM 4 // rows per thread that lie together
#endif
#ifndef TN
#define TN 4 // columns per thread that lie together
#endif
#ifndef sub_m
#define sub_m 2 // rectangles per thread, below one another
#endif
#ifndef sub_n
#define sub_n 4 // rectangles per thread, side by side
#endif
#ifndef stages
#define stages 2 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef cp_async
#define cp_async 0 // what cp.async copies (CUDA, from sm_80 on): 0 nothing, 1 tiles of B, 2 tiles of A too
#endif
#ifndef fragments
#define fragments 2 // sets of registers for what a thread multiplies at one k; with 2 it reads one k ahead
#endif
#ifndef group_m
#define group_m 1 // block rows per band
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
#ifndef wide_k
#define wide_k 0 // 1 where K is a multiple of 4: 16-byte loads from the rows of A
#endif
#ifndef wide_n
#define wide_n 0 // 1 where N is a multiple of 4: 16-byte loads from the rows of B, and stores to those of C
#endif
#ifndef whole
#define whole 0 // 1 where M, N and K are known to be multiples of BM, BN and BK, so that nothing lies outside
#endif

#define THREADS (BM / WM * (BN / WN) * 32)
#define ROWS (sub_m * TM) // per thread
#define COLUMNS (sub_n * TN)
#define LANES_M (WM / ROWS)                         // lanes per warp, below one another
#define LANES_N (WN / COLUMNS)                      // side by side
#define ROW(i) ((i) / TM * (WM / sub_m) + (i) % TM) // from a thread's first row to its row i
#define COLUMN(j) ((j) / TN * (WN / sub_n) + (j) % TN)
#define PITCH_A (BM + 4)                           // floats from one row of the tile of A to the next
#define SLOT (BK * (PITCH_A + BN))                 // floats in a slot: the tile of A, and behind it that of B
#define COPY_FLOATS_A (cp_async == 2 ? 1 : 4)      // floats that a thread copies at once from A
#define COPY_ROWS_A (THREADS * COPY_FLOATS_A / BK) // rows of A that the block copies at once
#define COPY_ROWS_B (THREADS / (BN / 4))
#define AHEAD (fragments - 1) // how many k a thread reads ahead

#if BM % WM != 0 || BN % WN != 0
#error "the warps must fill the block: WM must divide BM, and WN BN"
#endif
#if WM % (2 * ROWS) != 0 || WN % (2 * COLUMNS) != 0 || LANES_M * LANES_N != 32
#error "8 squares of lanes must fill the warp's rectangle: WM / (sub_m * TM) by WN / (sub_n * TN) lanes, both even"
#endif
#if BK % 8 != 0 || TM % 4 != 0 || TN % 4 != 0
#error "tiles are copied and read four floats, slabs eight floats at a time: 8 must divide BK, and 4 TM and TN"
#endif
#if THREADS % (4 * BK) != 0 || BM * BK % (COPY_FLOATS_A * THREADS) != 0
#error "the threads must copy whole slabs of the tile of A, in whole rounds"
#endif
#if THREADS % (BN / 4) != 0 || BK * BN % (4 * THREADS) != 0
#error "the threads must copy whole rows of the tile of B, in whole rounds"
#endif
#if stages < 2 || fragments < 1 || fragments > 2 || cp_async < 0 || cp_async > 2
#error "stages: at least 2; fragments: 1 or 2; cp_async: 0, 1 or 2"
#endif
#if cp_async && defined __OPENCL_VERSION__
#error "cp_async is CUDA's"
#endif

#include "outputs.h"

// Begin to fetch this thread's part of a tile of A, whose first floats *A lie in row `row`, with `columns` floats from
// there to the end of the row. What lies outside of A becomes 0.
INLINE void fetch_tile_a(LOCAL float *store_a, float4 *next_a, GLOBAL const float *A, int M, int K, int row,
                         int columns) {
#pragma unroll
    for (int i = 0; i < BM; i += COPY_ROWS_A) {
        const int left = whole ? 4 : row + i < M ? columns : 0;
#if cp_async == 2
        copy_async1(store_a + i, A + (size_t)i * K, left > 0);
#else
        next_a[i / COPY_ROWS_A] = load4(A + (size_t)i * K, left, wide_k);
#endif
    }
}

// The same for B.
INLINE void fetch_tile_b(LOCAL float *store_b, float4 *next_b, GLOBAL const float *B, int N, int K, int row,
                         int columns) {
#pragma unroll
    for (int k = 0; k < BK; k += COPY_ROWS_B) {
        const int left = whole ? 4 : row + k < K ? columns : 0;
#if cp_async
        copy_async4(store_b + k * BN, B + (size_t)k * N, left, wide_n);
#else
        next_b[k / COPY_ROWS_B] = load4(B + (size_t)k * N, left, wide_n);
#endif
    }
}

// Have the next tile in shared memory: store what came through registers, wait for what cp.async copies.
INLINE void complete_tiles(LOCAL float *store_a, LOCAL float *store_b, const float4 *next_a, const float4 *next_b) {
#if cp_async < 2
#pragma unroll
    for (int i = 0; i < BM; i += COPY_ROWS_A) {
        const float4 four = next_a[i / COPY_ROWS_A];
        store_a[i] = four.x, store_a[i + PITCH_A] = four.y;
        store_a[i + 2 * PITCH_A] = four.z, store_a[i + 3 * PITCH_A] = four.w;
    }
#endif
#if cp_async
    wait_for_copies(stages - 2);
#else
#pragma unroll
    for (int k = 0; k < BK; k += COPY_ROWS_B) {
        SHARED4(store_b + k * BN) = next_b[k / COPY_ROWS_B];
    }
#endif
}

// Read what a thread multiplies at one k; its first values there are *a and *b.
INLINE void read_fragments(float *fragment_a, float *fragment_b, LOCAL const float *a, LOCAL const float *b) {
#pragma unroll
    for (int i = 0; i < ROWS; i += 4) {
        const float4 four = SHARED4(a + ROW(i));
        fragment_a[i] = four.x, fragment_a[i + 1] = four.y, fragment_a[i + 2] = four.z, fragment_a[i + 3] = four.w;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; j += 4) {
        const float4 four = SHARED4(b + COLUMN(j));
        fragment_b[j] = four.x, fragment_b[j + 1] = four.y, fragment_b[j + 2] = four.z, fragment_b[j + 3] = four.w;
    }
}

// Multiply the tiles at all k, but for the last one where a thread reads ahead. Its first values are *a and *b.
INLINE void multiply_tiles(float (*sum)[COLUMNS], float (*fragment_a)[ROWS], float (*fragment_b)[COLUMNS],
                           LOCAL const float *a, LOCAL const float *b) {
#pragma unroll
    for (int k = 0; k < BK - AHEAD; k++) {
        const int read_k = k + AHEAD, set = read_k % fragments;
        read_fragments(fragment_a[set], fragment_b[set], a + read_k * PITCH_A, b + read_k * BN);
        multiply(sum, fragment_a[k % fragments], fragment_b[k % fragments]);
    }
}

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_double_buffered(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                           GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                           float beta) {
#ifdef __OPENCL_VERSION__
    __shared__ ALIGNED float shared[stages * SLOT];
#else
    extern __shared__ ALIGNED float shared[]; // as many: beyond 48 KiB they can only be had at launch
#endif

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block in a band of group_m block rows, which begins at block row `band`.
    const int blocks_x = gridDim.x, block = blockIdx.y * blocks_x + blockIdx.x;
    const int band = block / (group_m * blocks_x) * group_m, band_rows = min((int)gridDim.y - band, group_m);
    const int in_band = block - band * blocks_x;
    const int block_column = in_band / band_rows * BN, block_row = (band + in_band % band_rows) * BM;

    // Place this thread in the block, and the first floats that it copies in the tiles.
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, quad = lane / 4;
    const int lane_x = quad % (LANES_N / 2) * 2 + lane / 2 % 2, lane_y = quad / (LANES_N / 2) * 2 + lane % 2;
    const int thread_column = warp % (BN / WN) * WN + lane_x * TN, thread_row = warp / (BN / WN) * WM + lane_y * TM;
    const int copy_k_a = thread % (8 / COPY_FLOATS_A) * COPY_FLOATS_A + thread / 32 % (BK / 8) * 8;
    const int copy_row_a = thread / (8 / COPY_FLOATS_A) % (4 * COPY_FLOATS_A) + thread / (4 * BK) * (4 * COPY_FLOATS_A);
    const int copy_k_b = thread / (BN / 4), copy_column_b = thread % (BN / 4) * 4;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)(block_row + copy_row_a) * K + copy_k_a;
    B += b * K * N + (size_t)copy_k_b * N + block_column + copy_column_b;
    C += b * M * N;

    float sum[ROWS][COLUMNS], fragment_a[fragments][ROWS], fragment_b[fragments][COLUMNS];
    float4 next_a[BM / COPY_ROWS_A], next_b[BK / COPY_ROWS_B]; // on their way through registers
    clear(sum);

    // This thread's places in the slot that it stores to, and in the one behind it, which it reads.
    LOCAL float *store_a = shared + copy_k_a * PITCH_A + copy_row_a;
    LOCAL float *store_b = shared + BK * PITCH_A + copy_k_b * BN + copy_column_b;
    LOCAL const float *read_a = shared + SLOT + thread_row, *read_b = shared + SLOT + BK * PITCH_A + thread_column;
    int slot = 0; // that is stored to

    // Each round fetches the tile from fetch_k on, and multiplies the one from k0 on, which is stages - 1 tiles behind.
    // The first rounds have k0 < 0 and only fetch, the last ones only multiply.
    for (int k0 = (1 - stages) * BK, fetch_k = 0; k0 < K; k0 += BK, fetch_k += BK) {
        if (fetch_k < K) {
            fetch_tile_a(store_a, next_a, A, M, K, block_row + copy_row_a, K - fetch_k - copy_k_a);
            fetch_tile_b(store_b, next_b, B, N, K, fetch_k + copy_k_b, N - block_column - copy_column_b);
            A += BK, B += (size_t)BK * N;
        }
#if cp_async
        commit_copies();
#endif
        if (k0 >= 0) {
            multiply_tiles(sum, fragment_a, fragment_b, read_a, read_b);
        }
        complete_tiles(store_a, store_b, next_a, next_b);
        __syncthreads(); // the next tile is complete, and nobody reads this one any more

        // Go on to the next slots.
        const int store_step = slot == stages - 1 ? SLOT - stages * SLOT : SLOT;
        const int read_step = slot == stages - 2 ? SLOT - stages * SLOT : SLOT;
        store_a += store_step, store_b += store_step, read_a += read_step, read_b += read_step;
        slot = slot == stages - 1 ? 0 : slot + 1;
#if AHEAD
        read_fragments(fragment_a[0], fragment_b[0], read_a, read_b);
        if (k0 >= 0) {
            multiply(sum, fragment_a[1], fragment_b[1]);
        }
#endif
    }

    // Write.
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4) {
            const int row = block_row + thread_row + ROW(i), column = block_column + thread_column + COLUMN(j);
            const float4 four = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            write4(C + (size_t)row * N + column, four, alpha, beta, row < M ? N - column : 0, wide_n);
        }
    }
}
