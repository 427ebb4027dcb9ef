// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, halves multiplied by wgmma: rows need not begin at multiples of 16
// bytes.
//
// A is M x K and B is K x N, of halves; C is M x N, of floats. Two steps: `pack` copies A and B to scratch, and
// `wgmma_packed` multiplies them, by blocks that stay, as in 11_wgmma_persistent.
//
// Against 11_wgmma_persistent: the TMA copies boxes of an array only if its rows begin at multiples of 16 bytes. Where K
// or N is no multiple of 8, both matrices are copied first. As they are copied anyway, they are left as wgmma wants them
// in shared memory: in panels of 64 columns, whose rows are 128 bytes, swizzled.
//
//     panel 0: rows 0, 1, 2, ..     | panel 1: rows 0, 1, 2, ..     | ..      columns 0 to 63, 64 to 127, ..
//
// - A tile of A is then one piece of memory for every 64 of the depth, and a tile of B one for every 64 columns: whole
//   pieces are fetched (cp.async.bulk), without tensor maps.
// - Panels have zeros beyond the last row and column, up to whole tiles: nobody asks where a matrix ends.
// - pack reads the two vectors of 16 bytes that cover eight neighbours of a row, and moves them in registers. With
//   shuffled = 1 a lane gets the second one from the next lane.
// - Rows of C begin anywhere, too. Sums pass through shared memory, so that the lanes of a warp write neighbours.
// Against 13_unaligned, which multiplies by mma.sync and copies nothing: the copies are M K + K N halves, read and
// written once. That pays where there are many rows and columns. On an H200 the best take 0.232 ms at 4095, of which
// 0.040 to pack, 0.043 at 2047 and 0.016 at 1023: 3.9, 2.7 and 1.9 times as fast as cuBLAS. 13_unaligned takes 0.552
// at 4095, and 11_wgmma_persistent 0.194 at 4096. Rows of C that the TMA stores but for their ends were no faster.
// Ideas: packing, as in GotoBLAS and BLIS; the rest as in 11_wgmma_persistent.
#include "portable.h"
#include "shifted.h"
#include "wgmma.h"

#ifndef block_m
#define block_m 128 // rows of a tile
#endif
#ifndef block_n
#define block_n 256 // columns of a tile
#endif
#ifndef block_k
#define block_k 64 // depth of a tile
#endif
#ifndef stages
#define stages 4 // slots in shared memory, each for a tile of A and one of B
#endif
#ifndef consumers
#define consumers 2 // warp groups that multiply; they share a tile's rows
#endif
#ifndef cluster_m
#define cluster_m 1 // blocks below one another, which share B
#endif
#ifndef producer_registers
#define producer_registers 40 // of each thread of the warp group that fetches
#endif
#ifndef consumer_registers
#define consumer_registers 232 // of each thread of the others
#endif
#ifndef in_flight
#define in_flight 0 // groups of products that may go on while the next one begins
#endif
#ifndef band
#define band 4 // rows of tiles per band, or columns
#endif
#ifndef by_columns
#define by_columns 1 // 1: bands of columns of tiles
#endif
#ifndef shuffled
#define shuffled 1 // 1: lanes of pack pass what they load to the lane before; 0: each loads all that it needs
#endif
#ifndef pack_rows
#define pack_rows 2 // rows per thread of `pack`
#endif

#define HEIGHT (block_m / consumers / 64)
#define THREADS (128 * (consumers + 1))
#define PACK_WARPS 8
#define PACK_COLUMNS 256 // of a warp: eight per lane
#define PITCH 40         // floats from one row of sums to the next: lanes write to different banks
static_assert(HEIGHT * consumers * 64 == block_m, "a warp group has a multiple of 64 rows");
static_assert(block_n % 64 == 0, "a tile has whole panels");
static_assert(stages > in_flight, "a slot is freed only when later products have begun");
static_assert(64 % (PACK_WARPS * pack_rows) == 0, "the blocks of pack have whole groups of rows");

using half = unsigned short; // its bits: pack only moves halves
using Slot = Tiles<block_m, block_n, block_k, true, 1, cluster_m>;

INLINE int up(int count, int unit) { return (count + unit - 1) / unit * unit; }

// A matrix in panels of 64 columns, of so many rows each.
struct Panels {
    int rows, count;

    static INLINE Panels of_a(int M, int K) { return {up(M, block_m * cluster_m), up(K, block_k) / 64}; }
    static INLINE Panels of_b(int K, int N) { return {up(K, block_k), up(N, block_n) / 64}; }

    // Where a row of a panel begins, in halves.
    INLINE size_t at(int matrix, int panel, int row) const {
        return (((size_t)matrix * count + panel) * rows + row) * 64;
    }
};

