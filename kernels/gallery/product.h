// A block's part of a matrix product, BM x BN outputs: what matmul_tiled, linear_gelu and split_k do alike.
//
// The block copies a tile of A (BM x BK) and one of B (BK x BN) to shared memory, and multiplies from there. What is to
// be done beside the products is done early, so that nobody waits for it:
// - While tiles are multiplied, the next ones are on their way to a second place in shared memory: through registers,
//   or those of B by cp.async, which needs none.
// - A thread reads what it multiplies at the next k before it multiplies at this one, from one tile to the next, too.
// - It has 8 rows by COLUMNS columns of outputs, in rectangles of 4 x 4, for which it reads 4 floats at once. The lanes
//   of a warp share WM x WN outputs, and form squares of 2 x 2, so that many of them read the same floats.
// - The tile of A is stored by columns. A warp copies 8 floats from each of 16 rows: that is 32 bytes, the least that
//   memory gives. Its columns are padded by 4 floats, so that what is stored at once goes to 32 different banks.
// On an H200 the loop over the tiles then has 2190 instructions for 2048 products, and the compiler places reads well
// ahead of their uses. It does so only as long as the loop needs few other registers: hence pointers that go along
// instead of addresses that are computed again. Nor may sums be stored four at a time as they are: they would have to
// lie in registers whose banks are those of the factors.
// Outside the matrices, tiles are 0.
#ifndef PRODUCT_H
#define PRODUCT_H

#ifndef BM
#define BM 128 // rows per block
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
#define WN 64 // columns per warp
#endif
#ifndef copy_async
#define copy_async 0 // 1: tiles of B are copied by cp.async (CUDA, from sm_80 on)
#endif
#ifndef vector
#define vector 1 // 4 where K and N are multiples of 4: floats per load and store; else 1
#endif
#ifndef whole
#define whole 0 // 1 where M, N and K are multiples of BM, BN and BK, so that nothing lies outside
#endif

#define THREADS (BM / WM * (BN / WN) * 32)
#define COLUMNS (WM * WN / 256) // per thread
#define LANES_N (WN / COLUMNS)  // lanes side by side
#define WARP ((int)threadIdx.x / 32)
#define LANE ((int)threadIdx.x % 32)
#define FIRST_ROW (WARP / (BN / WN) * WM + (LANE / 4 / (LANES_N / 2) * 2 + LANE % 2) * 4)
#define FIRST_COLUMN (WARP % (BN / WN) * WN + (LANE / 4 % (LANES_N / 2) * 2 + LANE / 2 % 2) * 4)
#define ROW(i) ((i) / 4 * (WM / 2) + (i) % 4) // from a thread's first row to its row i
#define COLUMN(j) ((j) / 4 * (LANES_N * 4) + (j) % 4)
#define COPIED_ROWS_A (4 * THREADS / BK) // that the block copies at once
#define COPIED_ROWS_B (4 * THREADS / BN)

#if BM % WM != 0 || BN % WN != 0 || WM % 16 != 0 || 256 % WM != 0 || WN * WM % 1024 != 0 || LANES_N % 2 != 0
#error "the warps must fill the block, and 8 squares of lanes a warp's rectangle: WM is 16, 32, 64 or 128"
#endif
#if BK % 8 != 0 || 4 * THREADS % (16 * BK) != 0 || BM % COPIED_ROWS_A != 0
#error "the warps must copy the tile of A in whole rounds, 16 rows of 8 floats each"
#endif
#if 4 * THREADS % BN != 0 || BK % COPIED_ROWS_B != 0
#error "the threads must copy the tile of B in whole rounds"
#endif

#include "launch_bounds.h"
#include "pack.h"

PACK(Four, float, 4);

// The tiles of a block, that of A and behind it that of B, of which shared memory has two. On CUDA, the launch says how
// much memory that is: beyond 48 KiB it cannot be had otherwise.
#define PITCH_A (BM + 4) // floats from one k to the next
#define TILES (BK * (PITCH_A + BN))
#define ALIGNED __attribute__((aligned(16)))
#ifdef __OPENCL_VERSION__
#define SHARED_TILES(name) __shared__ ALIGNED float name[2 * TILES]
#else
#define SHARED_TILES(name) extern __shared__ ALIGNED float name[]
#endif

// This thread's part of both tiles, on its way through registers.
typedef struct {
    Four a[BM / COPIED_ROWS_A], b[BK / COPIED_ROWS_B];
} Fetched;

// What a thread multiplies at one k.
typedef struct {
    Four a[2], b[COLUMNS / 4];
} Factors;

// The four floats from `from` on, of which the row has `left`; those beyond are 0.
INLINE Four four_of(GLOBAL const float *from, int left) {
    Four four;
    if (vector == 4 && (whole || left > 0)) {
        four = *(GLOBAL const Four *)from;
    } else {
#pragma unroll
        for (int v = 0; v < 4; v++) {
            four.at[v] = vector < 4 && v < left ? from[v] : 0.0f;
        }
    }
    return four;
}

#if copy_async
// The same, straight to shared memory, whenever that is done.
INLINE void copy_four(float *to, const float *from, int left) {
    const int bytes = whole || left > 0 ? 16 : 0; // the others become 0
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(bytes)
                 : "memory");
}
#endif

// Where a thread copies from and to in tiles, for the first round.
#define COPY_ROW_A (WARP / (BK / 8) * 16 + LANE / 2)
#define COPY_K_A (WARP % (BK / 8) * 8 + LANE % 2 * 4)
#define COPY_K_B ((int)threadIdx.x / (BN / 4))
#define COPY_COLUMN_B ((int)threadIdx.x % (BN / 4) * 4)

