// C[b] = alpha * A[b] B[b] + beta * C[b], row-major, all of 16 bits, multiplied by wgmma: blocks that stay, and start
// quickly.
//
// A is M x K, B is K x N, or N x K where transposed_b is 1 (a linear layer), and C is M x N; all are float16 or all
// bfloat16. One warp group fetches and `consumers` multiply, as in hgemm/11_wgmma_persistent, which explains the
// parameters.
//
// Against that one:
// - Where a tile lies is told without a division, but for one at most. Five divisions, one after the other, came before
//   the first tile was asked for: 0.3 to 0.5 us of 10 at 1024, of 28 at 2048.
// - producer_registers = 0: no registers change hands, where the sums of a warp group do not need it.
// - Every other band is walked backwards.
// - early: the first tiles are asked for before the other warps know of their barriers. This pays at some sizes only.
// - Blocks share nothing. In clusters of two, each takes 1 us longer, and less traffic from the L2 cache saved nothing.
// - C is stored by the TMA alone, and has 16 bits.
// On the border, what lies outside of A and B is read as 0, and the TMA writes nothing outside of C.
// Ideas: CUTLASS (persistent, cooperative, pingpong), ThunderKittens (the default's tile, without clusters), DeepGEMM
// (bands). Compute capability 9.0: see hopper.h.
#include "portable.h"
#include "hgemm/wgmma.h"

#ifndef real
#define real __half
#endif
#ifndef transposed_b
#define transposed_b 0 // 1: B is N x K
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
#define pingpong 0 // 1: they have tiles of their own, and take turns; 0: they share a tile's rows
#endif
#ifndef producer_registers
#define producer_registers 40 // of each thread of the warp group that fetches; 0: as many as the others have
#endif
#ifndef consumer_registers
#define consumer_registers 232 // of each thread of the others, where they take some
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
#ifndef store_slots
#define store_slots 1 // boxes of 16 rows per warp, for the store
#endif
#ifndef late_store
#define late_store 0 // 1: a tile is stored, box by box, while the next one is multiplied
#endif
#ifndef early
#define early 0 // 1: the first tiles are fetched before the warps have met
#endif

#define ROWS (pingpong ? block_m : block_m / consumers) // of a warp group
#define HEIGHT (ROWS / 64)
#define THREADS (128 * (consumers + 1))
static_assert(ROWS % 64 == 0 && (pingpong || ROWS * consumers == block_m), "a warp group has a multiple of 64 rows");
static_assert(!pingpong || consumers == 2, "two warp groups take turns");
static_assert(stages > in_flight, "a slot is freed only when later products have begun");
static_assert(!late_store || store_slots == 1, "what is stored late goes through one slot");
static_assert(producer_registers == 0 || producer_registers + consumers * consumer_registers <=
                                             65536 / THREADS / 8 * 8 * (consumers + 1),
              "the warp groups have the registers that the block was launched with");

using Slot = Tiles<block_m, block_n, block_k, !transposed_b>;
using Result = Outputs<real, HEIGHT, block_n>;

// The tiles of all matrices, one band after the other. A band begins where the one before ended, with tiles of B, or of
// A, that the L2 cache still holds.
struct Order {
    int high, wide, matrices; // tiles below one another, and beside one another

    // The first row and column of a tile, and its matrix.
    INLINE void locate(unsigned tile, int &row, int &column, int &matrix) const {
        const unsigned lines = by_columns ? wide : high, across = by_columns ? high : wide;
        unsigned number = 0, line, other; // of the band, in it, and along it
        matrix = 0;
        if (matrices > 1) {
            matrix = tile / (lines * across);
            tile -= matrix * lines * across;
        }
        if (tile >= band * across) {
            number = tile / (band * across);
            tile -= number * band * across;
        }
        if ((number + 1) * band <= lines) { // then the divisor is a power of two, and known
            line = tile % band, other = tile / band;
        } else {
            const unsigned here = lines - number * band;
            other = tile / here, line = tile - other * here;
        }
        line += number * band;
        other = number % 2 ? across - 1 - other : other;
        row = (by_columns ? other : line) * block_m;
        column = (by_columns ? line : other) * block_n;
    }
};