// Eight neighbours, of which `count` lie in the matrix; the others become 0.
INLINE uint4 load_each(const half *source, int count) {
    unsigned pairs[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned low = 2 * i < count ? source[2 * i] : 0, high = 2 * i + 1 < count ? source[2 * i + 1] : 0;
        pairs[i] = low | high << 16;
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

INLINE unsigned next_lane(unsigned value) { return __shfl_down_sync(0xffffffff, value, 1); }

// Copies A and B to panels. A warp copies 256 columns of pack_rows rows. Blocks are (those of A, then those of B;
// batch).
KERNEL void __launch_bounds__(PACK_WARPS * 32)
    pack(half *packed_a, half *packed_b, const half *__restrict__ A, const half *__restrict__ B, int M, int N, int K,
         int batch) {
    const Panels of_a = Panels::of_a(M, K), of_b = Panels::of_b(K, N);
    const int blocks_a = of_a.rows / (PACK_WARPS * pack_rows) * ((of_a.count + 3) / 4);
    const bool is_a = (int)blockIdx.x < blocks_a;
    const Panels panels = is_a ? of_a : of_b;
    const int rows = is_a ? M : K, columns = is_a ? K : N;
    const half *const matrix = (is_a ? A : B) + (size_t)blockIdx.y * rows * columns;
    const half *const end = (is_a ? A : B) + (size_t)batch * rows * columns;
    half *const packed = is_a ? packed_a : packed_b;

    const int block = is_a ? blockIdx.x : blockIdx.x - blocks_a, across = (panels.count + 3) / 4;
    const int column = block % across * PACK_COLUMNS + threadIdx.x % 32 * 8;
    const int first_row = block / across * (PACK_WARPS * pack_rows) + threadIdx.x / 32;
    const int in_row = columns - column; // halves from the first one to the end of the row
    uint4 low[pack_rows], high[pack_rows];
    bool at_once[pack_rows];
#pragma unroll
    for (int i = 0; i < pack_rows; i++) {
        const int row = first_row + i * PACK_WARPS;
        const half *const source = matrix + (size_t)row * columns + column, *const vectors = source - shift_of(source);
        at_once[i] = row < rows && in_row >= 8 && vectors + 16 <= end;
        const bool is_there = row < rows && vectors + 8 <= end, is_last = !shuffled || threadIdx.x % 32 == 31;
        low[i] = is_there ? *(const uint4 *)vectors : make_uint4(0, 0, 0, 0);
        high[i] = at_once[i] && is_last ? *(const uint4 *)(vectors + 8) : make_uint4(0, 0, 0, 0);
    }
#if shuffled
#pragma unroll
    for (int i = 0; i < pack_rows; i++) {
        const uint4 next = make_uint4(next_lane(low[i].x), next_lane(low[i].y), next_lane(low[i].z), next_lane(low[i].w));
        high[i] = threadIdx.x % 32 < 31 ? next : high[i];
    }
#endif
    if (column / 64 >= panels.count) {
        return;
    }
#pragma unroll
    for (int i = 0; i < pack_rows; i++) {
        const int row = first_row + i * PACK_WARPS;
        const half *const source = matrix + (size_t)row * columns + column;
        const uint4 eight =
            at_once[i] ? moved(low[i], high[i], shift_of(source)) : load_each(source, row < rows ? in_row : 0);
        *(uint4 *)(packed + panels.at(blockIdx.y, column / 64, row) + (column / 8 ^ row) % 8 * 8) = eight;
    }
}

// Begin to copy so many bytes to shared memory, of all blocks whose bits are set in `mask`; see hopper.h.
INLINE void load_piece(unsigned short mask, unsigned shared, const half *from, unsigned bytes, Barrier *barrier) {
    const size_t global = __cvta_generic_to_global(from);
    if (cluster_m > 1) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1], %2, [%3], %4;" ::"r"(shared),
                     "l"(global), "r"(bytes), "r"(shared_address(barrier)), "h"(mask)
                     : "memory");
    } else {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared),
                     "l"(global), "r"(bytes), "r"(shared_address(barrier))
                     : "memory");
    }
}

// Write alpha sum + beta C. Each warp passes 16 rows and 32 columns at once through its `staging`, so that its lanes
// write neighbours.
INLINE void write_sums(const float (&sum)[HEIGHT][block_n / 2], float *C, float *staging, int row, int column, int M,
                       int N, float alpha, float beta) {
    const int lane = threadIdx.x % 32;
    row += threadIdx.x % 128 / 32 * 16;
#pragma unroll
    for (int i = 0; i < HEIGHT; i++) {
#pragma unroll
        for (int first = 0; first < block_n; first += 32) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const int below = j % 2 * 8, at = first / 2 + j * 2;
                *(float2 *)(staging + (lane / 4 + below) * PITCH + j / 2 * 8 + lane % 4 * 2) =
                    make_float2(alpha * sum[i][at], alpha * sum[i][at + 1]);
            }
            __syncwarp();
            const int here = M - row - 64 * i, x = column + first + lane;
            float *const to = C + (size_t)(row + 64 * i) * N + x;
            if (x < N) {
#pragma unroll
                for (int y = 0; y < 16; y++) {
                    if (y < here) {
                        const float value = staging[y * PITCH + lane];
                        __stcs(to + (size_t)y * N, beta != 0.0f ? value + beta * to[(size_t)y * N] : value);
                    }
                }
            }
            __syncwarp();
        }
    }
}

