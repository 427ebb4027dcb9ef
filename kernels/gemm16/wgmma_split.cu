// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by wgmma: small tiles, several blocks per
// multiprocessor, and the depth split among blocks, for products of few tiles and those that are not deep.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. A block computes one tile, of block_m x block_n outputs, over its part of the depth: one warp fetches, by
// the TMA, and `consumers` warp groups multiply.
//
// Against wgmma_prompt, whose blocks stay:
// - together, clusters: where C has fewer tiles than the device has multiprocessors, each tile has together * clusters blocks,
//   which share its depth. Their sums meet in the shared memory of clusters, and then in a workspace: see meet.h.
// - With few slots, several blocks fit on a multiprocessor. One begins or ends while another multiplies, which counts
//   where the depth is small.
// - Tiles have down to 16 columns. They have 64 rows or more, which is what wgmma multiplies; rows beyond the last one
//   cost no memory traffic. Where there are few rows, reading B takes longer than the products.
// - Rows of C begin anywhere: threads store. So N may be odd where B is transposed.
// On an H200 with bfloat16 the best found in some seconds take 0.0084 ms at 128x128x16384, where cuBLAS takes 0.0091, and
// 0.0154 at 256x4096x4096 with B transposed, where cuBLAS takes 0.0168. At 8192x4096x256, where writing C counts, it is at
// 0.89 of cuBLAS.
// Ideas: split-K, as in CUTLASS; what prompt.h has is from wgmma_prompt. Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "prompt.h"

#ifndef real
#define real __half
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#ifndef block_m
#define block_m 64 // rows of a tile
#endif
#ifndef block_n
#define block_n 64 // columns of a tile
#endif
#ifndef block_k
#define block_k 64 // depth of a slot
#endif
#ifndef stages
#define stages 4 // slots in shared memory, each for a part of A and one of B
#endif
#ifndef consumers
#define consumers 1 // warp groups that multiply; they share a tile's rows
#endif
#ifndef in_flight
#define in_flight 0 // groups of products that may go on while the next one begins
#endif
#ifndef together
#define together 1 // splits whose blocks are a cluster
#endif
#ifndef clusters
#define clusters 1 // such clusters per tile
#endif
#ifndef band
#define band 1 // rows of tiles per band, or columns
#endif
#ifndef by_columns
#define by_columns 0 // 1: bands of columns of tiles
#endif
#ifndef width_c
#define width_c 1 // numbers of C that are written at once: 8 or 2, of which N is a multiple, or 1
#endif
#ifndef is_packed
#define is_packed 0 // 1: A and B are panels, for wgmma_packed; 0: tensor maps
#endif
#ifndef fixed_k
#define fixed_m 0 // the sizes that it is compiled for; 0: for any
#define fixed_n 0
#define fixed_k 0
#endif

#define HEIGHT (block_m / consumers / 64)
#define WORKERS (128 * consumers)
#define THREADS (WORKERS + 32)
#define READY 2 // the named barrier at which the barriers are initialised
static_assert(HEIGHT * consumers * 64 == block_m, "a warp group has a multiple of 64 rows");
static_assert(stages > in_flight, "a slot is freed only when later products have begun");

#include "anywhere.h"
#include "meet.h"

using Slot = PromptTiles<block_m, block_n, block_k, !transposed_b>;
using Result = PromptOutputs<real, HEIGHT, block_n, false>;
static_assert(Slot::SIZE * stages >= Result::SLOT * 4 * consumers, "the boxes of the store are where the slots were");

