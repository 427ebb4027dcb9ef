// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, a rectangle a warp, tiles fetched while others are multiplied.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch). A block computes BM rows by BN columns, and
// each of its warps WM rows by WN columns of them, as in 12_warptiled: sub_m x sub_n rectangles, in each of which a
// lane has TM x TN outputs that lie together. Lanes are always in quads.
//
// Against 12_warptiled: shared memory holds `stages` tiles of A and of B. While one is multiplied the others are on
// their way, so that nobody waits for global memory, and one barrier a tile is enough:
//
//     fetched to     stage 0: tile 0 | 1: tile 1 | 2: tile 2 | 0: tile 3 | 1: tile 4 ..     (stages = 3)
//     multiplied                     |           | 0: tile 0 | 1: tile 1 | 2: tile 2 ..
//
// cp_async: the hardware copies to shared memory by itself; 2 copies A too, float by float, because that transposes it.
// Otherwise tiles go through registers, which are loaded before a tile is multiplied, and stored after.
// Four rows of A (16 through registers) are copied at once by a warp, 8 floats of each (a slab), which are 32 bytes,
// the least that global memory gives at once; a row of the tile is 4 floats longer than BM (12's `pad`, always), so
// that they are stored to 32 different banks.
// fragments = 2: what a thread multiplies at the next k is read from shared memory before it multiplies at this k, from
// one tile to the next too. group_m: blocks are walked in bands of group_m block rows, so that those that run at the
// same time share rows of A and columns of B in the L2 cache.
// Idea: the batched kernel for an RTX 3050 names double buffering as its next step.
#include "portable.h"
#include "cp_async.h"
#include "float4.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 128 // rows a block
#endif
#ifndef BN
#define BN 128 // columns a block
#endif
#ifndef BK
#define BK 8 // depth of the tiles
#endif
#ifndef WM
#define WM 64 // rows a warp
#endif
#ifndef WN
#define WN 64 // columns a warp
#endif
#ifndef TM
#define TM 4 // rows of a thread that lie together
#endif
#ifndef TN
#define TN 4 // columns of a thread that lie together
#endif
#ifndef sub_m
#define sub_m 2 // such rectangles of a thread below one another
#endif
#ifndef sub_n
#define sub_n 4 // and beside one another
#endif
#ifndef stages
#define stages 2 // tiles in shared memory
#endif
#ifndef cp_async
#define cp_async 0 // what cp.async copies, CUDA's from sm_80 on: 0 nothing, 1 tiles of B, 2 those of A too
#endif
#ifndef fragments
#define fragments 2 // sets of registers for what a thread multiplies at one k; with 2 it reads ahead
#endif
#ifndef group_m
#define group_m 1 // block rows in a band
#endif
#ifndef min_blocks
#define min_blocks 0 // blocks that must fit on a multiprocessor together, whatever it costs in registers; 0: any
#endif
#ifndef fixed_n
#define fixed_n 0 // N where the compiler is told it, so that addresses become constants; else 0
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
#define ROWS (sub_m * TM) // of a thread
#define COLUMNS (sub_n * TN)
#define LANES_M (WM / ROWS)
#define LANES_N (WN / COLUMNS)
#define ROW(i) ((i) / TM * (WM / sub_m) + (i) % TM) // from a thread's first row to its row i
#define COLUMN(j) ((j) / TN * (WN / sub_n) + (j) % TN)
#define PITCH (BM + 4) // floats in a row of the tile of A
#define STAGE (BK * (PITCH + BN)) // floats in a stage: the tile of A, and behind it that of B
#define WIDTH (cp_async == 2 ? 1 : 4) // floats in one copy from A
#define STEP_A (THREADS * WIDTH / BK) // rows of A, and rows of B, that the block copies at once
#define STEP_B (THREADS / (BN / 4))
#define AHEAD (fragments - 1) // how far a thread reads ahead

#if BM % WM != 0 || BN % WN != 0
#error "the warps must fill the block: WM must divide BM, and WN BN"
#endif
#if WM % (2 * ROWS) != 0 || WN % (2 * COLUMNS) != 0 || LANES_M * LANES_N != 32
#error "8 quads of lanes must fill the warp's rectangle: WM / (sub_m * TM) by WN / (sub_n * TN) lanes, both even"
#endif
#if BK % 8 != 0 || TM % 4 != 0 || TN % 4 != 0
#error "tiles are copied and read four floats, slabs eight floats at a time: 8 must divide BK, and 4 TM and TN"
#endif
#if THREADS % (4 * BK) != 0 || BM * BK % (WIDTH * THREADS) != 0
#error "the threads must be whole slabs of the tile of A, and fill it in whole rounds"
#endif
#if THREADS % (BN / 4) != 0 || BK * BN % (4 * THREADS) != 0
#error "the threads must be whole rows of the tile of B, and fill it in whole rounds"
#endif
#if stages < 2 || fragments < 1 || fragments > 2 || cp_async < 0 || cp_async > 2
#error "stages: at least 2; fragments: 1 or 2; cp_async: 0, 1 or 2"
#endif
#if cp_async && defined __OPENCL_VERSION__
#error "cp_async is CUDA's"
#endif

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

