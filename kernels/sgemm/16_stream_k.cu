// C[b] = alpha * A[b] B[b] + beta * C[b], row-major: every block has as much of the depth of all tiles as any other.
//
// A is M x K, B is K x N, C is M x N. Tiles have BM rows by BN columns, and steps of BK of the depth. A block computes
// a step as 13_double_buffered does: sub_m x sub_n rectangles of TM x TN outputs per thread, in warps of WM x WN, from
// `stages` slots of shared memory, of which fragments are read one k ahead.
//
// Against 14_split_k: there each tile is cut into as many parts. An H200 has 132 multiprocessors, and 16 tiles of 8
// parts leave 4 of them idle. Here the steps of all tiles stand in a row, which is cut into one part for each block:
//
//     steps       | tile 0                 | tile 1                 | tile 2                 | ..
//     blocks      | 0        | 1        | 2        | 3        | 4        | 5        | 6  ..
//
// So a block ends one tile and begins another. What that costs may be taken off its part: `spared` steps.
//
// How sums meet:
// - A block leaves those of a tile that others work on, too, in a workspace, and a counter of the tile goes up.
// - When it has left all, it waits for the counter of the first of its tiles, and adds up its share of the outputs from
//   what all have left. So no block works alone at the end, as the last one does in 14. Blocks that wait for one another
//   must all run at once: the launch is cooperative.
// - They are added in the order of the depth, so that C has the same bits each time.
//
// Against 14_split_k, too: registers lie in two banks, those of even numbers and those of odd ones. What a 16-byte
// instruction stores or reads is in four registers in a row. So where sums are stored as they are, four columns at
// once, ptxas gives the sum and the factor of a column registers of the same bank, which cannot be read at once: in 7 of
// 10 multiplications of 14. (13 multiplies its sums by alpha first, and stores other registers.) Here neighbouring sums
// are exchanged as they are left, and again when they have been added up: 9 of 10 find their registers in both banks.
//
// On an H200 the best take 0.181 ms at 512x512x16384, 0.096 at 128x4096x4096, 0.344 at 1024x1024x8192 and 0.029 at 768:
// 1.03, 1.03, 1.10 and 1.31 times as fast as cuBLAS, where those of 14 take 0.199, 0.104, 0.375 and 0.031. They are the
// fastest of all stages at 1024, 4096 and 8192, too, and 1.13, 1.02 and 1.02 times as fast as cuBLAS. At 2048 those of
// 13 are faster by 1 %.
// Idea: stream-K, by Osama and others (PPoPP 2023).
#include "portable.h"
#include "cp_async.h"
#include "float4.h"
#include "launch_bounds.h"

#ifndef BM
#define BM 64 // rows per tile
#endif
#ifndef BN
#define BN 256 // columns per tile
#endif
#ifndef BK
#define BK 8 // depth of a step
#endif
#ifndef WM
#define WM 16 // rows per warp
#endif
#ifndef WN
#define WN 256 // columns per warp
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
#define stages 2 // slots in shared memory, each for a step's part of A and of B
#endif
#ifndef cp_async
#define cp_async 1 // what cp.async copies: 1 the part of B, 2 that of A too
#endif
#ifndef spared
#define spared 0 // steps fewer for a block that goes on to another tile
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
#define FOURS (ROWS * COLUMNS / 4)                  // outputs per thread, four at a time
#define LANES_M (WM / ROWS)                         // lanes per warp, below one another
#define LANES_N (WN / COLUMNS)                      // side by side
#define ROW(i) ((i) / TM * (WM / sub_m) + (i) % TM) // from a thread's first row to its row i
#define COLUMN(j) ((j) / TN * (WN / sub_n) + (j) % TN)
#define PITCH_A (BM + 4)                           // floats from one row of the part of A to the next
#define SLOT (BK * (PITCH_A + BN))                 // floats in a slot: the part of A, and behind it that of B
#define COPY_FLOATS_A (cp_async == 2 ? 1 : 4)      // floats that a thread copies at once from A
#define COPY_ROWS_A (THREADS * COPY_FLOATS_A / BK) // rows of A that the block copies at once
#define COPY_ROWS_B (THREADS / (BN / 4))