KERNEL void __launch_bounds__(THREADS, 1)
    wgmma_packed(float *C, const half *packed_a, const half *packed_b, int M, int N, int K, int batch, float alpha,
                 float beta) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    const unsigned slots = shared_address(aligned_shared(memory, 1024)), rank = cluster_m > 1 ? cluster_rank() : 0;
    const int group = warp_group(), count = (K + block_k - 1) / block_k;
    const int high = (M + block_m * cluster_m - 1) / (block_m * cluster_m); // clusters below one another
    const int wide = (N + block_n - 1) / block_n;
    const int step = gridDim.x / cluster_m, total = high * wide * batch;
    int tile = blockIdx.x / cluster_m;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
            initialize(&freed[slot], consumers * cluster_m); // all that read it
        }
        fence_barriers();
    }
    if (cluster_m > 1) {
        sync_cluster(); // the other block's barriers are there, too
    } else {
        __syncthreads();
    }

    // The first row and column of this block, and the matrix.
    int row, column, matrix;
    const auto locate = [&](int tile) {
        const int lines = by_columns ? wide : high, across = by_columns ? high : wide;
        const int in_matrix = tile % (high * wide), first = in_matrix / (band * across) * band;
        const int in_band = in_matrix - first * across, here = min(band, lines - first);
        const int line = first + in_band % here, other = in_band / here;
        matrix = tile / (high * wide);
        row = ((by_columns ? other : line) * cluster_m + rank) * block_m;
        column = (by_columns ? line : other) * block_n;
    };

    Ring<stages> ring;
    if (group == 0) {
        if (consumers > 1) {
            give_registers<producer_registers>();
        }
        if (threadIdx.x == 0) {
            constexpr int share = block_k / cluster_m; // of the rows of B
            const Panels of_a = Panels::of_a(M, K), of_b = Panels::of_b(K, N);
            for (; tile < total; tile += step) {
                locate(tile);
                for (int k = 0; k < count; k++) {
                    const unsigned slot = slots + ring.slot * Slot::SIZE;
                    Barrier *const barrier = &arrived[ring.slot];
                    wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
                    expect(barrier, Slot::SIZE);
#pragma unroll
                    for (int panel = 0; panel < block_k / 64; panel++) {
                        load_piece(1 << rank, slot + panel * Slot::PANEL_A,
                                   packed_a + of_a.at(matrix, k * (block_k / 64) + panel, row), Slot::PANEL_A, barrier);
                    }
#pragma unroll
                    for (int panel = 0; panel < block_n / 64; panel++) {
                        load_piece((1 << cluster_m) - 1,
                                   slot + Slot::SIZE_A + panel * Slot::PANEL_B + rank * share * 128,
                                   packed_b + of_b.at(matrix, column / 64 + panel, k * block_k + rank * share),
                                   share * 128, barrier);
                    }
                    ring.advance();
                }
            }
        }
    } else {
        if (consumers > 1) {
            take_registers<consumer_registers>();
        }
        const int first_row = (group - 1) * (64 * HEIGHT), thread = threadIdx.x % 128;
        float *const staging = (float *)(aligned_shared(memory, 1024) + stages * Slot::SIZE) +
                               (threadIdx.x / 32 - 4) * (16 * PITCH); // of this warp
        const auto release = [&](int slot) {
            if (cluster_m > 1) {
                if (thread < cluster_m) {
                    arrive_at(&freed[slot], thread);
                }
            } else if (thread == 0) {
                arrive(&freed[slot]);
            }
        };
        for (; tile < total; tile += step) {
            float sum[HEIGHT][block_n / 2];
            for (int k = 0; k < count; k++) {
                wait(&arrived[ring.slot], ring.parity);
                Slot::multiply<__half>(sum, slots + ring.slot * Slot::SIZE, first_row, k > 0);
                if (k == 0) {
                    locate(tile); // its divisions take no time while products go on
                }
                wait_for_products<in_flight>();
                if (k >= in_flight) {
                    release(in_flight == 0 ? ring.slot : ring.slot > 0 ? ring.slot - 1 : stages - 1);
                }
                ring.advance();
            }
            wait_for_products<0>();
            settle(sum);
            if (in_flight) {
                release(ring.slot > 0 ? ring.slot - 1 : stages - 1);
            }
            write_sums(sum, C + (size_t)matrix * M * N, staging, row + first_row, column, M, N, alpha, beta);
        }
    }
    if (cluster_m > 1) {
        sync_cluster(); // the other block may still write to this one's memory, and arrive at its barriers
    }
}
