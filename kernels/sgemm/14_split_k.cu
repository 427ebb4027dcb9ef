// C[b] = alpha * A[b] B[b] + beta * C[b], row-major: the depth is split among blocks, for products of few tiles.
//
// A is M x K, B is K x N, C is M x N; blocks are (columns, rows, batch * splits). A block computes BM rows by BN
// columns over its part of the depth, as 13_double_buffered does: sub_m x sub_n rectangles of TM x TN outputs per
// thread, in warps of WM x WN, from `stages` slots of shared memory, of which fragments are read one k ahead.
//
// Against 13_double_buffered: where C has fewer tiles than the device has places for blocks, most of it would idle, and
// smaller tiles would read more for the same work. Here the depth is cut into `splits`, and each tile of C has a block
// for each of them:
//
//     depth of A and B    | split 0 | split 1 | split 2 | ..       splits differ by BK at most
//     sums of a tile        block     block     block              added up as 0 + 1 + 2 + ..
//
// How these partial sums meet (the reduction of split-K):
// - meet = 0: each block leaves its sums in a workspace. The semaphore of a tile counts those that have done so, and
//   the last one adds up all of them.
// - meet = 1: blocks meet in pairs, and those that come last in pairs of pairs: (0 + 1) + (2 + 3), .. So the last block
//   reads as many sums as there are rounds, not as there are splits. Each pair has a semaphore.
// - together > 1: so many blocks of a tile are a cluster. Each leaves its sums in its own shared memory, and adds up an
//   equal part of the outputs, from the shared memory of all. That spares the way through global memory, and no block
//   works alone (CUDA, from sm_90 on). Where there are several clusters, each part then meets as with meet = 0.
// - slices > 1: the block itself cuts the depth of each tile, for smaller tiles of C. Each slice has warps of its own,
//   which multiply their part of it for all outputs, and slices meet in shared memory. So a multiprocessor is full of
//   warps with few outputs, of which few sums go through global memory.
// Each adds sums in an order that does not depend on who was last, so that C has the same bits each time. Tiles need no
// powers of two: 96 fits some sizes better than 64 or 128, and the threads copy in rounds of which the last may be a
// part.
//
// On an H200 the best take 0.031 ms at 768, 0.046 at 700x900x1100, 0.104 at 128x4096x4096 and 0.199 at 512x512x16384:
// 1.23, 1.04, 0.95 and 0.93 times as fast as cuBLAS. What the last two lose is the reduction: partial sums go through
// global memory, and are added up there. At 128x4096x4096 eight splits of 64 x 256 take 0.093 ms if their partial sums
// are dropped, 0.105 if they are stored in the workspace, and 0.109 if they are added, too, where cuBLAS takes 0.097
// for all. Clusters of eight would spare most of that. But an H200 has room for 30 of the 32 at once, so that two begin
// when the others have ended: 0.201 ms. Clusters of two leave no multiprocessor out.
// Idea: split-K, as in CUTLASS; the workspace and the semaphores are those of gallery/split_k.
#include "portable.h"
#include "cluster.h"
#include "cp_async.h"
#include "float4.h"
#include "launch_bounds.h"
#include "parts.h"

#ifndef splits
#define splits 4 // parts of the depth
#endif
#ifndef meet
#define meet 0 // how those of a tile meet in the workspace: 0 all at once, 1 in pairs
#endif
#ifndef together
#define together 1 // splits whose blocks are a cluster, and have met before
#endif
#ifndef slices
#define slices 1 // parts of a tile's depth, each multiplied by warps of its own, for all of the block's outputs
#endif
#ifndef BM
#define BM 64 // rows per block
#endif
#ifndef BN
#define BN 64 // columns per block
#endif
#ifndef BK
#define BK 8 // depth of the tiles
#endif
#ifndef WM
#define WM 32 // rows per warp
#endif
#ifndef WN
#define WN 32 // columns per warp
#endif
#ifndef TM
#define TM 4 // rows per thread that lie together
#endif
#ifndef TN
#define TN 4 // columns per thread that lie together
#endif
#ifndef sub_m
#define sub_m 1 // rectangles per thread, below one another
#endif
#ifndef sub_n
#define sub_n 2 // rectangles per thread, side by side
#endif
#ifndef stages
#define stages 2 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef cp_async
#define cp_async 0 // what cp.async copies (CUDA, from sm_80 on): 0 nothing, 1 tiles of B, 2 tiles of A too
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