#if BM % WM != 0 || BN % WN != 0
#error "the warps must fill the tile: WM must divide BM, and WN BN"
#endif
#if WM % (2 * ROWS) != 0 || WN % (2 * COLUMNS) != 0 || LANES_M * LANES_N != 32
#error "8 squares of lanes must fill the warp's rectangle: WM / (sub_m * TM) by WN / (sub_n * TN) lanes, both even"
#endif
#if BK % 8 != 0 || TM % 4 != 0 || TN % 4 != 0
#error "tiles are copied and read four floats, slabs eight floats at a time: 8 must divide BK, and 4 TM and TN"
#endif
#if THREADS % (4 * BK) != 0 || BM * BK % (COPY_FLOATS_A * THREADS) != 0
#error "the threads must copy whole slabs of the part of A, in whole rounds"
#endif
#if THREADS % (BN / 4) != 0 || BK * BN % (4 * THREADS) != 0
#error "the threads must copy whole rows of the part of B, in whole rounds"
#endif
#if stages < 2 || cp_async < 1 || cp_async > 2 || spared < 0
#error "stages: at least 2; cp_async: 1 or 2; spared: 0 or more"
#endif

// sum += a b, where a is a column of ROWS values and b a row of COLUMNS. Every other row is walked backwards, so that
// one of two factors is always one that the multiplication before had, too.
INLINE void multiply(float (*sum)[COLUMNS], const float *a, const float *b) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int step = 0; step < COLUMNS; step++) {
            const int j = i % 2 ? COLUMNS - 1 - step : step;
            sum[i][j] += a[i] * b[j];
        }
    }
}

// Begin to fetch this thread's part of what a step has of A, whose first floats *A lie in row `row`, with `columns`
// floats from there to the end of the row. What lies outside of A becomes 0.
INLINE void fetch_a(float *store_a, float4 *next_a, const float *A, int M, int K, int row, int columns) {
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
INLINE void fetch_b(float *store_b, const float *B, int N, int K, int row, int columns) {
#pragma unroll
    for (int k = 0; k < BK; k += COPY_ROWS_B) {
        copy_async4(store_b + k * BN, B + (size_t)k * N, whole ? 4 : row + k < K ? columns : 0, wide_n);
    }
}

// Have the next step's parts in shared memory: store what came through registers, wait for what cp.async copies.
INLINE void complete(float *store_a, const float4 *next_a) {
#if cp_async == 1
#pragma unroll
    for (int i = 0; i < BM; i += COPY_ROWS_A) {
        const float4 four = next_a[i / COPY_ROWS_A];
        store_a[i] = four.x, store_a[i + PITCH_A] = four.y;
        store_a[i + 2 * PITCH_A] = four.z, store_a[i + 3 * PITCH_A] = four.w;
    }
#endif
    wait_for_copies(stages - 2);
}

// Read what a thread multiplies at one k; its first values there are *a and *b.
INLINE void read_fragments(float *fragment_a, float *fragment_b, const float *a, const float *b) {
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

// Count one more at `counter`, after all that the block has written.
INLINE void count(int *counter) {
    asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter) : "memory");
}

// Wait until `counter` has come to `number`. What those that count have written before can then be read.
INLINE void wait_for(const int *counter, int number) {
    int counted;
    do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(counted) : "l"(counter) : "memory");
    } while (counted < number);
}