// Write sums through shared memory, where `slot` has Result::SLOT bytes for this warp, so that its lanes write
// neighbours: N is no multiple of 8. The first of the warp's outputs is *C, with `rows` and `columns` from there on.
INLINE void write_singly(const Result::Sums &sum, real *C, unsigned slot, int rows, int columns, int N) {
    constexpr int PART = Result::PART, BYTES = Result::ROW_BYTES;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int box = 0; box < Result::BOXES; box++) {
        const int i = box / (block_n / PART), first = box % (block_n / PART) * PART;
#pragma unroll
        for (int j = 0; j < PART; j += 16) {
            const int at = (first + j) / 2, start = lane % 16 * BYTES, byte = 2 * j + lane / 16 * 16;
            const unsigned four[4] = {packed<real>(sum[i][at], sum[i][at + 1]),
                                      packed<real>(sum[i][at + 2], sum[i][at + 3]),
                                      packed<real>(sum[i][at + 4], sum[i][at + 5]),
                                      packed<real>(sum[i][at + 6], sum[i][at + 7])};
            stmatrix_4(slot + start + (byte ^ start >> 3 & BYTES - 16), four);
        }
        __syncwarp();
#pragma unroll 4
        for (int y = 0; y < 16; y++) {
#pragma unroll
            for (int from = 0; from < PART; from += 32) {
                const int x = from + lane, start = y * BYTES;
                if (x < PART && 64 * i + y < rows && first + x < columns) {
                    unsigned short one;
                    asm volatile("ld.shared.u16 %0, [%1];"
                                 : "=h"(one)
                                 : "r"(slot + start + (2 * x ^ start >> 3 & BYTES - 16))
                                 : "memory");
                    ((unsigned short *)C)[(size_t)(64 * i + y) * N + first + x] = one;
                }
            }
        }
        __syncwarp();
    }
}

#if is_packed
using Factor = const Bits *;
#define FACTOR const Bits *__restrict__

INLINE int up(int count, int unit) { return (count + unit - 1) / unit * unit; }

// A matrix in panels of 64 columns, of so many rows each.
struct Panels {
    int rows, count;

    static INLINE Panels of_a(int M, int K) { return {up(M, block_m), up(K, block_k) / 64}; }
    static INLINE Panels of_b(int K, int N) {
        return transposed_b ? Panels{up(N, block_n), up(K, block_k) / 64} : Panels{up(K, block_k), up(N, block_n) / 64};
    }

    // Where a row of a panel begins, in numbers.
    INLINE size_t at(int matrix, int panel, int row) const {
        return (((size_t)matrix * count + panel) * rows + row) * 64;
    }
};

INLINE void load_piece(unsigned shared, const Bits *from, unsigned bytes, Barrier *barrier, bool is_elected) {
    if (is_elected) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared),
                     "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
                     : "memory");
    }
}

// Ask for both tiles of a slot; a whole warp does.
INLINE void fetch(unsigned slot, Barrier *arrived, Factor a, Factor b, int row, int column, int k, int matrix, int M,
                  int N, int K, bool is_elected) {
    const Panels of_a = Panels::of_a(M, K), of_b = Panels::of_b(K, N);
    expect(arrived, Slot::SIZE, is_elected);
#pragma unroll
    for (int panel = 0; panel < block_k / 64; panel++) {
        load_piece(slot + panel * Slot::PANEL_A, a + of_a.at(matrix, k / 64 + panel, row), Slot::PANEL_A, arrived,
                   is_elected);
    }
#pragma unroll
    for (int panel = 0; panel < (transposed_b ? block_k : block_n) / 64; panel++) {
        const size_t at =
            transposed_b ? of_b.at(matrix, k / 64 + panel, column) : of_b.at(matrix, column / 64 + panel, k);
        load_piece(slot + Slot::SIZE_A + panel * Slot::PANEL_B, b + at, Slot::PANEL_B, arrived, is_elected);
    }
}
#else
#define FACTOR const __grid_constant__ CUtensorMap

INLINE void fetch(unsigned slot, Barrier *arrived, const CUtensorMap &map_a, const CUtensorMap &map_b, int row,
                  int column, int k, int matrix, int, int, int, bool is_elected) {
    Slot::fetch<false>(slot, arrived, &map_a, &map_b, row, column, k, matrix, is_elected, 0, 0);
}
#endif

