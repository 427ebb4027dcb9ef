// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, 16-bit numbers multiplied by wgmma: blocks that stay, in pairs.
//
// A is M x K, and B is K x N, or N x K where transposed_b is 1 (a linear layer); both are float16 or both bfloat16. C
// is M x N, of floats or of the same type (float_out = 0). As many blocks as the GPU has multiprocessors take one tile
// after the other. In a block, one warp group fetches and `consumers` multiply, as in 10_wgmma_specialized.
//
// Against 10_wgmma_specialized, where each block starts with empty slots, ends with a store, and fetches for itself:
// - blocks: they stay. While sums are written, the tiles that the next outputs need are fetched, and neither starting a
//   block nor filling its queue takes time. With 128 of 132 multiprocessors, power is left for a higher clock.
// - cluster_m, cluster_n: blocks below one another share tiles of B, and blocks beside one another tiles of A. Each
//   fetches its share for all, by multicast, so that less is read from the L2 cache.
// - pingpong: the two warp groups that multiply have outputs of their own, and take turns: one multiplies while the
//   other writes. Without it they share block_m rows, so that block_n may be larger.
// - band, by_columns: tiles are walked in bands of so many rows of tiles, or of columns, which the L2 cache holds.
// - tma_store: sums go to shared memory by stmatrix, and the TMA stores them, whole lines at once, while products go
//   on. store_slots is how many boxes of 16 rows each warp has for that.
// - late_store: a warp group rounds its sums to 16 bits, which takes half of their registers, and stores them box by
//   box while it multiplies the next tile. Then tensor cores wait for no store.
// On an H200 at 4096, the best with floats takes 0.194 ms instead of 0.201. With 16 bits out it takes 0.176, and the
// best of cuBLASLt beside it 0.178; at 8192 1.327 and 1.341, and sustained 1.562 and 1.573. The tensor cores have no
// gap then: a tile of 128 x 256 takes 1023 cycles for 64 of the depth, and they need 1024. Four such tiles, with their
// stores and the first wait, are 276,000 cycles, or 0.139 ms at 1980 MHz. So the clock is lower while it runs: what
// saves power makes it faster. What is left at 4096 are the multiprocessors that 512 tiles leave idle: 132 of them make
// 4224 rows in 1.2 % more time than 128 make 4096. At 2048 and 1024 it reaches 0.98 and 0.96 of the best of cuBLASLt.
// There, 8.8 of 27.8 us and 7.5 of 9.7 us pass at K = 64, too: launch, first tiles and store. To store the last tile
// from all of shared memory at once, and to fetch the first tiles before the other warps and the other block are there,
// made that no shorter. To find the first tile with one division instead of five did: see gemm16/wgmma_quick.
// On the border, what lies outside of A and B is read as 0, and the TMA writes nothing outside of C. A block beyond the
// last row or column of tiles, whose cluster has another one inside, multiplies zeros.
// Ideas: CUTLASS (persistent, cooperative, pingpong, multicast, tile order), fast.cu (128 multiprocessors, the
// default's tile), DeepGEMM (bands by the smaller footprint). Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "wgmma.h"

#ifndef real
#define real __half // the type of A and B
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
#endif
#ifndef float_out
#define float_out 1 // 1: C is of floats; 0: of the type of A and B
#endif
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
#define consumers 2 // warp groups that multiply
#endif
#ifndef pingpong
#define pingpong 0 // 1: they have tiles of their own; 0: they share a tile's rows
#endif
#ifndef cluster_m
#define cluster_m 2 // blocks below one another, which share B
#endif
#ifndef cluster_n
#define cluster_n 1 // blocks beside one another, which share A
#endif
#ifndef producer_registers
#define producer_registers 40 // of each thread of the warp group that fetches
#endif
#ifndef consumer_registers
#define consumer_registers 232 // of each thread of the others
#endif
#ifndef in_flight
#define in_flight 1 // groups of products that may go on while the next one begins
#endif
#ifndef band
#define band 1 // rows of tiles per band, or columns
#endif
#ifndef by_columns
#define by_columns 0 // 1: bands of columns of tiles
#endif
#ifndef tma_store
#define tma_store 1 // 1: the TMA stores, from shared memory; 0: threads store
#endif
#ifndef store_slots
#define store_slots 1 // boxes of 16 rows per warp, for tma_store
#endif
#ifndef late_store
#define late_store 0 // 1: a tile is stored, box by box, while the next one is multiplied
#endif

#define ROWS (pingpong ? block_m : block_m / consumers) // of a warp group
#define HEIGHT (ROWS / 64)
#define THREADS (128 * (consumers + 1))
#define CLUSTER (cluster_m * cluster_n)
static_assert(ROWS % 64 == 0 && (pingpong || ROWS * consumers == block_m), "a warp group has a multiple of 64 rows");
static_assert(!pingpong || consumers == 2, "two warp groups take turns");
static_assert(stages > in_flight, "a slot is freed only when later products have begun");
static_assert(!late_store || tma_store && store_slots == 1 && !float_out,
              "what is stored late is packed, and goes through one slot");
static_assert(consumers == 1 || producer_registers + consumers * consumer_registers <= 65536 / THREADS / 8 * 8 *
                                                                                          (consumers + 1),
              "the warp groups have the registers that the block was launched with");