INLINE void multiply(float (*sum)[COLUMNS], const float *fragment_a, const float *fragment_b) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            sum[i][j] += fragment_a[i] * fragment_b[j];
        }
    }
}

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_double_buffered(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                           GLOBAL const float *__restrict__ B, int M, int N, int K, int batch, float alpha,
                           float beta) {
#ifdef __OPENCL_VERSION__
    __shared__ ALIGNED float shared[stages * STAGE];
#else
    extern __shared__ ALIGNED float shared[]; // as many: beyond 48 KiB they can only be had at launch
#endif

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block, in bands of group_m block rows, this thread in it, and the first floats that it copies.
    const int across = gridDim.x, block = blockIdx.y * across + blockIdx.x, band = block / (group_m * across) * group_m;
    const int high = min((int)gridDim.y - band, group_m), in_band = block - band * across;
    const int column0 = in_band / high * BN, row0 = (band + in_band % high) * BM;
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, quad = lane / 4;
    const int lane_x = quad % (LANES_N / 2) * 2 + lane / 2 % 2, lane_y = quad / (LANES_N / 2) * 2 + lane % 2;
    const int tx = warp % (BN / WN) * WN + lane_x * TN, ty = warp / (BN / WN) * WM + lane_y * TM;
    const int ak = thread % (8 / WIDTH) * WIDTH + thread / 32 % (BK / 8) * 8;
    const int ai = thread / (8 / WIDTH) % (4 * WIDTH) + thread / (4 * BK) * (4 * WIDTH);
    const int bk = thread / (BN / 4), bj = thread % (BN / 4) * 4;
    const size_t b = blockIdx.z;
    A += b * M * K + (size_t)(row0 + ai) * K + ak;
    B += b * K * N + (size_t)bk * N + column0 + bj;
    C += b * M * N;

    float sum[ROWS][COLUMNS], fragment_a[fragments][ROWS], fragment_b[fragments][COLUMNS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            sum[i][j] = 0.0f;
        }
    }
#if cp_async < 2
    float4 next_a[BM / STEP_A];
#endif
#if cp_async < 1
    float4 next_b[BK / STEP_B];
#endif

    // In each round the tile from k0 on is multiplied, and the one stages - 1 tiles ahead is fetched, from k1 on. The
    // first rounds have k0 < 0 and only fetch. The pointers are this thread's places in the stages that it copies to
    // (`stage`, the last one multiplied) and reads from (the one behind it).
    LOCAL float *to_a = shared + ak * PITCH + ai, *to_b = shared + BK * PITCH + bk * BN + bj;
    LOCAL const float *at_a = shared + STAGE + ty, *at_b = shared + STAGE + BK * PITCH + tx;
    int stage = 0;
    for (int k0 = (1 - stages) * BK, k1 = 0; k0 < K; k0 += BK, k1 += BK) {
        // Fetch, unless the last tile is already on its way; what lies outside the matrices becomes 0.
        if (k1 < K) {
#pragma unroll
            for (int i = 0; i < BM; i += STEP_A) {
                const int left = whole ? 4 : row0 + ai + i < M ? K - k1 - ak : 0;
#if cp_async == 2
                copy_async1(to_a + i, A + (size_t)i * K, left > 0);
#else
                next_a[i / STEP_A] = load4(A + (size_t)i * K, left, wide_k);
#endif
            }
#pragma unroll
            for (int k = 0; k < BK; k += STEP_B) {
                const int left = whole ? 4 : k1 + bk + k < K ? N - column0 - bj : 0;
#if cp_async
                copy_async4(to_b + k * BN, B + (size_t)k * N, left, wide_n);
#else
                next_b[k / STEP_B] = load4(B + (size_t)k * N, left, wide_n);
#endif
            }
            A += BK, B += (size_t)BK * N;
        }
#if cp_async
        commit_copies();
#endif

        // Multiply.
        if (k0 >= 0) {
#pragma unroll
            for (int k = 0; k < BK - AHEAD; k++) {
                const int ahead = k + AHEAD;
                read_fragments(fragment_a[ahead % fragments], fragment_b[ahead % fragments], at_a + ahead * PITCH,
                               at_b + ahead * BN);
                multiply(sum, fragment_a[k % fragments], fragment_b[k % fragments]);
            }
        }

        // Land: behind the barrier the next tile is complete, and nobody reads this one any more.
#if cp_async < 2
#pragma unroll
        for (int i = 0; i < BM; i += STEP_A) {
            const float4 four = next_a[i / STEP_A];
            to_a[i] = four.x, to_a[i + PITCH] = four.y, to_a[i + 2 * PITCH] = four.z, to_a[i + 3 * PITCH] = four.w;
        }
#endif
#if cp_async
        wait_for_copies(stages - 2);
#else
#pragma unroll
        for (int k = 0; k < BK; k += STEP_B) {
            SHARED4(to_b + k * BN) = next_b[k / STEP_B];
        }
#endif
        __syncthreads();
        const int step_to = stage == stages - 1 ? STAGE - stages * STAGE : STAGE;
        const int step_at = stage == stages - 2 ? STAGE - stages * STAGE : STAGE;
        to_a += step_to, to_b += step_to, at_a += step_at, at_b += step_at;
        stage = stage == stages - 1 ? 0 : stage + 1;
#if AHEAD
        read_fragments(fragment_a[0], fragment_b[0], at_a, at_b);
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
            const int row = row0 + ty + ROW(i), column = column0 + tx + COLUMN(j);
            const float4 four = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            write4(C + (size_t)row * N + column, four, alpha, beta, row < M ? N - column : 0, wide_n);
        }
    }
}