KERNEL void __launch_bounds__(THREADS, 1) CLUSTER
    wgmma_split(real *C, FACTOR factor_a, FACTOR factor_b, float *workspace, int *semaphores, int M, int N, int K,
                int batch, float alpha, float beta) {
#if fixed_k
    M = fixed_m, N = fixed_n, K = fixed_k;
#endif
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    char *const start = aligned_shared(memory, 1024);
    const unsigned slots = shared_address(start);
    const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0); // known to be the same in a warp
    if (warp == 4 * consumers && threadIdx.x % 32 == 0) {
#if !is_packed
        prefetch_map(&factor_a);
        prefetch_map(&factor_b);
#endif
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
            initialize(&freed[slot], consumers); // all that read it
        }
        fence_initialized();
    }

    // The tile of this block, and its part of the depth.
    const unsigned high = (M + block_m - 1) / block_m, wide = (N + block_n - 1) / block_n;
    const unsigned tile = blockIdx.x / SPLITS, split = blockIdx.x % SPLITS;
    const unsigned lines = by_columns ? wide : high, across = by_columns ? high : wide;
    const unsigned matrix = tile / (high * wide), in_matrix = tile - matrix * (high * wide);
    const unsigned first = in_matrix / (band * across) * band, in_band = in_matrix - first * across;
    const unsigned here = band == 1 ? 1 : min(band, lines - first);
    const unsigned other = in_band / here, line = first + in_band - other * here;
    const int row = (by_columns ? other : line) * block_m, column = (by_columns ? line : other) * block_n;
    const Steps steps(split, K);

    Ring<stages> ring;
    if (warp == 4 * consumers) {
        __syncwarp(); // the others of this warp wait at the barriers, too
        arrive_named(READY, THREADS);
        const bool leads = is_elected();
#pragma unroll 1 // code that has not run before is slow to come
        for (int k = 0; k < steps.count; k++) {
            wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
            fetch(slots + ring.slot * Slot::SIZE, &arrived[ring.slot], factor_a, factor_b, row, column,
                  (steps.begin + k) * block_k, matrix, M, N, K, leads);
            ring.advance();
        }
        return;
    }

    wait_named(READY, THREADS);
    const int group_row = warp / 4 * (64 * HEIGHT), warp_row = group_row + warp % 4 * 16;
    const Slot factors(slots, group_row);
    const auto release = [&](int slot) {
        if (threadIdx.x % 128 == 0) {
            arrive(&freed[slot]);
        }
    };
    float sum[HEIGHT][block_n / 2];
    if (SPLITS > 1 && steps.count == 0) { // more splits than steps
#pragma unroll
        for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
            for (int j = 0; j < block_n / 2; j++) {
                sum[i][j] = 0.0f;
            }
        }
    }
    for (int k = 0; k < steps.count; k++) {
        wait(&arrived[ring.slot], ring.parity);
        factors.multiply<real>(sum, ring.slot, k > 0);
        wait_for_products<in_flight>();
        if (k >= in_flight) {
            release(in_flight == 0 ? ring.slot : ring.slot > 0 ? ring.slot - 1 : stages - 1);
        }
        ring.advance();
    }
    wait_for_products<0>();
    settle(sum);
    wait_named(WORKING, WORKERS); // all products are done: shared memory is free

    real *const C_here = C + (size_t)matrix * M * N;
#if SPLITS == 1
    const unsigned store = slots + warp * Result::SLOT;
    if (width_c == 8) {
        if (alpha != 1.0f || beta != 0.0f) {
            Result::scale(sum, C_here, row + group_row, column, M, N, alpha, beta);
        }
        Result::write(sum, C_here, store, row + warp_row, column, M, N);
        return;
    }
    if (beta == 0.0f) {
        if (alpha != 1.0f) {
            Result::scale(sum, C_here, row + group_row, column, M, N, alpha, 0.0f);
        }
        write_singly(sum, C_here + (size_t)(row + warp_row) * N + column, store, M - row - warp_row, N - column, N);
        return;
    }
#endif
    const int lane = threadIdx.x % 32, y = row + warp_row + lane / 4, x = column + lane % 4 * 2;
    const Fours<real, block_n / 8, 64, (width_c > 1)> outputs = {
        C_here + (size_t)y * N + x, M - y, N - x, N, alpha, beta};
    meet((const float(&)[HEIGHT * block_n / 8][4])sum, outputs, split, tile, (float4 *)start, workspace, semaphores);
}