#if float_out
using Output = float;
#else
using Output = real;
#endif
using Slot = Tiles<block_m, block_n, block_k, !transposed_b, cluster_n, cluster_m>;
using Result = Outputs<Output, HEIGHT, block_n>;

KERNEL void __launch_bounds__(THREADS, 1)
    wgmma_persistent(Output *C, const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_c, int M, int N, int K, int batch, float alpha,
                     float beta) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    const unsigned slots = shared_address(aligned_shared(memory, 1024)), rank = CLUSTER > 1 ? cluster_rank() : 0;
    const int group = warp_group(), count = (K + block_k - 1) / block_k;
    const int high = (M + block_m * cluster_m - 1) / (block_m * cluster_m); // clusters below one another
    const int wide = (N + block_n * cluster_n - 1) / (block_n * cluster_n);
    const int step = gridDim.x / CLUSTER, total = high * wide * batch;
    int tile = blockIdx.x / CLUSTER;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
            initialize(&freed[slot], (pingpong ? 1 : consumers) * Slot::PARTNERS); // all that read it
        }
        fence_barriers();
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        if (tma_store) {
            prefetch_map(&map_c);
        }
    }
    if (CLUSTER > 1) {
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
        row = ((by_columns ? other : line) * cluster_m + rank % cluster_m) * block_m;
        column = ((by_columns ? line : other) * cluster_n + rank / cluster_m) * block_n;
    };

    Ring<stages> ring;
    if (group == 0) {
        if (consumers > 1) {
            give_registers<producer_registers>();
        }
        if (threadIdx.x == 0) {
            for (; tile < total; tile += step) {
                locate(tile);
                for (int k = 0; k < count; k++) {
                    wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
                    Slot::fetch(slots + ring.slot * Slot::SIZE, &arrived[ring.slot], &map_a, &map_b, row, column,
                                k * block_k, matrix, rank);
                    ring.advance();
                }
            }
        }
    } else {
        if (consumers > 1) {
            take_registers<consumer_registers>();
        }
        const int first_row = pingpong ? 0 : (group - 1) * ROWS, thread = threadIdx.x % 128;
        const unsigned store =
            slots + stages * Slot::SIZE + (threadIdx.x / 32 - 4) * store_slots * Result::SLOT; // of this warp
        const unsigned partner = thread < Slot::PARTNERS ? Slot::partner(rank, thread) : 0;
        const auto release = [&](int slot) {
            if (CLUSTER > 1) {
                if (thread < Slot::PARTNERS) {
                    arrive_at(&freed[slot], partner);
                }
            } else if (thread == 0) {
                arrive(&freed[slot]);
            }
        };
        bool is_first = true;
        if (pingpong && group == 2) {
            tile += step;
            ring.skip(count);
            is_first = false;
        }
#if late_store
        Result::Packed held; // the tile before this one
        int held_row, held_column, held_matrix;
        bool is_held = false;
        const auto store_held = [&](int box) {
            Result::store_packed(box, held, &map_c, store, held_row, held_column, held_matrix);
        };
#endif
        for (; tile < total; tile += pingpong ? 2 * step : step) {
            float sum[HEIGHT][block_n / 2];
            if (pingpong && !is_first) {
                wait_named(group, 256); // until the other warp group has begun its last product
            }
            is_first = false;
            for (int k = 0; k < count; k++) {
                wait(&arrived[ring.slot], ring.parity);
                Slot::multiply<real>(sum, slots + ring.slot * Slot::SIZE, first_row, k > 0);
                if (k == 0) {
                    locate(tile); // its divisions take no time while products go on
                }
#if late_store
                if (is_held && k < Result::BOXES) {
                    store_held(k);
                }
#endif
                wait_for_products<in_flight>();
                if (k >= in_flight) {
                    release(in_flight == 0 ? ring.slot : ring.slot > 0 ? ring.slot - 1 : stages - 1);
                }
                ring.advance();
            }
            if (pingpong && tile + step < total) {
                arrive_named(3 - group, 256);
            }
            wait_for_products<0>();
            settle(sum);
            if (in_flight) {
                release(ring.slot > 0 ? ring.slot - 1 : stages - 1);
            }
            if (pingpong) {
                ring.skip(count); // the slots of the other warp group's tile
            }

            Output *const C_here = C + (size_t)matrix * M * N;
            Result::scale(sum, C_here, row + first_row, column, M, N, alpha, beta);
#if late_store
            for (int box = count; is_held && box < Result::BOXES; box++) {
                store_held(box);
            }
            Result::pack(sum, held);
            held_row = row + first_row, held_column = column, held_matrix = matrix;
            is_held = true;
#else
            if (tma_store) {
                Result::store<store_slots>(sum, &map_c, store, row + first_row, column, matrix);
            } else {
                Result::write(sum, C_here, row + first_row, column, M, N);
            }
#endif
        }
#if late_store
        for (int box = 0; is_held && box < Result::BOXES; box++) {
            store_held(box);
        }
#endif
        if (tma_store && thread % 32 == 0) {
            wait_for_reads(); // shared memory lasts no longer than this block
        }
    }
    if (CLUSTER > 1) {
        sync_cluster(); // the other block may still write to this one's memory, and arrive at its barriers
    }
}