// Write fours `begin` to `end` of a thread's outputs, *c the first of all: the sums that `workers` blocks have left, one
// where `first` is and the others from `others` on. `rows` and `columns` are left of C from *c on. So that reads are
// waited for few times, several are under way at once: DEPTH fours of each of WIDTH blocks.
template <int DEPTH, int WIDTH>
INLINE void write_fours(float *c, const float *first, const float *others, int workers, int begin, int end, int rows,
                        int columns, int N, float alpha, float beta) {
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (; begin < end; begin += DEPTH) {
        float4 all[DEPTH], part[WIDTH][DEPTH];
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            all[i] = begin + i < end ? __ldcg((const float4 *)(first + (begin + i) * (4 * THREADS))) : zero;
        }
#pragma unroll 1
        for (int worker = 1; worker < workers; worker += WIDTH) {
#pragma unroll
            for (int w = 0; w < WIDTH; w++) {
                const float *left = others + (size_t)(worker + w - 1) * (2 * BM * BN) + begin * (4 * THREADS);
#pragma unroll
                for (int i = 0; i < DEPTH; i++) {
                    const int there = worker + w < workers && begin + i < end;
                    part[w][i] = there ? __ldcg((const float4 *)(left + i * (4 * THREADS))) : zero;
                }
            }
#pragma unroll
            for (int w = 0; w < WIDTH; w++) {
#pragma unroll
                for (int i = 0; i < DEPTH; i++) {
                    all[i].x += part[w][i].x, all[i].y += part[w][i].y;
                    all[i].z += part[w][i].z, all[i].w += part[w][i].w;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < DEPTH; i++) {
            const int f = begin + i, row = ROW(f / (COLUMNS / 4)), column = COLUMN(f % (COLUMNS / 4) * 4);
            write4(c + (size_t)row * N + column, make_float4(all[i].y, all[i].x, all[i].w, all[i].z), alpha, beta,
                   row < rows && f < end ? columns - column : 0, wide_n);
        }
    }
}

// The same, with as many reads at once where there are few fours, of many blocks.
INLINE void write_outputs(float *c, const float *first, const float *others, int workers, int begin, int end, int rows,
                          int columns, int N, float alpha, float beta) {
    if (end - begin > 2) {
        write_fours<4, 4>(c, first, others, workers, begin, end, rows, columns, N, alpha, beta);
    } else {
        write_fours<2, 8>(c, first, others, workers, begin, end, rows, columns, N, alpha, beta);
    }
}

KERNEL LAUNCH_BOUNDS(THREADS, min_blocks)
void sgemm_stream_k(float *__restrict__ C, const float *__restrict__ A, const float *__restrict__ B,
                    float *__restrict__ workspace, int *__restrict__ counters, int M, int N, int K, int batch,
                    float alpha, float beta) {
    extern __shared__ ALIGNED float shared[];

    N = fixed_n ? fixed_n : N;
    K = fixed_k ? fixed_k : K;

    // All tiles have `all` steps together, those that are spared included. This block has those from `begin` to `end`.
    const int columns = (N + BN - 1) / BN, rows = (M + BM - 1) / BM, depth = (K + BK - 1) / BK + spared;
    const unsigned all = columns * rows * batch * depth;
    const int begin = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;

    // Place this thread in a tile, and the first floats that it copies in the parts.
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, quad = lane / 4;
    const int lane_x = quad % (LANES_N / 2) * 2 + lane / 2 % 2, lane_y = quad / (LANES_N / 2) * 2 + lane % 2;
    const int thread_column = warp % (BN / WN) * WN + lane_x * TN, thread_row = warp / (BN / WN) * WM + lane_y * TM;
    const int copy_k_a = thread % (8 / COPY_FLOATS_A) * COPY_FLOATS_A + thread / 32 % (BK / 8) * 8;
    const int copy_row_a = thread / (8 / COPY_FLOATS_A) % (4 * COPY_FLOATS_A) + thread / (4 * BK) * (4 * COPY_FLOATS_A);
    const int copy_k_b = thread / (BN / 4), copy_column_b = thread % (BN / 4) * 4;

    const int first_tile = begin / depth, last_tile = (end - 1) / depth;
    for (int tile = first_tile; tile <= last_tile; tile++) {
        const int from = max(begin - tile * depth - spared, 0) * BK;
        const int to = min((min(end - tile * depth, depth) - spared) * BK, K);
        if (from >= to) {
            continue; // all of them are spared
        }
        const int block_column = tile % columns * BN, block_row = tile / columns % rows * BM;
        const size_t b = tile / (columns * rows);
        const float *next_of_a = A + b * M * K + (size_t)(block_row + copy_row_a) * K + copy_k_a + from;
        const float *next_of_b = B + b * K * N + (size_t)(from + copy_k_b) * N + block_column + copy_column_b;

        float sum[ROWS][COLUMNS], fragment_a[2][ROWS], fragment_b[2][COLUMNS];
        float4 next_a[BM / COPY_ROWS_A]; // on their way through registers
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                sum[i][j] = 0.0f;
            }
        }

        // This thread's places in the slot that it stores to, and in the one behind it, which it reads.
        float *store_a = shared + copy_k_a * PITCH_A + copy_row_a;
        float *store_b = shared + BK * PITCH_A + copy_k_b * BN + copy_column_b;
        const float *read_a = shared + SLOT + thread_row, *read_b = shared + SLOT + BK * PITCH_A + thread_column;
        int slot = 0; // that is stored to

        // Each round fetches the step from fetch_k on, and multiplies the one from k0 on, which is stages - 1 steps
        // behind. The first rounds have k0 < from and only fetch, the last ones only multiply.
        for (int k0 = from + (1 - stages) * BK, fetch_k = from; k0 < to; k0 += BK, fetch_k += BK) {
            if (fetch_k < to) {
                fetch_a(store_a, next_a, next_of_a, M, K, block_row + copy_row_a, K - fetch_k - copy_k_a);
                fetch_b(store_b, next_of_b, N, K, fetch_k + copy_k_b, N - block_column - copy_column_b);
                next_of_a += BK, next_of_b += (size_t)BK * N;
            }
            commit_copies();
            if (k0 >= from) {
#pragma unroll
                for (int k = 0; k < BK - 1; k++) {
                    const int set = (k + 1) % 2;
                    read_fragments(fragment_a[set], fragment_b[set], read_a + (k + 1) * PITCH_A, read_b + (k + 1) * BN);
                    multiply(sum, fragment_a[k % 2], fragment_b[k % 2]);
                }
            }
            complete(store_a, next_a);
            __syncthreads(); // the next step's parts are there, and nobody reads these any more

            // Go on to the next slots.
            const int store_step = slot == stages - 1 ? SLOT - stages * SLOT : SLOT;
            const int read_step = slot == stages - 2 ? SLOT - stages * SLOT : SLOT;
            store_a += store_step, store_b += store_step, read_a += read_step, read_b += read_step;
            slot = slot == stages - 1 ? 0 : slot + 1;
            read_fragments(fragment_a[0], fragment_b[0], read_a, read_b);
            if (k0 >= from) {
                multiply(sum, fragment_a[1], fragment_b[1]);
            }
        }

        // Leave the sums, those of neighbouring threads beside one another, and neighbouring ones exchanged.
        float *left = workspace + (size_t)(2 * blockIdx.x + (tile > first_tile)) * (BM * BN) + thread * 4;
#pragma unroll
        for (int f = 0; f < FOURS; f++) {
            const int i = f / (COLUMNS / 4), j = f % (COLUMNS / 4) * 4;
            __stcg((float4 *)(left + f * (4 * THREADS)),
                   make_float4(sum[i][j + 1], sum[i][j], sum[i][j + 3], sum[i][j + 2]));
        }
        __syncthreads(); // all has been left, and nobody reads slots any more
        if (from == 0 && to == K) { // nobody else works on this tile
            const int row = block_row + thread_row, column = block_column + thread_column;
            write_outputs(C + (b * M + row) * N + column, left, left, 1, 0, FOURS, M - row, N - column, N, alpha, beta);
        } else if (thread == 0) {
            count(counters + 2 * tile);
        }
    }

    // Add up this block's share of the first of its tiles, unless it has had all of that tile, or nothing.
    const int tile_begin = first_tile * depth + spared, tile_end = (first_tile + 1) * depth;
    const int first = ((tile_begin + 1) * gridDim.x - 1) / all; // block that has worked on it
    const int workers = (tile_end * gridDim.x - 1) / all + 1 - first;
    if (end <= tile_begin || workers == 1) {
        return;
    }
    // The first of them may have begun with the tile before. It then has a share of that one.
    const int before = (int)(all * first / gridDim.x) / depth < first_tile;
    const int sharers = workers - before, share = blockIdx.x - first - before;
    const int row = first_tile / columns % rows * BM + thread_row, column = first_tile % columns * BN + thread_column;
    const size_t b = first_tile / (columns * rows);
    const float *left = workspace + (size_t)2 * first * (BM * BN) + thread * 4;
    int before_this = 0;
    if (thread == 0) {
        wait_for(counters + 2 * first_tile, workers);
        before_this = atomicAdd(counters + 2 * first_tile + 1, 1);
    }
    __syncthreads();
    write_outputs(C + (b * M + row) * N + column, left + before * (BM * BN), left + 2 * (BM * BN), workers,
                  FOURS * share / sharers, FOURS * (share + 1) / sharers, M - row, N - column, N, alpha, beta);
    // The last to have seen the counter sets both back for the next launch.
    if (thread == 0 && before_this == sharers - 1) {
        counters[2 * first_tile] = 0, counters[2 * first_tile + 1] = 0;
    }
}