#define WARPS (BM / WM * (BN / WN)) // of a slice
#define SLICE_THREADS (WARPS * 32)
#define THREADS (SLICE_THREADS * slices)
#define DEPTH (BK / slices) // of a tile that a thread multiplies
#define ROWS (sub_m * TM) // per thread
#define COLUMNS (sub_n * TN)
#define FOURS (ROWS * COLUMNS / 4)                  // outputs per thread, four at a time
#define LANES_M (WM / ROWS)                         // lanes per warp, below one another
#define LANES_N (WN / COLUMNS)                      // side by side
#define ROW(i) ((i) / TM * (WM / sub_m) + (i) % TM) // from a thread's first row to its row i
#define COLUMN(j) ((j) / TN * (WN / sub_n) + (j) % TN)
#define PITCH_A (BM + 4)                           // floats from one row of the tile of A to the next
#define SLOT (BK * (PITCH_A + BN))                 // floats in a slot: the tile of A, and behind it that of B
#define COPY_FLOATS_A (cp_async == 2 ? 1 : 4)      // floats that a thread copies at once from A
#define COPY_ROWS_A (THREADS * COPY_FLOATS_A / BK) // rows of A that the block copies at once
#define COPY_ROWS_B (THREADS / (BN / 4))           // the threads behind these rows copy none
#define ROUNDS_A ((BM + COPY_ROWS_A - 1) / COPY_ROWS_A)
#define ROUNDS_B ((BK + COPY_ROWS_B - 1) / COPY_ROWS_B)

#if splits < 1 || meet < 0 || meet > 1
#error "splits: at least 1; meet: 0 or 1"
#endif
#if together < 1 || together > 8 || splits % together != 0 || (meet == 1 && together > 1)
#error "together: a cluster has at most 8 blocks, the splits are whole clusters, and these meet all at once"
#endif
#if slices < 1 || BK % (2 * slices) != 0
#error "slices: each takes an even part of the depth BK of a tile"
#endif
#if BM % WM != 0 || BN % WN != 0
#error "the warps must fill the block: WM must divide BM, and WN BN"
#endif
#if WM % (2 * ROWS) != 0 || WN % (2 * COLUMNS) != 0 || LANES_M * LANES_N != 32
#error "8 squares of lanes must fill the warp's rectangle: WM / (sub_m * TM) by WN / (sub_n * TN) lanes, both even"
#endif
#if BK % 8 != 0 || TM % 4 != 0 || TN % 4 != 0
#error "tiles are copied and read four floats, slabs eight floats at a time: 8 must divide BK, and 4 TM and TN"
#endif
#if THREADS % (4 * BK) != 0 || BN > 4 * THREADS
#error "the threads must copy whole slabs of the tile of A, and a whole row of the tile of B"
#endif
#if stages < 2 || cp_async < 0 || cp_async > 2 || (stages > 2 && !cp_async)
#error "stages: at least 2, and 2 without cp.async; cp_async: 0, 1 or 2"
#endif
#if (cp_async || together > 1) && defined __OPENCL_VERSION__
#error "cp_async and clusters are CUDA's"
#endif

#include "outputs.h"

// Begin to fetch this thread's part of a tile of A, whose first floats *A lie in row `row`, with `columns` floats from
// there to the end of the row. What lies outside of A becomes 0. The tile has `rows` rows from there on.
INLINE void fetch_tile_a(LOCAL float *store_a, float4 *next_a, GLOBAL const float *A, int M, int K, int row,
                         int columns, int rows) {
#pragma unroll
    for (int round = 0; round < ROUNDS_A; round++) {
        const int i = round * COPY_ROWS_A, left = whole ? 4 : row + i < M ? columns : 0;
        if (BM % COPY_ROWS_A == 0 || i < rows) {
#if cp_async == 2
            copy_async1(store_a + i, A + (size_t)i * K, left > 0);
#else
            next_a[round] = load4(A + (size_t)i * K, left, wide_k);
#endif
        }
    }
}