// Begin to fetch this thread's part of a tile of A, from *A on: row `row` of A, of which `columns` floats are left.
INLINE void fetch_a(Fetched *fetched, GLOBAL const float *A, int M, int K, int row, int columns) {
#pragma unroll
    for (int i = 0; i < BM; i += COPIED_ROWS_A) {
        fetched->a[i / COPIED_ROWS_A] = four_of(A + (size_t)i * K, row + i < M ? columns : 0);
    }
}

// The same for B.
INLINE void fetch_b(LOCAL float *to, Fetched *fetched, GLOBAL const float *B, int N, int K, int row, int columns) {
#pragma unroll
    for (int k = 0; k < BK; k += COPIED_ROWS_B) {
        const int left = row + k < K ? columns : 0;
#if copy_async
        copy_four(to + k * BN, B + (size_t)k * N, left);
#else
        fetched->b[k / COPIED_ROWS_B] = four_of(B + (size_t)k * N, left);
#endif
    }
}

// Have both tiles in shared memory.
INLINE void store_tiles(LOCAL float *to_a, LOCAL float *to_b, const Fetched *fetched) {
#pragma unroll
    for (int i = 0; i < BM; i += COPIED_ROWS_A) {
#pragma unroll
        for (int v = 0; v < 4; v++) {
            to_a[v * PITCH_A + i] = fetched->a[i / COPIED_ROWS_A].at[v];
        }
    }
#if copy_async
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
#pragma unroll
    for (int k = 0; k < BK; k += COPIED_ROWS_B) {
        *(LOCAL Four *)(to_b + k * BN) = fetched->b[k / COPIED_ROWS_B];
    }
#endif
}

// Read what a thread multiplies at one k, from its first row and column on.
INLINE void read_factors(Factors *factors, LOCAL const float *a, LOCAL const float *b) {
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        factors->a[i / 4] = *(LOCAL const Four *)(a + ROW(i));
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; j += 4) {
        factors->b[j / 4] = *(LOCAL const Four *)(b + COLUMN(j));
    }
}

INLINE void add_products(float (*sum)[COLUMNS], const Factors *factors) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int step = 0; step < COLUMNS; step++) {
            const int j = i % 2 ? COLUMNS - 1 - step : step; // to and fro: what was read last serves again
            sum[i][j] += factors->a[i / 4].at[i % 4] * factors->b[j / 4].at[j % 4];
        }
    }
}

// The product over the depths from `first` to `end`, for this thread: sum[i][j] is the output at row FIRST_ROW + ROW(i)
// of the block, and at column FIRST_COLUMN + COLUMN(j). `first` is a multiple of BK, and so is `end`, unless it is K.
INLINE void multiply_part(float (*sum)[COLUMNS], LOCAL float *tiles, GLOBAL const float *A, GLOBAL const float *B,
                          int M, int N, int K, int block_row, int block_column, int first, int end) {
    Fetched fetched;
    Factors factors[2];
#pragma unroll
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            sum[i][j] = 0.0f;
        }
    }
    const int copy_row = block_row + COPY_ROW_A, copy_column = block_column + COPY_COLUMN_B;
    A += (size_t)copy_row * K + first + COPY_K_A;
    B += (size_t)(first + COPY_K_B) * N + copy_column;
    LOCAL float *to_a = tiles + COPY_K_A * PITCH_A + COPY_ROW_A;
    LOCAL float *to_b = tiles + BK * PITCH_A + COPY_K_B * BN + COPY_COLUMN_B;
    LOCAL const float *from_a = tiles + TILES + FIRST_ROW, *from_b = tiles + TILES + BK * PITCH_A + FIRST_COLUMN;
    int other = TILES; // the way from the tiles that are stored to those that are read

    // Each round fetches the tiles from next_k on, and multiplies those before. The first one has none to multiply.
    for (int k0 = first - BK, next_k = first; k0 < end; k0 += BK, next_k += BK) {
        if (next_k < end) {
            fetch_a(&fetched, A, M, K, copy_row, K - next_k - COPY_K_A);
            fetch_b(to_b, &fetched, B, N, K, next_k + COPY_K_B, N - copy_column);
            A += BK, B += (size_t)BK * N;
        }
        if (k0 >= first) {
#pragma unroll
            for (int k = 0; k < BK - 1; k++) {
                read_factors(&factors[(k + 1) % 2], from_a + (k + 1) * PITCH_A, from_b + (k + 1) * BN);
                add_products(sum, &factors[k % 2]);
            }
        }
        store_tiles(to_a, to_b, &fetched); // behind the last tiles those again
        __syncthreads();                   // the next tiles are complete, and nobody reads these any more
        to_a += other, to_b += other, from_a -= other, from_b -= other, other = -other;
        read_factors(&factors[0], from_a, from_b);
        if (k0 >= first) {
            add_products(sum, &factors[1]);
        }
    }
}

// The whole product.
INLINE void multiply(float (*sum)[COLUMNS], LOCAL float *tiles, GLOBAL const float *A, GLOBAL const float *B, int M,
                     int N, int K, int block_row, int block_column) {
    multiply_part(sum, tiles, A, B, M, N, K, block_row, block_column, 0, K);
}

// Write four outputs from `column` of `row` on, those that C has.
INLINE void write_four(GLOBAL float *C, Four four, int row, int column, int M, int N) {
    GLOBAL float *to = C + (size_t)row * N + column;
    if (vector == 4 && (whole || (row < M && column < N))) {
        *(GLOBAL Four *)to = four;
    }
#pragma unroll
    for (int v = 0; v < 4; v++) {
        if (vector < 4 && row < M && column + v < N) {
            to[v] = four.at[v];
        }
    }
}

#endif