KERNEL void __launch_bounds__(THREADS, 1)
    wgmma_quick(real *C, const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                const __grid_constant__ CUtensorMap map_c, int M, int N, int K, int batch, float alpha, float beta) {
    extern __shared__ char memory[];
    __shared__ Barrier arrived[stages], freed[stages];

    const unsigned slots = shared_address(aligned_shared(memory, 1024));
    const Order order = {(M + block_m - 1) / block_m, (N + block_n - 1) / block_n, batch};
    const int group = warp_group(), count = (K + block_k - 1) / block_k, total = order.high * order.wide * batch;
    int tile = blockIdx.x, row, column, matrix, fetched = 0;
    const auto fetch = [&](int slot, int k) {
        Slot::fetch(slots + slot * Slot::SIZE, &arrived[slot], &map_a, &map_b, row, column, k * block_k, matrix, 0);
    };
    if (threadIdx.x == 128) { // beside the thread that initialises the barriers
        prefetch_map(&map_a);
        prefetch_map(&map_b);
        prefetch_map(&map_c);
    }
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; slot++) {
            initialize(&arrived[slot], 1);
            initialize(&freed[slot], pingpong ? 1 : consumers); // all that read it
        }
        fence_barriers();
        if (early) {
            order.locate(tile, row, column, matrix);
            for (; fetched < min(stages, count); fetched++) {
                fetch(fetched, fetched);
            }
        }
    }
    __syncthreads();

    Ring<stages> ring;
    if (group == 0) {
        if (producer_registers) {
            give_registers<producer_registers ? producer_registers : 24>();
        }
        if (threadIdx.x == 0) {
            ring.skip(fetched);
            for (; tile < total; tile += gridDim.x) {
                order.locate(tile, row, column, matrix);
                for (int k = fetched; k < count; k++) {
                    wait(&freed[ring.slot], ring.parity ^ 1); // at first, the phase before the first has ended
                    fetch(ring.slot, k);
                    ring.advance();
                }
                fetched = 0;
            }
        }
        return;
    }

    if (producer_registers) {
        take_registers<producer_registers ? consumer_registers : 24>();
    }
    const int first_row = pingpong ? 0 : (group - 1) * ROWS, thread = threadIdx.x % 128;
    const unsigned store = slots + stages * Slot::SIZE + (threadIdx.x / 32 - 4) * store_slots * Result::SLOT;
    const auto release = [&](int slot) {
        if (thread == 0) {
            arrive(&freed[slot]);
        }
    };
    bool is_first = true;
    if (pingpong && group == 2) {
        tile += gridDim.x;
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
    for (; tile < total; tile += (pingpong ? 2 : 1) * gridDim.x) {
        float sum[HEIGHT][block_n / 2];
        if (pingpong && !is_first) {
            wait_named(group, 256); // until the other warp group has begun its last product
        }
        is_first = false;
        for (int k = 0; k < count; k++) {
            wait(&arrived[ring.slot], ring.parity);
            Slot::multiply<real>(sum, slots + ring.slot * Slot::SIZE, first_row, k > 0);
            if (k == 0) {
                order.locate(tile, row, column, matrix); // it takes no time while products go on
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
        if (pingpong && tile + gridDim.x < total) {
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

        Result::scale(sum, C + (size_t)matrix * M * N, row + first_row, column, M, N, alpha, beta);
#if late_store
        for (int box = count; is_held && box < Result::BOXES; box++) {
            store_held(box);
        }
        Result::pack(sum, held);
        held_row = row + first_row, held_column = column, held_matrix = matrix;
        is_held = true;
#else
        Result::store<store_slots>(sum, &map_c, store, row + first_row, column, matrix);
#endif
    }
#if late_store
    for (int box = 0; is_held && box < Result::BOXES; box++) {
        store_held(box);
    }
#endif
    if (thread % 32 == 0) {
        wait_for_reads(); // shared memory lasts no longer than this block
    }
}