// The same for B.
INLINE void fetch_tile_b(LOCAL float *store_b, float4 *next_b, GLOBAL const float *B, int N, int K, int row,
                         int columns, int rows) {
#pragma unroll
    for (int round = 0; round < ROUNDS_B; round++) {
        const int k = round * COPY_ROWS_B, left = whole ? 4 : row + k < K ? columns : 0;
        if (BK % COPY_ROWS_B == 0 && THREADS % (BN / 4) == 0 || k < rows) {
#if cp_async
            copy_async4(store_b + k * BN, B + (size_t)k * N, left, wide_n);
#else
            next_b[round] = load4(B + (size_t)k * N, left, wide_n);
#endif
        }
    }
}

// Have the next tile in shared memory: store what came through registers, wait for what cp.async copies.
INLINE void complete_tiles(LOCAL float *store_a, LOCAL float *store_b, const float4 *next_a, const float4 *next_b,
                           int rows_a, int rows_b) {
#if cp_async < 2
#pragma unroll
    for (int round = 0; round < ROUNDS_A; round++) {
        const int i = round * COPY_ROWS_A;
        if (BM % COPY_ROWS_A == 0 || i < rows_a) {
            const float4 four = next_a[round];
            store_a[i] = four.x, store_a[i + PITCH_A] = four.y;
            store_a[i + 2 * PITCH_A] = four.z, store_a[i + 3 * PITCH_A] = four.w;
        }
    }
#endif
#if cp_async
    wait_for_copies(stages - 2);
#else
#pragma unroll
    for (int round = 0; round < ROUNDS_B; round++) {
        const int k = round * COPY_ROWS_B;
        if (BK % COPY_ROWS_B == 0 && THREADS % (BN / 4) == 0 || k < rows_b) {
            SHARED4(store_b + k * BN) = next_b[round];
        }
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

// Leave a thread's sums where `out` is, four at a time, those of neighbouring threads beside one another.
#define LEAVE_SUMS(STORE, out)                                                                                         \
    _Pragma("unroll") for (int f = 0; f < FOURS; f++) {                                                                \
        const int i = f / (COLUMNS / 4), j = f % (COLUMNS / 4) * 4;                                                    \
        STORE((out) + (f * SLICE_THREADS + in_slice) * 4,                                                              \
              make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]));                                    \
    }
// Add what another block, or this one, has left so.
#define ADD_SUMS(READ, from)                                                                                           \
    _Pragma("unroll") for (int f = 0; f < FOURS; f++) {                                                                \
        const float4 part = READ((from) + (f * SLICE_THREADS + in_slice) * 4);                                         \
        const int i = f / (COLUMNS / 4), j = f % (COLUMNS / 4) * 4;                                                    \
        sum[i][j] += part.x, sum[i][j + 1] += part.y, sum[i][j + 2] += part.z, sum[i][j + 3] += part.w;                \
    }
#define STORE_SHARED4(p, four) (SHARED4(p) = (four))
// Write four of a thread's outputs.
#define WRITE_FOUR(f, four)                                                                                            \
    {                                                                                                                  \
        const int row = block_row + thread_row + ROW((f) / (COLUMNS / 4));                                             \
        const int column = block_column + thread_column + COLUMN((f) % (COLUMNS / 4) * 4);                             \
        write4(C + (size_t)row * N + column, four, alpha, beta, row < M ? N - column : 0, wide_n);                     \
    }

#if together > 1
#define CLUSTER __cluster_dims__(1, 1, together)
#else
#define CLUSTER
#endif

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks) CLUSTER
void sgemm_split_k(GLOBAL float *__restrict__ C, GLOBAL const float *__restrict__ A,
                   GLOBAL const float *__restrict__ B, GLOBAL float *__restrict__ workspace,
                   GLOBAL int *__restrict__ semaphores, int M, int N, int K, int batch, float alpha, float beta) {
#ifdef __OPENCL_VERSION__
    __shared__ ALIGNED float shared[stages * SLOT > (slices - 1) * BM * BN ? stages * SLOT : (slices - 1) * BM * BN];
#else
    extern __shared__ ALIGNED float shared[]; // as many, and for a cluster BM * BN at least
#endif
#if splits > together
    __shared__ int last;
#endif

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // Place the block: its tile of C, and its part of the depth.
    const int block_column = blockIdx.x * BN, block_row = blockIdx.y * BM;
    const int split = blockIdx.z % splits, tiles_k = (K + BK - 1) / BK;
    const int begin = (int)((size_t)tiles_k * split / splits) * BK;
    const int end = min((int)((size_t)tiles_k * (split + 1) / splits) * BK, K);

    // Place this thread in the block, and the first floats that it copies in the tiles.
    const int thread = threadIdx.x, warp = thread / 32 % WARPS, lane = thread % 32, quad = lane / 4;
    const int slice = slices > 1 ? thread / SLICE_THREADS : 0, in_slice = thread - slice * SLICE_THREADS;
    const int lane_x = quad % (LANES_N / 2) * 2 + lane / 2 % 2, lane_y = quad / (LANES_N / 2) * 2 + lane % 2;
    const int thread_column = warp % (BN / WN) * WN + lane_x * TN, thread_row = warp / (BN / WN) * WM + lane_y * TM;
    const int copy_k_a = thread % (8 / COPY_FLOATS_A) * COPY_FLOATS_A + thread / 32 % (BK / 8) * 8;
    const int copy_row_a = thread / (8 / COPY_FLOATS_A) % (4 * COPY_FLOATS_A) + thread / (4 * BK) * (4 * COPY_FLOATS_A);
    const int copy_k_b = thread / (BN / 4), copy_column_b = thread % (BN / 4) * 4;
    const int rows_a = BM - copy_row_a, rows_b = copy_k_b < COPY_ROWS_B ? BK - copy_k_b : 0; // left in the tiles
    const size_t b = blockIdx.z / splits;
    A += b * M * K + (size_t)(block_row + copy_row_a) * K + copy_k_a + begin;
    B += b * K * N + (size_t)(begin + copy_k_b) * N + block_column + copy_column_b;
    C += b * M * N;

    float sum[ROWS][COLUMNS], fragment_a[2][ROWS], fragment_b[2][COLUMNS];
    float4 next_a[ROUNDS_A], next_b[ROUNDS_B]; // on their way through registers
    clear(sum);

    // This thread's places in the slot that it stores to, and in the one behind it, which it reads.
    LOCAL float *store_a = shared + copy_k_a * PITCH_A + copy_row_a;
    LOCAL float *store_b = shared + BK * PITCH_A + copy_k_b * BN + copy_column_b;
    LOCAL const float *read_a = shared + SLOT + slice * (DEPTH * PITCH_A) + thread_row;
    LOCAL const float *read_b = shared + SLOT + BK * PITCH_A + slice * (DEPTH * BN) + thread_column;
    int slot = 0; // that is stored to

    // Each round fetches the tile from fetch_k on, and multiplies the one from k0 on, which is stages - 1 tiles behind.
    // The first rounds have k0 < begin and only fetch, the last ones only multiply.
    for (int k0 = begin + (1 - stages) * BK, fetch_k = begin; k0 < end; k0 += BK, fetch_k += BK) {
        if (fetch_k < end) {
            fetch_tile_a(store_a, next_a, A, M, K, block_row + copy_row_a, K - fetch_k - copy_k_a, rows_a);
            fetch_tile_b(store_b, next_b, B, N, K, fetch_k + copy_k_b, N - block_column - copy_column_b, rows_b);
            A += BK, B += (size_t)BK * N;
        }
#if cp_async
        commit_copies();
#endif
        if (k0 >= begin) {
#pragma unroll
            for (int k = 0; k < DEPTH - 1; k++) {
                const int set = (k + 1) % 2;
                read_fragments(fragment_a[set], fragment_b[set], read_a + (k + 1) * PITCH_A, read_b + (k + 1) * BN);
                multiply(sum, fragment_a[k % 2], fragment_b[k % 2]);
            }
        }
        complete_tiles(store_a, store_b, next_a, next_b, rows_a, rows_b);
        __syncthreads(); // the next tile is complete, and nobody reads this one any more

        // Go on to the next slots.
        const int store_step = slot == stages - 1 ? SLOT - stages * SLOT : SLOT;
        const int read_step = slot == stages - 2 ? SLOT - stages * SLOT : SLOT;
        store_a += store_step, store_b += store_step, read_a += read_step, read_b += read_step;
        slot = slot == stages - 1 ? 0 : slot + 1;
        read_fragments(fragment_a[0], fragment_b[0], read_a, read_b);
        if (k0 >= begin) {
            multiply(sum, fragment_a[1], fragment_b[1]);
        }
    }

#if slices > 1
    // All slices but the first leave their sums in shared memory, and the first adds them.
    __syncthreads(); // nobody reads tiles any more
    if (slice > 0) {
        LEAVE_SUMS(STORE_SHARED4, shared + (slice - 1) * (BM * BN))
    }
    __syncthreads();
    if (slice == 0) {
        for (int s = 0; s < slices - 1; s++) {
            ADD_SUMS(SHARED4, shared + s * (BM * BN))
        }
    }
#endif
#if splits > 1
    const size_t tile = (b * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    GLOBAL float *left_sums = workspace + tile * (splits / together) * (BM * BN);
    semaphores += tile * splits;
#endif
#if together > 1
    // Leave the sums for the cluster, and add up every together-th four of this thread's outputs.
    const int rank = split % together;
    __syncthreads(); // nobody reads tiles any more
    if (slice == 0) {
        LEAVE_SUMS(STORE_SHARED4, shared)
    }
    synchronize_cluster();
    for (int f = rank; slice == 0 && f < FOURS; f += together) {
        float4 all = read_block4(shared + (f * SLICE_THREADS + in_slice) * 4, 0);
#pragma unroll
        for (int s = 1; s < together; s++) {
            const float4 part = read_block4(shared + (f * SLICE_THREADS + in_slice) * 4, s);
            all.x += part.x, all.y += part.y, all.z += part.z, all.w += part.w;
        }
#if splits == together
        WRITE_FOUR(f, all)
#else
        WRITE_PART4(left_sums + split / together * (BM * BN) + (f * SLICE_THREADS + in_slice) * 4, all);
#endif
    }
#if splits > together
    // The last of the clusters' blocks that have these fours adds up what they have left.
    if (is_last_block(semaphores + rank, &last, splits / together)) {
        for (int f = rank; slice == 0 && f < FOURS; f += together) {
            float4 all = READ_PART4(left_sums + (f * SLICE_THREADS + in_slice) * 4);
#pragma unroll
            for (int s = 1; s < splits / together; s++) {
                const float4 part = READ_PART4(left_sums + s * (BM * BN) + (f * SLICE_THREADS + in_slice) * 4);
                all.x += part.x, all.y += part.y, all.z += part.z, all.w += part.w;
            }
            WRITE_FOUR(f, all)
        }
    }
#endif
    synchronize_cluster(); // the others may still read what this block has left
#else
#if splits > 1 && meet == 0
    // Leave the sums in the workspace. The last block of the tile adds them up.
    if (slice == 0) {
        LEAVE_SUMS(WRITE_PART4, left_sums + split * (BM * BN))
    }
    if (!is_last_block(semaphores, &last, splits)) {
        return;
    }
    if (slice == 0) {
        clear(sum);
        for (int s = 0; s < splits; s++) {
            ADD_SUMS(READ_PART4, left_sums + s * (BM * BN))
        }
    }
#endif
#if splits > 1 && meet == 1
    // Of two blocks, or of two groups of `span` splits, whoever comes first leaves its sums, and the other adds them to
    // its own. A group has the place of its first split in the workspace, and a pair the semaphore of the second's.
#pragma unroll 1
    for (int span = 1; span < splits; span *= 2) {
        const int first = split / span * span, other = (split / span ^ 1) * span;
        if (other < splits) {
            if (slice == 0) {
                LEAVE_SUMS(WRITE_PART4, left_sums + first * (BM * BN))
            }
            if (!is_last_block(semaphores + max(first, other), &last, 2)) {
                return;
            }
            if (slice == 0) {
                ADD_SUMS(READ_PART4, left_sums + other * (BM * BN))
            }
        }
    }
#endif

    // Write.
    if (slice == 0) {
#pragma unroll
        for (int f = 0; f < FOURS; f++) {
            const int i = f / (COLUMNS / 4), j = f % (COLUMNS / 4) * 4;
            WRITE_FOUR(f, make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]))
        }
    }
#endif
}
